/// A marker of displayed messages.
///
/// ```swift
/// let question = Message(to: peer, id: "m1", body: "Hi", children: [DisplayMarker.markable.element])
/// if received.displayMarker == .markable, let marker = DisplayMarker(upTo: received) {
///     try account.send(Message(to: received.from?.bare, children: [marker.element]), in: step)
/// }
/// ```
///
/// A marker means everything up to that message. It only moves forward: ignore one for an older message, and one for a message
/// that the conversation does not have. It is the recipient's to send, so believe it of them; and whether they want to send
/// it is theirs to decide.
///
/// Earlier versions also had `received`, which receipts have replaced, and `acknowledged`, which was never used. They are
/// not read.
///
/// Source: XEP-0333 version 1.0, sections 4 and 5.
public enum DisplayMarker: Hashable, Sendable {
    /// The sender wants to know when this message was seen.
    case markable
    /// Everything up to the message with this id was seen.
    case displayed(ForeignText)

    /// Makes a marker for what was seen.
    ///
    /// - Parameter message: The last message that was seen: not one of the own account.
    /// - Returns: ``displayed(_:)`` with the message's `id`, in a room the id that the room gave it; nil without one, or for one of more
    ///   than 1024 bytes.
    public init?(upTo message: Message) {
        guard let id = (message.idInRoom ?? message.id)?.token, !id.isEmpty else { return nil }
        self = .displayed(id)
    }

    /// The marker as XML, to be added to a message. One that is ``markable`` needs an id.
    public var element: Element {
        switch self {
        case .markable: Element("markable", namespace: Namespaces.markers)
        case .displayed(let id):
            Element("displayed", namespace: Namespaces.markers, attributes: ["id": id])
        }
    }
}

extension Message {
    /// The message's marker of displayed messages.
    ///
    /// - Returns: Nil when it says nothing, and when it asks for a marker without an id; one that is a marker asks for none
    ///   (XEP-0333 section 4.2).
    public var displayMarker: DisplayMarker? {
        guard type != .error else { return nil }
        if element.child("displayed", Namespaces.markers) != nil {
            return payload("displayed", Namespaces.markers) { (element) throws(ElementValueError) in
                .displayed(try element.reference())
            }
        }
        guard element.child("markable", Namespaces.markers) != nil, DisplayMarker(upTo: self) != nil else {
            return nil
        }
        return .markable
    }
}
