/// Presence: availability, or a step of a subscription.
///
/// ```swift
/// let available = Presence()
/// let gone = Presence(type: .unavailable)
/// ```
///
/// Source: RFC 6121 sections 3 and 4.
public struct Presence: ReadStanza, AddressedStanza {
    /// The type of a presence. No type means "available" (RFC 6121 section 4.7.1).
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A presence of ours that could not be delivered.
        case error
        /// A server asks for the current presence.
        case probe
        /// A request to see the recipient's presence.
        case subscribe
        /// Allows the recipient to see ours.
        case subscribed
        /// No longer available.
        case unavailable
        /// Gives up a subscription.
        case unsubscribe
        /// Refuses or ends the recipient's subscription.
        case unsubscribed
    }

    /// The element as it came or was built.
    public let element: Element
    /// The type of the presence; nil for available.
    public let type: Kind?
    let address: StanzaAddress
    var isError: Bool { type == .error }

    /// The `id`, chosen by the sender.
    public var id: ForeignText? { address.id }

    /// Reads a presence.
    ///
    /// - Parameter element: `<presence/>` in a content namespace.
    /// - Throws: `StanzaFormatError` when the element is no presence, its type is unknown, or an address malformed.
    public init(element: Element) throws(StanzaFormatError) {
        address = try StanzaAddress(element, name: "presence")
        type = try Self.kind(element["type"])
        self.element = element
    }

    private static func kind(_ text: ForeignText?) throws(StanzaFormatError) -> Kind? {
        guard let text else { return nil }
        guard let kind = Kind(text) else {
            throw StanzaFormatError(
                .unknownType,
                "Leave out the type of the <presence/>, or use one of RFC 6121, not '\(text.prefix(bytes: 64))'."
            )
        }
        return kind
    }

    /// Makes a presence.
    ///
    /// - Parameters:
    ///   - type: What it says, nil for available.
    ///   - to: The recipient, nil for everyone who is subscribed.
    ///   - from: The sender; a client leaves it to its server.
    ///   - id: The sender's id, nil for none.
    ///   - children: Child elements.
    ///   - namespace: The content namespace of the stream.
    public init(
        type: Kind? = nil, to: JID? = nil, from: JID? = nil, id: (any TextConvertible)? = nil,
        children: [Element] = [], namespace: any TextConvertible = Namespaces.client
    ) {
        self.type = type
        address = StanzaAddress(to: to, from: from, id: id?.foreignText)
        element = Element(
            "presence", namespace: namespace.foreignText,
            attributes: ["type": type?.rawValue, "id": id, "to": to?.description, "from": from?.description],
            children: children)
    }

    /// The priority, -128 to 127. 0 when there is none or it is no such number (RFC 6121 section 4.7.2.3).
    public var priority: Int8 { element.child("priority", element.namespace).flatMap { Int8($0.text) } ?? 0 }
}
