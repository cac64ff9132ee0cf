// Which code points may stand in a localpart or in a label of a domain.
extension JIDPreparation {
    /// IdentifierClass of RFC 8264 section 4.2 but for ASCII; PVALID of RFC 5892 is nearly the same set. What depends
    /// on its neighbors is checked by ``contextFault(_:)``.
    ///
    /// Code points that this version of Unicode does not know pass, so that a peer with newer tables is understood.
    static func isIdentifier(_ scalar: Unicode.Scalar) -> Bool {
        if let isAllowed = exception(scalar) { return isAllowed }
        let properties = scalar.properties
        if properties.isDefaultIgnorableCodePoint || isOldHangul(scalar) || hasCompatibility(scalar) {
            return false
        }
        switch properties.generalCategory {
        case .lowercaseLetter, .uppercaseLetter, .otherLetter, .modifierLetter, .nonspacingMark, .spacingMark,
            .decimalNumber:
            return true
        case .unassigned: return !properties.isNoncharacterCodePoint
        default: return false
        }
    }

    /// RFC 5892 section 2.6, which RFC 8264 section 9.6 takes over.
    private static func exception(_ scalar: Unicode.Scalar) -> Bool? {
        switch scalar.value {
        case 0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007: true
        // With rules about their neighbors.
        case 0xB7, 0x375, 0x5F3, 0x5F4, 0x30FB, 0x200C, 0x200D: true
        case 0x640, 0x7FA, 0x302E, 0x302F, 0x3031...0x3035, 0x303B: false
        default: nil
        }
    }

    /// RFC 8264 section 9.9: the conjoining letters, which would make one syllable writable in many ways.
    private static func isOldHangul(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x1100...0x11FF, 0xA960...0xA97F, 0xD7B0...0xD7FF: true
        default: false
        }
    }

    /// HasCompat of RFC 8264 section 9.17: whether compatibility normalization (NFKC) changes the code point.
    ///
    /// The standard library only says whether NFKC together with case folding does. For the few letters that case
    /// folding changes by itself although they are lower case, the ones with a compatibility form are listed.
    private static func hasCompatibility(_ scalar: Unicode.Scalar) -> Bool {
        let properties = scalar.properties
        guard properties.changesWhenNFKCCaseFolded else { return false }
        guard properties.changesWhenCaseFolded else { return true }
        switch scalar.value {
        case 0xB5, 0x149, 0x17F, 0x3D0, 0x3D1, 0x3D5, 0x3D6, 0x3F0, 0x3F1, 0x3F5, 0x587, 0x1E9A, 0x1E9B,
            0x1FBE,
            0x1FD3, 0x1FE3, 0xFB00...0xFB06, 0xFB13...0xFB17:
            return true
        default: return false
        }
    }

    /// The wide and narrow forms of East Asian typography become the usual ones (RFC 8265 section 3.3.1).
    static func foldWidth(_ text: Substring) -> String {
        var folded = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { folded.append(usualWidth(scalar)) }
        return String(folded)
    }

    private static func usualWidth(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        switch scalar.value {
        case 0xFF01...0xFF5E: Unicode.Scalar(UInt8(scalar.value - 0xFEE0))
        case 0xFF65...0xFF9F: katakana[Int(scalar.value - 0xFF65)]
        default: scalar
        }
    }

    /// What U+FF65 to U+FF9F are in the usual width, by the Unicode character database.
    private static let katakana = Array(
        ("\u{30FB}\u{30F2}\u{30A1}\u{30A3}\u{30A5}\u{30A7}\u{30A9}\u{30E3}\u{30E5}\u{30E7}\u{30C3}\u{30FC}"
            + "\u{30A2}\u{30A4}\u{30A6}\u{30A8}\u{30AA}\u{30AB}\u{30AD}\u{30AF}\u{30B1}\u{30B3}\u{30B5}\u{30B7}"
            + "\u{30B9}\u{30BB}\u{30BD}\u{30BF}\u{30C1}\u{30C4}\u{30C6}\u{30C8}\u{30CA}\u{30CB}\u{30CC}\u{30CD}"
            + "\u{30CE}\u{30CF}\u{30D2}\u{30D5}\u{30D8}\u{30DB}\u{30DE}\u{30DF}\u{30E0}\u{30E1}\u{30E2}\u{30E4}"
            + "\u{30E6}\u{30E8}\u{30E9}\u{30EA}\u{30EB}\u{30EC}\u{30ED}\u{30EF}\u{30F3}\u{3099}\u{309A}")
            .unicodeScalars)

    /// Normalization form C, in which equal texts have equal bytes: a database and DNS compare bytes.
    static func composed(_ text: String) -> String {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text }
        var composer = Composer()
        for scalar in text.unicodeScalars { composer.append(scalar) }
        return composer.finish()
    }
}
