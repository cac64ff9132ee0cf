public import XMPPCore

/// The name that a user gives himself.
///
/// ```swift
/// try await account.request(.pubsub(.publish(UserNick("Juliet"))))
/// ```
///
/// Source: XEP-0172 section 4.3.
public struct UserNick: PubSubPayload, Hashable {
    public static let node = Namespaces.nick

    /// The name. It is not unique and proves nothing about its bearer.
    public var name: ForeignText

    /// Makes a name.
    ///
    /// - Parameter name: The name, as the user writes it.
    public init(_ name: some TextConvertible) { self.name = name.foreignText }

    public init(_ element: Element, itemID: ForeignText?) throws {
        guard element.has(name: "nick", namespace: Namespaces.nick) else {
            throw PubSubPayloadError.unexpected(element, on: Self.node)
        }
        name = element.text
    }

    public var element: Element { Element("nick", namespace: Namespaces.nick, text: name) }
}
