/// Preparation of the three parts of a JID (RFC 7622 sections 3.2 to 3.4). Pure functions.
enum JIDPreparation {
    /// UsernameCaseMapped (RFC 8265 section 3.3) in the subset that `JID` documents.
    static func local(_ text: Substring) throws(JIDError) -> String {
        try checkLength(text, .localpart)
        let mapped = text.utf8.allSatisfy(isPlainLocal) ? String(text) : foldWidth(text).lowercased()
        if let bad = mapped.unicodeScalars.first(where: isForbiddenInLocal) {
            throw JIDError(
                .forbiddenCharacter, .localpart, text,
                "Remove \(name(of: bad)) from the name before the '@'; RFC 7622 section 3.3.1 forbids it.")
        }
        try checkLength(mapped[...], .localpart)
        return mapped
    }

    /// OpaqueString (RFC 8265 section 4.2) in the subset that `JID` documents.
    static func resource(_ text: Substring) throws(JIDError) -> String {
        try checkLength(text, .resourcepart)
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) { return String(text) }
        var mapped = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if scalar.properties.generalCategory == .control || scalar.properties.isNoncharacterCodePoint {
                throw JIDError(
                    .forbiddenCharacter, .resourcepart, text,
                    "Remove \(name(of: scalar)) from the resource; control characters cannot stand in a JID.")
            }
            mapped.append(scalar.properties.generalCategory == .spaceSeparator ? " " : scalar)
        }
        return String(mapped)
    }

    // MARK: Characters

    private static func isPlainLocal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// Everything outside IdentifierClass (RFC 8264 section 4.2), and the excluded ASCII of RFC 7622 section 3.3.1.
    private static func isForbiddenInLocal(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\"", "&", "'", "/", ":", "<", ">", "@": true
        case "!"..."~": false
        default: !isLetterOrDigit(scalar)
        }
    }

    /// LetterDigits of RFC 8264 section 9.1, what RFC 5892 appendix A allows in context (without the context), and
    /// code points that this Unicode version does not know.
    static func isLetterOrDigit(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\u{200C}", "\u{200D}", "\u{B7}", "\u{375}", "\u{5F3}", "\u{5F4}", "\u{30FB}": return true
        default: break
        }
        if scalar.properties.isDefaultIgnorableCodePoint { return false }
        switch scalar.properties.generalCategory {
        case .lowercaseLetter, .uppercaseLetter, .otherLetter, .modifierLetter, .nonspacingMark, .spacingMark,
            .decimalNumber:
            return true
        case .unassigned: return !scalar.properties.isNoncharacterCodePoint
        default: return false
        }
    }

    /// Fullwidth ASCII to ASCII (RFC 8265 section 3.3.1, the width mapping rule).
    static func foldWidth(_ text: Substring) -> String {
        var folded = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let isFullwidth = (0xFF01...0xFF5E).contains(scalar.value)
            folded.append(isFullwidth ? Unicode.Scalar(UInt8(scalar.value - 0xFEE0)) : scalar)
        }
        return String(folded)
    }

    // MARK: Checks

    static func checkLength(_ text: Substring, _ part: JIDError.Part) throws(JIDError) {
        let count = text.utf8.count
        if count == 0 {
            throw JIDError(.empty, part, text, "Give the \(part.rawValue) at least one character.")
        }
        if count > JID.maximumPartLength {
            throw JIDError(
                .tooLong, part, text,
                "Shorten the \(part.rawValue) to \(JID.maximumPartLength) octets of UTF-8; it has \(count).")
        }
    }

    static func name(of scalar: Unicode.Scalar) -> String {
        let hex = String(scalar.value, radix: 16, uppercase: true)
        let code = "U+" + String(repeating: "0", count: max(0, 4 - hex.count)) + hex
        return (0x21...0x7E).contains(scalar.value) ? "'\(scalar)'" : code
    }
}
