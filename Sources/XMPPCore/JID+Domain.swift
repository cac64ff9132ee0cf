extension JIDPreparation {
    /// The domainpart (RFC 7622 section 3.2): host name, IPv4 address, or IPv6 address in brackets.
    static func domain(_ text: Substring) throws(JIDError) -> ForeignText {
        var text = text
        // RFC 7622 section 3.2: a final dot of a fully qualified name is not part of the address.
        if text.utf8.last == UInt8(ascii: ".") { text = text[..<text.utf8.index(before: text.endIndex)] }
        try checkLength(text, .domainpart)
        if text.utf8.first == UInt8(ascii: "[") { return ForeignText(try address(text)) }
        if hasPlainLabels(text), !mayHoldALabel(text) { return ForeignText(String(text)) }
        let dotted = foldWidth(text).lowercased().unicodeScalars.map {
            "\u{3002}\u{FF61}".unicodeScalars.contains($0) ? "." : $0
        }
        let mapped = String(String.UnicodeScalarView(dotted))
        try checkScalars(mapped, of: text)
        let composed = try unicodeForm(composed(mapped), of: text)
        try checkLength(composed[...], .domainpart)
        try checkLabels(composed[...], of: text)
        return ForeignText(composed)
    }

    /// Returns every label in Unicode: an A-label as its U-label (RFC 7622 section 3.2.2).
    private static func unicodeForm(_ domain: String, of text: Substring) throws(JIDError) -> String {
        guard mayHoldALabel(domain[...]) else { return domain }
        var decoded: [String] = []
        for label in labels(of: domain[...]) {
            decoded.append(
                label.utf8.starts(with: Punycode.prefix.utf8) ? try decode(label, of: text) : String(label))
        }
        return decoded.joined(separator: ".")
    }

    /// RFC 5891 section 5.4: its decoded form must be a U-label, written as that U-label is written.
    private static func decode(_ label: Substring, of text: Substring) throws(JIDError) -> String {
        guard let decoded = Punycode.decode(label.dropFirst(Punycode.prefix.count)),
            !decoded.utf8.allSatisfy({ $0 < 0x80 }), decoded.foreignText == decoded.lowercased(),
            Array(composed(decoded).utf8) == Array(decoded.utf8),
            decoded.unicodeScalars.allSatisfy(isAllowedInDomain),
            label.foreignText == Punycode.prefix + Punycode.encode(decoded.unicodeScalars)
        else {
            throw JIDError(
                .invalidLabel, .domainpart, text,
                "Correct the label '\(label.foreignText.prefix(bytes: 64))'; it is not the encoded form of any name."
            )
        }
        return decoded
    }

    /// Returns the labels, cut at every dot, also at one with a combining mark after it, which is one Character with it.
    private static func labels(of domain: Substring) -> [Substring] {
        domain.unicodeScalars.split(separator: ".", omittingEmptySubsequences: false).map(Substring.init)
    }

    /// Few domains have an `x` and two hyphens.
    private static func mayHoldALabel(_ domain: Substring) -> Bool {
        domain.utf8.contains(UInt8(ascii: "x"))
            && labels(of: domain).contains { $0.utf8.starts(with: Punycode.prefix.utf8) }
    }

    /// Returns whether it is as nearly all domains are: labels of ASCII that need no preparation and break no rule. In one
    /// pass, because every stanza has some.
    private static func hasPlainLabels(_ domain: Substring) -> Bool {
        var length = 0
        var last = UInt8(ascii: ".")
        for byte in domain.utf8 {
            switch byte {
            case UInt8(ascii: "."):
                guard length > 0, length <= 63, last != UInt8(ascii: "-") else { return false }
                length = 0
            case UInt8(ascii: "-") where length == 0: return false
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"):
                length += 1
            default: return false
            }
            last = byte
        }
        return length > 0 && length <= 63 && last != UInt8(ascii: "-")
    }

    private static func checkScalars(_ mapped: String, of text: Substring) throws(JIDError) {
        for scalar in mapped.unicodeScalars where !isAllowedInDomain(scalar) {
            if scalar == ":" {
                throw JIDError(
                    .port, .domainpart, text,
                    "Remove the ':' from the domain; give a port to the connection instead, and an IPv6 address in brackets."
                )
            }
            throw JIDError(
                .forbiddenCharacter, .domainpart, text,
                "Remove \(name(of: scalar)) from the domain; it may hold letters, digits, '-', '_' and dots.")
        }
    }

    /// Letters, digits and marks of any script (RFC 5892 section 2). The underscore is no host name character, but
    /// names with it are in use inside private networks.
    private static func isAllowedInDomain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "0"..."9", "-", "_", ".": true
        case "\u{0}"..."\u{7F}": false
        default: isIdentifier(scalar)
        }
    }

    private static func checkLabels(_ domain: Substring, of text: Substring) throws(JIDError) {
        for label in labels(of: domain) {
            if label.isEmpty {
                throw JIDError(
                    .invalidLabel, .domainpart, text, "Remove the empty label (two dots, or one in front).")
            }
            if label.utf8.first == UInt8(ascii: "-") || label.utf8.last == UInt8(ascii: "-") {
                throw JIDError(.invalidLabel, .domainpart, text, "Remove the '-' from the end of the label.")
            }
            let isPlain = label.utf8.allSatisfy { $0 < 0x80 }
            if !isPlain { try checkUnicodeLabel(label, of: text) }
            let count = isPlain ? label.utf8.count : encodedLength(label)
            if count > 63 {
                throw JIDError(
                    .invalidLabel, .domainpart, text, "Shorten the label of \(count) octets to 63.")
            }
        }
    }

    /// Returns the length of a label in DNS, if it can fit: each scalar takes an octet or more.
    private static func encodedLength(_ label: Substring) -> Int {
        let scalars = label.unicodeScalars.count
        if scalars > 63 { return scalars }
        return Punycode.prefix.utf8.count + Punycode.encode(label.unicodeScalars).utf8.count
    }

    /// RFC 5891 section 4.2.3.
    private static func checkUnicodeLabel(_ label: Substring, of text: Substring) throws(JIDError) {
        let isMark = label.unicodeScalars.first.map {
            [.nonspacingMark, .spacingMark].contains($0.properties.generalCategory)
        }
        if isMark == true {
            throw JIDError(
                .invalidLabel, .domainpart, text, "Remove the combining mark from the start of the label.")
        }
        if label.unicodeScalars.dropFirst(2).starts(with: "--".unicodeScalars) {
            throw JIDError(
                .invalidLabel, .domainpart, text, "Remove the '--' from the third place of the label.")
        }
        try checkCompany(String(label), .domainpart, text)
    }

    // MARK: IPv6

    private static func address(_ text: Substring) throws(JIDError) -> String {
        guard let close = text.utf8.firstIndex(of: UInt8(ascii: "]")) else {
            throw JIDError(.invalidAddress, .domainpart, text, "Close the IPv6 address with ']'.")
        }
        let behind = text[text.utf8.index(after: close)...]
        if behind.utf8.first == UInt8(ascii: ":") {
            throw JIDError(.port, .domainpart, text, "Remove the port; give it to the connection instead.")
        }
        let inside = text[text.utf8.index(after: text.startIndex)..<close]
        guard behind.isEmpty, isIPv6(inside) else {
            throw JIDError(
                .invalidAddress, .domainpart, text, "Write an IPv6 address in the brackets, such as [::1].")
        }
        return text.lowercased()
    }

    /// RFC 4291 section 2.2: eight groups of hexadecimal digits, one `::`, an IPv4 address for the last two.
    static func isIPv6(_ text: Substring) -> Bool {
        let halves = splitAtDoubleColon(text)
        guard halves.count <= 2 else { return false }
        var groups = 0
        for (index, half) in halves.enumerated() where !half.isEmpty {
            guard let count = countGroups(half, mayEndInIPv4: index == halves.count - 1) else { return false }
            groups += count
        }
        return halves.count == 2 ? groups <= 7 : groups == 8
    }

    private static func splitAtDoubleColon(_ text: Substring) -> [Substring] {
        var halves: [Substring] = []
        var start = text.startIndex
        var index = text.startIndex
        while index < text.endIndex {
            let next = text.utf8.index(after: index)
            if next < text.endIndex, text.utf8[index] == UInt8(ascii: ":"),
                text.utf8[next] == UInt8(ascii: ":")
            {
                halves.append(text[start..<index])
                start = text.utf8.index(after: next)
                index = start
            } else {
                index = next
            }
        }
        return halves + [text[start...]]
    }

    private static func countGroups(_ half: Substring, mayEndInIPv4: Bool) -> Int? {
        let groups = half.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        var count = 0
        for (index, group) in groups.enumerated() {
            if mayEndInIPv4, index == groups.count - 1, group.contains(UInt8(ascii: ".")) {
                guard isIPv4(Substring(group)) else { return nil }
                count += 2
            } else {
                guard (1...4).contains(group.count), group.allSatisfy(isHexDigit) else { return nil }
                count += 1
            }
        }
        return count
    }

    private static func isIPv4(_ text: Substring) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 4
            && parts.allSatisfy {
                (1...3).contains($0.count) && UInt8(Substring($0)) != nil && $0.allSatisfy(isDigit)
            }
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        isDigit(byte) || (byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "f"))
    }
}
