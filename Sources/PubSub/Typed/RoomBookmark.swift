public import XMPPCore

/// A room that a user keeps, one item for each.
///
/// ```swift
/// try await account.request(.pubsub(.publish(RoomBookmark(council, name: "Council", joinsByItself: true), configuring: true)))
/// ```
///
/// Source: XEP-0402 section 2.
public struct RoomBookmark: PubSubPayload, Hashable {
    public static let node = "urn:xmpp:bookmarks:1"
    /// Without them contacts could read which rooms the user is in (section 3.3).
    public static let options: [PubSubOption] = [
        .persistItems(true), .maximumItems(nil),
        PubSubOption("pubsub#send_last_published_item", ["never"]), .accessModel(.whitelist),
    ]

    /// The room's address, which is the item's id.
    public var room: JID
    /// The user's name for the room.
    public var name: ForeignText?
    /// Whether clients join it by themselves.
    public var joinsByItself: Bool
    /// The user's name in the room; nil for ``UserNick``.
    public var nick: ForeignText?
    /// The room's password; it is stored as it is.
    public var password: ForeignText?
    /// The elements of other clients, which a change must keep (section 3.4).
    public var others: [Element]

    /// Makes a bookmark.
    ///
    /// - Parameters:
    ///   - room: The room's address; a nickname is left out.
    ///   - name: What the user calls it; nil for nothing.
    ///   - joinsByItself: Whether clients join it by themselves.
    ///   - nick: The user's name in the room; nil for none.
    ///   - password: The room's password; nil for none.
    ///   - others: What other clients have put there and must find again.
    public init(
        _ room: JID, name: (any TextConvertible)? = nil, joinsByItself: Bool = false,
        nick: (any TextConvertible)? = nil, password: (any TextConvertible)? = nil, others: [Element] = []
    ) {
        (self.room, self.name, self.joinsByItself) = (room.bare, name?.foreignText, joinsByItself)
        (self.nick, self.password, self.others) = (nick?.foreignText, password?.foreignText, others)
    }

    public var itemID: ForeignText? { room.foreignText }

    public init(_ element: Element, itemID: ForeignText?) throws {
        guard element.has(name: "conference", namespace: Self.node) else {
            throw PubSubPayloadError.unexpected(element, on: Self.node)
        }
        guard let room = itemID.flatMap({ try? JID(received: $0) }), room.isBare else {
            throw PubSubPayloadError(
                .unreadable, "an item of the node '\(Self.node)' is not named after a room; leave it out")
        }
        let known = ["nick", "password"]
        self.init(
            room, name: element["name"], joinsByItself: (try? element.value(of: "autojoin")) == true,
            nick: element.child("nick", Self.node)?.text,
            password: element.child("password", Self.node)?.text,
            others: element.elements.filter { $0.namespace != Self.node || !known.contains($0.name) })
    }

    public var element: Element {
        let texts = [("nick", nick), ("password", password)].compactMap { name, text in
            text.map { Element(name, namespace: Self.node, text: $0) }
        }
        return Element(
            "conference", namespace: Self.node,
            attributes: ["autojoin": joinsByItself ? "true" : nil, "name": name], children: texts + others)
    }
}
