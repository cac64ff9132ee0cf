public import XMPPCore

/// An item of a node.
///
/// ```swift
/// let item = PubSubItem(id: "current", payload: Element("nick", namespace: UserNick.node, text: "Juliet"))
/// ```
///
/// Source: XEP-0060 section 7.1.1.
public struct PubSubItem: Hashable, Sendable {
    /// The id, unique in the node. Nil lets the service choose one when it is published.
    public var id: ForeignText?
    /// The content of the item; nil if it has none.
    public var payload: Element?
    /// The publisher, in an item that a service sent, if it names one (7.1.2.3). The owner of the node is the service.
    public let publisher: JID?

    /// Makes an item.
    ///
    /// - Parameters:
    ///   - id: The id, unique in the node; nil lets the service choose one.
    ///   - payload: What the item holds; nil for nothing.
    public init(id: (any TextConvertible)? = nil, payload: Element? = nil) {
        self.init(id: id?.foreignText, payload: payload, publisher: nil)
    }

    package init(id: ForeignText?, payload: Element?, publisher: JID?) {
        (self.id, self.payload, self.publisher) = (id, payload, publisher)
    }

    /// Reads an `<item/>` of an answer or an event.
    init(_ element: Element) {
        self.init(
            id: element["id"], payload: element.firstElement,
            publisher: element["publisher"].flatMap { try? JID(received: $0) })
    }

    var element: Element {
        Element(
            "item", namespace: Namespaces.pubsub, attributes: ["id": id],
            children: payload.map { [$0] } ?? [])
    }
}

/// The selection of items to fetch.
///
/// ```swift
/// try await account.send(.pubsub(.items(of: node, .newest(1)), at: juliet), then: Profile.fetched())
/// ```
public enum PubSubSelection: Hashable, Sendable {
    /// All of them. A service may still leave some out when there are very many; ask for pages then.
    case all
    /// The most recent ones, at most that many; 1 or more.
    case newest(Int)
    /// Items with these ids; at least one. Items that do not exist are left out of the answer.
    case ids([ForeignText])
}
