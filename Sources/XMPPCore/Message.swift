/// A message: pushed to its recipient, not answered.
///
/// ```swift
/// let message = Message(to: try JID("romeo@montague.example"), id: "m1", body: "Wherefore art thou?")
/// ```
///
/// Source: RFC 6121 section 5.
public struct Message: ReadStanza, AddressedStanza {
    /// The type of a message (RFC 6121 section 5.2.2).
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Part of a one-to-one conversation.
        case chat
        /// A message of ours that could not be delivered.
        case error
        /// Part of a room's conversation.
        case groupchat
        /// News; no reply is expected and it is never stored for later.
        case headline
        /// A single message.
        case normal
    }

    /// The element as it came or was built.
    public let element: Element
    /// The type of the message. A missing or unknown type means normal (RFC 6121 section 5.2.2).
    public let type: Kind
    let address: StanzaAddress
    var isError: Bool { type == .error }

    /// The `id`, chosen by the sender.
    public var id: ForeignText? { address.id }

    /// Reads a message.
    ///
    /// - Parameter element: `<message/>` in a content namespace.
    /// - Throws: `StanzaFormatError` when the element is no message or an address is malformed.
    public init(element: Element) throws(StanzaFormatError) {
        address = try StanzaAddress(element, name: "message")
        type = element["type"].flatMap { Kind($0) } ?? .normal
        self.element = element
    }

    /// Makes a message.
    ///
    /// - Parameters:
    ///   - to: The recipient.
    ///   - from: The sender; a client leaves it to its server.
    ///   - type: How it is meant.
    ///   - id: The sender's id, nil for none.
    ///   - body: The text, nil for none.
    ///   - children: Further child elements, after the body.
    ///   - namespace: The content namespace of the stream.
    public init(
        to: JID?, from: JID? = nil, type: Kind = .chat, id: (any TextConvertible)? = nil,
        body: (any TextConvertible)? = nil,
        children: [Element] = [], namespace: any TextConvertible = Namespaces.client
    ) {
        let bodies = body.map { [Element("body", namespace: namespace.foreignText, text: $0)] } ?? []
        self.type = type
        address = StanzaAddress(to: to, from: from, id: id?.foreignText)
        element = Element(
            "message", namespace: namespace.foreignText,
            attributes: ["type": type.rawValue, "id": id, "to": to?.description, "from": from?.description],
            children: bodies + children)
    }

    /// The text: the body without a language of its own, or else the first one.
    public var body: ForeignText? {
        let bodies = element.children("body", element.namespace)
        return (bodies.first { $0["xml:lang"] == nil } ?? bodies.first)?.text
    }
}
