// What messages carry beside their text.

/// Chat state (XEP-0085).
///
/// ```swift
/// let message = Message(to: peer, body: "One moment", children: [ChatState.composing.element])
/// ```
///
/// Source: XEP-0085 section 5.2.
public enum ChatState: String, Hashable, Sendable, CaseIterable, Codable {
    /// Looks at the conversation.
    case active
    /// Writes.
    case composing
    /// Has left the conversation.
    case gone
    /// Does not look at it at the moment.
    case inactive
    /// Was writing and has stopped for now.
    case paused

    /// The state as XML, to be added to a message.
    public var element: Element { Element(rawValue, namespace: Namespaces.chatStates) }
}

extension Message {
    /// The chat state of the sender, if the message has one.
    public var chatState: ChatState? {
        element.elements.first { $0.namespace == Namespaces.chatStates }.flatMap { ChatState($0.name) }
    }

    /// When the message was first sent, if it was held up on the way (XEP-0203).
    ///
    /// Any sender can write that; check who it is `from`.
    public var delay: Timestamp? {
        element.child("delay", Namespaces.delay)?["stamp"].flatMap { Timestamp($0) }
    }

    /// Whether the sender wants to know that the message has arrived (XEP-0184 section 5.1).
    package var requestsReceipt: Bool { element.child("request", Namespaces.receipts) != nil }

    /// The id of the message whose arrival this one confirms (XEP-0184 section 5.2).
    package var receivedID: ForeignText? { element.child("received", Namespaces.receipts)?["id"] }

    /// The sender's origin id (XEP-0359 section 3.2), or else the `id`.
    public var originID: ForeignText? { element.child("origin-id", Namespaces.sid)?["id"] ?? id }

    /// Returns the id under which an archive keeps the message (XEP-0359 section 3.1).
    ///
    /// Anyone may write such an element; only ask for the archive through which the message came.
    ///
    /// - Parameter archive: The bare address of the own account, or of the room.
    /// - Returns: The id; nil when the archive gave none. Of several the last one counts.
    public func stanzaID(by archive: JID) -> ForeignText? {
        // Prosody 13.0.1 puts its own behind one that the sender forged, and leaves that in.
        element.children("stanza-id", Namespaces.sid).last { element in
            element["by"].flatMap { try? JID(received: $0) } == archive
        }?["id"]
    }
}
