/// A stanza of one of the three kinds. Only these are counted by stream management (XEP-0198 section 4).
///
/// ```swift
/// if case .message(let message)? = try Stanza(element) { print(message.body ?? "") }
/// ```
public enum Stanza: Hashable, Sendable {
    /// A request or answer.
    case iq(IQ)
    /// A message.
    case message(Message)
    /// A presence.
    case presence(Presence)

    /// Reads a stanza. Nil when the element is none, such as `<stream:features/>` or `<r/>`.
    ///
    /// - Parameter element: A complete first-level element of a stream.
    /// - Throws: `StanzaFormatError` when it is a stanza by its name and namespace but is malformed.
    public init?(_ element: Element) throws(StanzaFormatError) {
        guard Stanza.isStanza(element) else { return nil }
        switch element.name {
        case "iq": self = .iq(try IQ(element: element))
        case "message": self = .message(try Message(element: element))
        default: self = .presence(try Presence(element: element))
        }
    }

    /// Returns whether the element is a stanza by its name and namespace, well-formed or not, and so is counted.
    ///
    /// - Parameter element: A first-level element of a stream.
    /// - Returns: Whether it is an iq, a message or a presence.
    package static func isStanza(_ element: Element) -> Bool {
        switch element.name {
        case "iq", "message", "presence": Namespaces.isContent(element.namespace)
        default: false
        }
    }

    /// The element as it came or was built.
    public var element: Element {
        switch self {
        case .iq(let iq): iq.element
        case .message(let message): message.element
        case .presence(let presence): presence.element
        }
    }

    /// The `id`.
    public var id: ForeignText? {
        switch self {
        case .iq(let iq): iq.id
        case .message(let message): message.id
        case .presence(let presence): presence.id
        }
    }

    /// The recipient.
    public var to: JID? {
        switch self {
        case .iq(let iq): iq.to
        case .message(let message): message.to
        case .presence(let presence): presence.to
        }
    }

    /// The sender.
    public var from: JID? {
        switch self {
        case .iq(let iq): iq.from
        case .message(let message): message.from
        case .presence(let presence): presence.from
        }
    }
}
