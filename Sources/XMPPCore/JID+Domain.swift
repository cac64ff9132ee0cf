extension JIDPreparation {
    /// The domainpart (RFC 7622 section 3.2): host name, IPv4 address, or IPv6 address in brackets.
    static func domain(_ text: Substring) throws(JIDError) -> String {
        var text = text
        // RFC 7622 section 3.2: a final dot of a fully qualified name is not part of the address.
        if text.utf8.last == UInt8(ascii: ".") { text = text[..<text.utf8.index(before: text.endIndex)] }
        try checkLength(text, .domainpart)
        if text.utf8.first == UInt8(ascii: "[") { return try address(text) }
        if text.utf8.allSatisfy(isPlainDomain) {
            try checkLabels(text, of: text)
            return String(text)
        }
        let mapped = String(
            String.UnicodeScalarView(
                foldWidth(text).lowercased().unicodeScalars.map { $0 == "\u{3002}" ? "." : $0 }))
        try checkScalars(mapped, of: text)
        try checkLength(mapped[...], .domainpart)
        try checkLabels(mapped[...], of: text)
        return mapped
    }

    private static func isPlainDomain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"):
            true
        default: false
        }
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
        default: isLetterOrDigit(scalar)
        }
    }

    private static func checkLabels(_ domain: Substring, of text: Substring) throws(JIDError) {
        for label in domain.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            if label.isEmpty {
                throw JIDError(
                    .invalidLabel, .domainpart, text, "Remove the empty label (two dots, or one in front).")
            }
            if label.count > 63 {
                throw JIDError(
                    .invalidLabel, .domainpart, text, "Shorten the label of \(label.count) octets to 63.")
            }
            if label.first == UInt8(ascii: "-") || label.last == UInt8(ascii: "-") {
                throw JIDError(.invalidLabel, .domainpart, text, "Remove the '-' from the end of the label.")
            }
        }
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
