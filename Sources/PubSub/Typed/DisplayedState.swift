public import XMPPCore

/// The last displayed message of a conversation, for the user's other clients. One item for each conversation.
///
/// ```swift
/// if let seen = DisplayedState(of: peer, upTo: call.message, of: call.account.address) {
///     try call.account.send(.pubsub(.publish(seen, configuring: true)), then: Conversations.noted(), in: call.step)
/// }
/// ```
///
/// It says nothing to the other side; a ``/XMPPCore/DisplayMarker`` does. The state only moves forward: ignore one for an older message,
/// and one for a message that the conversation does not have. A client that starts a session fetches all items, and listens
/// for more. The user's server can do both at once, marker and state, when it has the feature
/// `urn:xmpp:mds:server-assist:0`: put ``element`` beside the marker, in a message to a bare address. Without the feature do
/// not: the other side would see it.
///
/// Source: XEP-0490 version 1.0, sections 4 and 5.
public struct DisplayedState: PubSubPayload, Hashable {
    public static let node = Namespaces.displayed
    /// Options that keep the node private, with one item per conversation.
    ///
    /// Without them contacts could see what the user reads, and the service might keep one conversation only (section 4.2).
    public static let options: [PubSubOption] = [
        .persistItems(true), .maximumItems(nil),
        PubSubOption("pubsub#send_last_published_item", ["never"]), .accessModel(.whitelist),
    ]

    /// The conversation, which is the item's id: a contact's or a room's bare address, or an occupant's full one for private
    /// messages.
    public var chat: JID
    /// The archive's id of the last message that was seen.
    public var messageID: ForeignText
    /// The archive that assigned that id, the room's or the user's own. Nil if the publisher named none.
    public var archive: JID?

    /// Makes the state of a conversation.
    ///
    /// - Parameters:
    ///   - chat: A contact's or a room's bare address, or an occupant's full one for private messages.
    ///   - messageID: The archive's id of the last message that was seen, not empty.
    ///   - archive: Whose archive that is: the room's, or the user's own bare address.
    public init(of chat: JID, upTo messageID: some TextConvertible, in archive: JID) {
        (self.chat, self.messageID, self.archive) = (chat, messageID.foreignText, archive)
    }

    /// Makes the state of a conversation of which a message was seen.
    ///
    /// - Parameters:
    ///   - chat: A contact's or a room's bare address, or an occupant's full one for private messages.
    ///   - message: The last message that was seen, of any kind.
    ///   - user: The user's own address.
    /// - Returns: Nil for a message to which the room, or the user's own archive, gave no id, or one of more than 1024 bytes.
    public init?(of chat: JID, upTo message: Message, of user: JID) {
        let archive = message.type == .groupchat ? chat.bare : user.bare
        guard let id = message.stanzaID(by: archive)?.token, !id.isEmpty else { return nil }
        self.init(of: chat, upTo: id, in: archive)
    }

    public var itemID: ForeignText? { chat.foreignText }

    /// Reads a state.
    ///
    /// - Parameters:
    ///   - element: What the item holds.
    ///   - itemID: The item's id, which names the conversation.
    /// - Throws: ``PubSubPayloadError`` `unreadable` when it holds something else or not one id, or is not named by an
    ///   address; `ElementValueError` when the id is missing or its archive has no address.
    public init(_ element: Element, itemID: ForeignText?) throws {
        let ids = element.children("stanza-id", Namespaces.sid)
        guard element.has(name: "displayed", namespace: Self.node), ids.count == 1 else {
            throw PubSubPayloadError.unexpected(element, on: Self.node)
        }
        guard let chat = itemID.flatMap({ try? JID(received: $0) }) else {
            throw PubSubPayloadError(
                .unreadable,
                "an item of the node '\(Self.node)' is not named after a conversation; leave it out")
        }
        messageID = try ids[0].value(of: "id")
        // Required by XEP-0359 section 3.1, and left out by slixmpp.
        archive = try ids[0].optionalValue(of: "by")
        self.chat = chat
    }

    public var element: Element {
        let id = Element(
            "stanza-id", namespace: Namespaces.sid, attributes: ["by": archive?.description, "id": messageID])
        return Element("displayed", namespace: Self.node, children: [id])
    }
}
