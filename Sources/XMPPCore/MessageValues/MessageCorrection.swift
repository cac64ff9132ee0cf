/// The extension of a correction, which replaces an earlier message of the same sender.
///
/// ```swift
/// guard let correction = MessageCorrection(of: sent) else { return }
/// let message = Message(
///     to: sent.to, id: StanzaID.random(), body: "through yonder window", children: [correction.element])
/// ```
///
/// The sender sends the whole message once more, under a new id, with the changes. A recipient checks
/// ``Message/corrects(_:amongOccupants:)`` before replacing anything, and shows that the text was changed.
///
/// Source: XEP-0308 sections 3 and 4.
public struct MessageCorrection: Hashable, Sendable {
    /// The `id` of the message that is corrected: of the first one, when it was corrected before.
    public var id: ForeignText

    /// Makes a correction.
    ///
    /// - Parameter id: The `id` of the message that is corrected, not empty.
    public init(of id: some TextConvertible) { self.id = id.foreignText }

    /// Makes a correction of a message.
    ///
    /// - Parameter message: What is corrected; of one that is a correction itself, what that one corrects.
    /// - Returns: Nil for a message without an `id`.
    public init?(of message: Message) {
        guard let id = message.correction?.id ?? message.id, !id.isEmpty else { return nil }
        self.id = id
    }

    /// Reads `<replace/>`.
    ///
    /// - Parameter element: The element.
    /// - Throws: ``ElementValueError`` without an id.
    package init(_ element: Element) throws(ElementValueError) { id = try element.reference() }

    /// The correction as XML, to be added to a message.
    public var element: Element {
        Element("replace", namespace: Namespaces.correction, attributes: ["id": id])
    }
}

extension Message {
    /// The correction that this message is, if it is a correct one. Look at ``corrects(_:amongOccupants:)``, too.
    public var correction: MessageCorrection? {
        payload("replace", Namespaces.correction, MessageCorrection.init(_:))
    }

    /// Returns whether this message may replace another one: it names its id, and both are of one author and one kind.
    ///
    /// In a room, the occupant may have changed between the two although the nickname has not: of a message from before
    /// the sender joined, refuse a correction all the same.
    ///
    /// - Parameters:
    ///   - original: The message that would be replaced.
    ///   - amongOccupants: Whether both are private messages of occupants of a room; see ``author(amongOccupants:)``.
    /// - Returns: Whether it corrects that one.
    ///
    /// Source: XEP-0308 section 4.
    public func corrects(_ original: Message, amongOccupants: Bool = false) -> Bool {
        guard let correction, correction.id == original.id else { return false }
        return isOfSameAuthor(as: original, amongOccupants)
    }
}
