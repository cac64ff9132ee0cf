/// The extension that retracts an earlier message of the same sender.
///
/// ```swift
/// guard let retraction = MessageRetraction(of: sent) else { return }
/// let message = Message(
///     to: sent.to, id: StanzaID.random(), body: "/me retracted a message, but it's unsupported by your client.",
///     children: [
///         retraction.element, MessageFallback(for: Namespaces.retraction).element, ProcessingHint.store.element,
///     ])
/// ```
///
/// A recipient cannot be forced to remove the message. It checks ``Message/retracts(_:amongOccupants:)`` before removing
/// anything.
///
/// Source: XEP-0424 sections 3 and 5.
public struct MessageRetraction: Hashable, Sendable {
    /// The id of the message that is retracted; see ``init(of:)-(Message)``.
    public var id: ForeignText

    /// Makes a retraction.
    ///
    /// - Parameter id: The id of the message that is retracted, not empty.
    public init(of id: some TextConvertible) { self.id = id.foreignText }

    /// Makes a retraction of a message: under its `id`, in a room under the id that the room gave it, or the sender's own
    /// where the room gives none.
    ///
    /// - Parameter message: What is retracted, as the room sent it back.
    /// - Returns: Nil for a message without such an id.
    public init?(of message: Message) {
        guard let id = message.retractableID else { return nil }
        self.id = id
    }

    /// Reads `<retract/>`.
    ///
    /// - Parameter element: The element.
    /// - Throws: ``ElementValueError`` without an id.
    package init(_ element: Element) throws(ElementValueError) { id = try element.reference() }

    /// The retraction as XML, to be added to a message.
    public var element: Element {
        Element("retract", namespace: Namespaces.retraction, attributes: ["id": id])
    }
}

/// The tombstone that an archive keeps in place of a retracted message.
///
/// ```swift
/// if let tombstone = message.tombstone { hide(message.id, because: tombstone.retractionID) }
/// ```
///
/// Source: XEP-0424 section 4.
public struct MessageTombstone: Hashable, Sendable {
    /// The `id` of the message that retracted it.
    public var retractionID: ForeignText
    /// When that was; nil when the archive does not say.
    public var time: Timestamp?

    /// Reads `<retracted/>`.
    ///
    /// - Parameter element: The element.
    /// - Throws: ``ElementValueError`` without an id, or with a time that is none.
    package init(_ element: Element) throws(ElementValueError) {
        retractionID = try element.reference()
        time = try element.optionalValue(of: "stamp", as: Timestamp.self)
    }
}

extension Message {
    /// The retraction that this message is, if it is a correct one. Look at ``retracts(_:amongOccupants:)``, too.
    public var retraction: MessageRetraction? {
        payload("retract", Namespaces.retraction, MessageRetraction.init(_:))
    }

    /// The tombstone of this message in the archive. Nil if it was not retracted.
    ///
    /// Anyone may write such an element: believe it of messages that come out of an archive.
    public var tombstone: MessageTombstone? {
        payload("retracted", Namespaces.retraction, MessageTombstone.init(_:))
    }

    /// Returns whether this message may remove another one: it names its id, and both are of one author and one kind.
    ///
    /// - Parameters:
    ///   - original: The message that would be removed.
    ///   - amongOccupants: Whether both are private messages of occupants of a room; see ``author(amongOccupants:)``.
    /// - Returns: Whether it retracts that one.
    ///
    /// Source: XEP-0424 section 5.
    public func retracts(_ original: Message, amongOccupants: Bool = false) -> Bool {
        guard let retraction, retraction.id == original.retractableID else { return false }
        return isOfSameAuthor(as: original, amongOccupants)
    }

    /// XEP-0424 section 5.1.
    fileprivate var retractableID: ForeignText? {
        let named =
            type == .groupchat ? idInRoom ?? element.child("origin-id", Namespaces.sid)?["id"] : self.id
        let id = named?.token
        return id?.isEmpty == true ? nil : id
    }
}
