/// Prepares user names and passwords for SASL: a documented subset of SASLprep (RFC 4013).
///
/// Done: other spaces become U+0020; characters that map to nothing are left out; control characters,
/// surrogates, private use, non-characters and tagging characters are refused; so is an empty result. ASCII
/// text, which most passwords are, is prepared exactly.
///
/// Not done: Unicode normalization (NFKC) and the check of text direction. A password that was set with
/// composed letters must be given with composed letters, which is how keyboards give them.
package enum SASLprep {
    /// - Parameter what: What the text is, for the error: "password".
    package static func prepared(_ text: String, what: String) throws(SASLError) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if isMappedToNothing(scalar) { continue }
            if scalar.properties.generalCategory == .spaceSeparator || scalar.value == 0x200B {
                result.append(" ")
            } else if isForbidden(scalar) {
                throw SASLError(
                    .forbiddenCredentials,
                    "The \(what) holds a character that cannot be used to log in "
                        + "(U+\(String(scalar.value, radix: 16, uppercase: true))); change the \(what).")
            } else {
                result.append(scalar)
            }
        }
        guard !result.isEmpty else {
            throw SASLError(.forbiddenCredentials, "The \(what) is empty; give one.")
        }
        return String(result)
    }

    /// RFC 3454 table B.1.
    private static func isMappedToNothing(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0xAD, 0x34F, 0x1806, 0x180B...0x180D, 0x200C, 0x200D, 0x2060, 0xFE00...0xFE0F, 0xFEFF: true
        default: false
        }
    }

    /// RFC 3454 tables C.2 to C.9 (C.1.2 is mapped to space before).
    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .surrogate, .privateUse, .lineSeparator, .paragraphSeparator: return true
        default: break
        }
        switch scalar.value {
        case 0x6DD, 0x70F, 0x180E, 0x2061...0x2063, 0x206A...0x206F, 0xFFF9...0xFFFD, 0x1D173...0x1D17A:
            return true
        case 0x2FF0...0x2FFB, 0x340, 0x341, 0x200E, 0x200F, 0x202A...0x202E, 0xE0000...0xE007F: return true
        default: return scalar.properties.isNoncharacterCodePoint
        }
    }
}
