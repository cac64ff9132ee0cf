/// A stanza of one of the three kinds. Only these are counted by stream management (XEP-0198 section 4).
///
/// ```swift
/// if case .message(let message)? = try Stanza(element) { print(message.body ?? "") }
/// ```
public enum Stanza: ReadStanza, AddressedStanza {
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
    public var element: Element { stanza.element }
    /// The `id`.
    package var id: ForeignText? { address.id }
    var address: StanzaAddress { stanza.address }
    var isError: Bool { stanza.isError }

    private var stanza: any ReadStanza {
        switch self {
        case .iq(let iq): iq
        case .message(let message): message
        case .presence(let presence): presence
        }
    }
}
