/// The attributes that all three kinds of stanza share (RFC 6120 section 8.1), read and checked once.
struct StanzaAddress: Hashable, Sendable {
    let to: JID?
    let from: JID?
    let id: ForeignText?
}

extension StanzaAddress {
    init(_ element: Element, name: String) throws(StanzaFormatError) {
        guard element.name == name, Namespaces.isContent(element.namespace) else {
            throw StanzaFormatError(
                .wrongElement,
                "Pass <\(name)/> in '\(Namespaces.client)', not <\(element.name.prefix(bytes: 64)) xmlns='\(element.namespace.prefix(bytes: 64))'/>."
            )
        }
        to = try Self.jid(element, "to")
        from = try Self.jid(element, "from")
        id = element["id"]
    }

    private static func jid(_ element: Element, _ attribute: String) throws(StanzaFormatError) -> JID? {
        guard let text = element[attribute] else { return nil }
        do {
            return try JID(received: text)
        } catch {
            throw StanzaFormatError(
                .malformedAddress, "Correct '\(attribute)' of <\(element.name)/>.", cause: error)
        }
    }
}
