// Addresses that others have written. The own server vouches for them: it prepares addresses by tables of its own, most often those
// of stringprep (RFC 3920), which allow symbols that RFC 7622 refuses. A stanza that was dropped for that would be lost.
extension JID {
    /// Reads an address that a server has let through, or one that is stored.
    ///
    /// ```swift
    /// let jid = try JID(received: "♥nurse@capulet.example/ward")  // JID("♥nurse@…") throws
    /// ```
    ///
    /// What ``init(_:)`` reads is read in the same way. A part that its profile refuses is mapped as one that it takes, and kept; so
    /// no address is equal to another one that ``init(_:)`` makes of another text.
    ///
    /// - Parameter text: `domain`, `local@domain`, `domain/resource` or `local@domain/resource`.
    /// - Throws: `JIDError` when a part is empty or too long, or holds what separates the parts, a space or a control character.
    /// - Source: RFC 7622 section 4.
    package init(received text: some TextConvertible) throws(JIDError) {
        let parts = Parts(text.foreignText)
        self.init(
            preparedLocal: try parts.local.map { (text) throws(JIDError) in
                try JIDPreparation.received(text, .localpart, JIDPreparation.local)
            },
            domain: try JIDPreparation.received(parts.domain, .domainpart, JIDPreparation.domain),
            resource: try parts.resource.map { (text) throws(JIDError) in
                try JIDPreparation.received(text, .resourcepart, JIDPreparation.resource)
            })
    }
}

extension JIDPreparation {
    fileprivate static func received(
        _ text: Substring, _ part: JIDError.Part, _ prepare: (Substring) throws(JIDError) -> ForeignText
    ) throws(JIDError) -> ForeignText {
        do throws(JIDError) {
            return try prepare(text)
        } catch {
            let codes: [ErrorCode<JIDError>] = [.forbiddenCharacter, .mixedDirection, .invalidLabel]
            guard codes.contains(error.code), let kept = kept(text, part) else { throw error }
            try checkLength(kept[...], part)
            return ForeignText(kept)
        }
    }

    /// A part mapped without its profile's rules; nil if it could be taken for something else then.
    private static func kept(_ text: Substring, _ part: JIDError.Part) -> String? {
        switch part {
        case .localpart:
            let mapped = composed(foldWidth(text).lowercased())
            return mapped.unicodeScalars.contains(where: separates) ? nil : mapped
        case .domainpart:
            var text = text
            if text.utf8.last == UInt8(ascii: ".") { text = text[..<text.utf8.index(before: text.endIndex)] }
            let dotted = foldWidth(text).lowercased().unicodeScalars.map {
                "\u{3002}\u{FF61}".unicodeScalars.contains($0) ? "." : $0
            }
            let labels = dotted.split(separator: "." as Unicode.Scalar, omittingEmptySubsequences: false).map
            {
                keptLabel(composed(String(String.UnicodeScalarView($0))))
            }
            let isWhole = labels.allSatisfy {
                !$0.isEmpty && !$0.unicodeScalars.contains(where: separatesLabels)
            }
            return isWhole ? labels.joined(separator: ".") : nil
        case .resourcepart:
            let mapped = composed(String(text))
            return mapped.unicodeScalars.contains { isControl($0.value) } ? nil : mapped
        }
    }

    /// The U-label of an A-label, if that is its only one, so that both forms are one address.
    private static func keptLabel(_ label: String) -> String {
        guard label.utf8.starts(with: Punycode.prefix.utf8),
            let decoded = Punycode.decode(label.dropFirst(Punycode.prefix.count)),
            !decoded.utf8.allSatisfy({ $0 < 0x80 }), composed(decoded).utf8.elementsEqual(decoded.utf8),
            decoded.lowercased().utf8.elementsEqual(decoded.utf8),
            label.utf8.elementsEqual((Punycode.prefix + Punycode.encode(decoded.unicodeScalars)).utf8)
        else { return label }
        return decoded
    }

    /// Spaces, control characters, and what separates parts (RFC 3920 appendix A.5).
    private static func separates(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\"", "&", "'", "/", ":", "<", ">", "@": true
        default: isSpace(scalar) || isForbiddenInResource(scalar)
        }
    }

    private static func separatesLabels(_ scalar: Unicode.Scalar) -> Bool {
        separates(scalar) || scalar == "[" || scalar == "]" || scalar == "."
    }

    private static func isControl(_ value: UInt32) -> Bool { value < 0x20 || (0x7F...0x9F).contains(value) }
}
