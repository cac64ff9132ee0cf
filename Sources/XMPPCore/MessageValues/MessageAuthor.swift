/// The author of a message, for the comparison of corrections, retractions and reactions.
///
/// ```swift
/// var reactions: [MessageAuthor: [ForeignText]] = [:]
/// if let author = message.author(), let given = message.reactions { reactions[author] = given.reactions }
/// ```
///
/// Source: XEP-0308 section 4, XEP-0424 section 5, XEP-0444 section 4.1.
public struct MessageAuthor: Hashable, Sendable, Codable {
    /// The bare address. Of an occupant of a room the address with the nickname.
    public let jid: JID
    /// The occupant's id in the room, whatever the nickname (XEP-0421). Nil where the room gives none.
    public let occupantID: ForeignText?
}

extension Message {
    /// Returns the author of this message. Nil if it names none, and for errors.
    ///
    /// One of type `groupchat`, or one that says that it is a room's (XEP-0045 section 7.5), is of an occupant. Not every
    /// server says that of a private message: a program that knows the room says it.
    ///
    /// - Parameter amongOccupants: Whether it is a private message of an occupant of a room.
    /// - Returns: The author, with an occupant id if there is one: believe that only of a room that has the feature
    ///   `urn:xmpp:occupant-id:0`; of others anybody may write it.
    public func author(amongOccupants: Bool = false) -> MessageAuthor? {
        guard type != .error, let from else { return nil }
        guard amongOccupants || isOfOccupant else { return MessageAuthor(jid: from.bare, occupantID: nil) }
        let id = only("occupant-id", Namespaces.occupantID)?["id"]
        return MessageAuthor(jid: from, occupantID: id)
    }

    /// Whether the message says of itself that it comes through a room.
    private var isOfOccupant: Bool { type == .groupchat || element.child("x", Namespaces.mucUser) != nil }

    /// Returns whether another message is of the same author and kind: what was said to one is not changed in a room.
    func isOfSameAuthor(as other: Message, _ amongOccupants: Bool) -> Bool {
        guard (type == .groupchat) == (other.type == .groupchat),
            let author = author(amongOccupants: amongOccupants)
        else { return false }
        return author == other.author(amongOccupants: amongOccupants)
    }

    /// The id that the room of a room's message gave it; what anybody else wrote is none.
    var idInRoom: ForeignText? {
        guard type == .groupchat, let room = from?.bare else { return nil }
        return stanzaID(by: room)
    }

    /// The id that reactions and replies to this message contain. Nil if it has none, or one of more than 1024 bytes.
    ///
    /// In a room it is the one that the room gave it: ask whether the room has the feature `urn:xmpp:sid:0`, for
    /// otherwise an occupant wrote that. Elsewhere it is the sender's.
    ///
    /// Source: XEP-0444 section 4.2, XEP-0461 section 4.1.
    public var referenceID: ForeignText? {
        // A longer one is not repeated: the server may not take so much.
        let id = (type == .groupchat ? idInRoom : originID)?.token
        return id?.isEmpty == true ? nil : id
    }

    /// The only child of that name in that namespace, and of a message that is no error.
    ///
    /// Of several nobody can say which one is meant, and clients would disagree. An error brings back what was refused: it
    /// says nothing new.
    func only(_ name: String, _ namespace: String) -> Element? {
        guard type != .error else { return nil }
        let found = element.children(name, namespace)
        return found.count == 1 ? found[0] : nil
    }

    /// Returns the value of the only child of that name; nil if it is invalid.
    func payload<Value>(
        _ name: String, _ namespace: String, _ read: (Element) throws(ElementValueError) -> Value
    ) -> Value? {
        only(name, namespace).flatMap { try? read($0) }
    }
}

extension Element {
    /// The id that names a message, which an empty one does not.
    func reference() throws(ElementValueError) -> ForeignText {
        let id = try value(of: "id", as: ForeignText.self)
        guard !id.isEmpty else { throw ElementValueError(self, .attribute("id"), id, ForeignText.self) }
        return id
    }
}
