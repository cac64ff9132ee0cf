// The forms of one address. Most servers still prepare addresses by stringprep (RFC 3920), which writes some letters otherwise than
// RFC 7622: `groß@capulet.example` is `gross@capulet.example` there. To a server of RFC 7622 these are two people, so nobody but the
// server can say whether it is one address: docs/internals/decisions/0013-forms-of-addresses.md.
extension JID {
    /// Returns whether both are one address to a server that prepares by stringprep.
    ///
    /// It is not transitive with what the sender may claim: ask it only of an address that has proved itself otherwise.
    ///
    /// Source: RFC 3491, RFC 3920 appendices A and B, RFC 3454 tables B.1 and B.2.
    package func isForm(of other: JID) -> Bool {
        if self == other { return true }
        // Stringprep changes nothing in ASCII that RFC 7622 keeps.
        guard mayHaveForms || other.mayHaveForms else { return false }
        return JIDPreparation.folded(self) == JIDPreparation.folded(other)
    }

    /// Whether stringprep writes it otherwise.
    package var hasOtherForm: Bool { mayHaveForms && JIDPreparation.folded(self) != self }

    private var mayHaveForms: Bool {
        !(local?.isASCII ?? true) || !domain.isASCII || !(resource?.isASCII ?? true)
    }
}

extension ForeignText {
    fileprivate var isASCII: Bool { utf8.allSatisfy { $0 < 0x80 } }
}

extension JIDPreparation {
    /// The address as stringprep writes it. Of its normalization (NFKC) only what RFC 7622 leaves to be done counts: letters that
    /// have a compatibility form stand in no address that a program can write.
    fileprivate static func folded(_ jid: JID) -> JID {
        JID(
            preparedLocal: jid.local.map(foldedCase), domain: foldedCase(jid.domain),
            resource: jid.resource.map(withoutIgnored))
    }

    /// Table B.2, and B.1. A small letter that is written as capitals in several letters is folded to these: `ß` to `ss`.
    private static func foldedCase(_ text: ForeignText) -> ForeignText {
        if text.isASCII { return text }
        var folded = ""
        for scalar in text.string.unicodeScalars where !isMappedToNothing(scalar) {
            // The small i without a dot has the capital of another letter, and is not folded to it.
            folded += scalar == "\u{131}" ? String(scalar) : foldedCase(scalar)
        }
        return ForeignText(composed(folded))
    }

    private static func foldedCase(_ scalar: Unicode.Scalar) -> String {
        let capital = scalar.properties.lowercaseMapping.unicodeScalars.map(\.properties.uppercaseMapping)
        // Letter by letter: in a word, the last `Σ` would become the letter that is to be folded.
        return capital.joined().unicodeScalars.map(\.properties.lowercaseMapping).joined()
    }

    private static func withoutIgnored(_ text: ForeignText) -> ForeignText {
        if text.isASCII { return text }
        let kept = text.string.unicodeScalars.filter { !isMappedToNothing($0) }
        return ForeignText(composed(String(String.UnicodeScalarView(kept))))
    }

    /// RFC 3454 table B.1.
    private static func isMappedToNothing(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0xAD, 0x34F, 0x1806, 0x180B...0x180D, 0x200B...0x200D, 0x2060, 0xFE00...0xFE0F, 0xFEFF: true
        default: false
        }
    }
}
