/// Preparation of the three parts of a JID (RFC 7622 sections 3.2 to 3.4). Pure functions.
enum JIDPreparation {
    /// UsernameCaseMapped (RFC 8265 section 3.3), in the order of its section 3.3.3.
    static func local(_ text: Substring) throws(JIDError) -> ForeignText {
        try checkLength(text, .localpart)
        if text.utf8.allSatisfy(isPlainLocal) { return ForeignText(String(text)) }
        let mapped = foldWidth(text).lowercased()
        if let bad = mapped.unicodeScalars.first(where: isForbiddenInLocal) {
            throw JIDError(
                .forbiddenCharacter, .localpart, text,
                "Remove \(name(of: bad)) from the name before the '@'; RFC 7622 section 3.3.1 forbids it.")
        }
        let composed = composed(mapped)
        try checkCompany(composed, .localpart, text)
        try checkLength(composed[...], .localpart)
        return ForeignText(composed)
    }

    /// OpaqueString (RFC 8265 section 4.2), lenient: invisible characters, of which emoji are made, pass.
    static func resource(_ text: Substring) throws(JIDError) -> ForeignText {
        try checkLength(text, .resourcepart)
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) { return ForeignText(String(text)) }
        var composer = Composer()
        for scalar in String(text).unicodeScalars {
            if isForbiddenInResource(scalar) {
                throw JIDError(
                    .forbiddenCharacter, .resourcepart, text,
                    "Remove \(name(of: scalar)) from the resource; control characters cannot stand in a JID.")
            }
            composer.append(isSpace(scalar) ? " " : scalar)
        }
        let composed = composer.finish()
        try checkLength(composed[...], .resourcepart)
        return ForeignText(composed)
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
        case "\0"..."\u{7F}": true
        default: !isIdentifier(scalar)
        }
    }

    /// Control characters, private-use characters, separators of lines and noncharacters: sets to which Unicode will never add
    /// (Unicode Character Encoding Stability Policies).
    static func isForbiddenInResource(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0...0x1F, 0x7F...0x9F, 0x2028...0x2029, 0xE000...0xF8FF, 0xFDD0...0xFDEF, 0xF0000...: true
        default: scalar.value & 0xFFFE == 0xFFFE
        }
    }

    /// Zs of the Unicode character database, compared with it by `JIDTests`.
    static func isSpace(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x20, 0xA0, 0x1680, 0x2000...0x200A, 0x202F, 0x205F, 0x3000: true
        default: false
        }
    }

    // MARK: Checks

    /// Checks the context of characters.
    static func checkCompany(_ mapped: String, _ part: JIDError.Part, _ text: Substring) throws(JIDError) {
        if let bad = contextFault(mapped) {
            throw JIDError(
                .forbiddenCharacter, part, text,
                "Remove \(name(of: bad)); it may only stand beside certain letters (RFC 5892 appendix A).")
        }
        guard isDirected(mapped) else {
            throw JIDError(
                .mixedDirection, part, text,
                "Write it in one direction: start and end with a letter that runs to the left, and use no others (RFC 5893)."
            )
        }
    }

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
