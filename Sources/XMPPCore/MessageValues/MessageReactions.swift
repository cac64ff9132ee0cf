/// Reactions to a message as emoji. They replace all earlier reactions of the same author.
///
/// ```swift
/// guard let reactions = MessageReactions(["👋"], to: received) else { return }
/// let message = Message(to: received.from, children: [reactions.element, ProcessingHint.store.element])
/// ```
///
/// Reactions of one author replace the former ones; none take them back. A recipient checks
/// ``Message/reacts(to:amongOccupants:)``, keeps them by ``Message/author(amongOccupants:)``, and lets those of a message
/// with a ``Message/delay`` not replace newer ones.
///
/// Source: XEP-0444 sections 3 and 4.
public struct MessageReactions: Hashable, Sendable {
    /// The maximum number of different reactions in a message.
    package static let maximumCount = 64
    /// The maximum length of a reaction in bytes of UTF-8; the longest emoji of Unicode 16 has 35.
    package static let maximumLength = 128

    /// The id of the message that they are about; see ``Message/referenceID``.
    public var id: ForeignText
    /// The reactions, each once, in the author's order. They need not be emoji: the protocol does not enforce that.
    public var reactions: [ForeignText]

    /// Makes reactions.
    ///
    /// - Parameters:
    ///   - reactions: All that are to be there from now on, one emoji each; none takes back what there was.
    ///   - id: The id of the message that they are about, not empty.
    public init(_ reactions: [any TextConvertible], to id: some TextConvertible) {
        self.id = id.foreignText
        self.reactions = Self.distinct(reactions.lazy.map(\.foreignText))
    }

    /// Makes reactions to a message.
    ///
    /// - Parameters:
    ///   - reactions: All that are to be there from now on, one emoji each; none takes back what there was.
    ///   - message: What they are about.
    /// - Returns: Nil for a message that nothing can name; see ``Message/referenceID``.
    public init?(_ reactions: [any TextConvertible], to message: Message) {
        guard let id = message.referenceID else { return nil }
        self.init(reactions, to: id)
    }

    /// Reads `<reactions/>`. What comes twice, is empty or longer than `maximumLength` is left out, and so is what
    /// comes after `maximumCount` others.
    ///
    /// - Parameter element: The element.
    /// - Throws: ``ElementValueError`` without an id.
    package init(_ element: Element) throws(ElementValueError) {
        id = try element.reference()
        reactions = Self.distinct(element.children("reaction", Namespaces.reactions).lazy.map(\.text))
    }

    /// The reactions as XML, to be added to a message.
    public var element: Element {
        Element(
            "reactions", namespace: Namespaces.reactions, attributes: ["id": id],
            children: reactions.map { Element("reaction", namespace: Namespaces.reactions, text: $0) })
    }

    private static func distinct(_ texts: some Sequence<ForeignText>) -> [ForeignText] {
        var seen: Set<ForeignText> = []
        return Array(
            texts.lazy.filter { !$0.isEmpty && $0.utf8.count <= maximumLength && seen.insert($0).inserted }
                .prefix(maximumCount))
    }
}

extension Message {
    /// The reactions that this message brings, if it is a correct one. Look at ``reacts(to:amongOccupants:)``, too.
    public var reactions: MessageReactions? {
        payload("reactions", Namespaces.reactions, MessageReactions.init(_:))
    }

    /// Returns whether this message's reactions may be shown at another one: they name it, and are of one of its two
    /// parties, or of an occupant of its room.
    ///
    /// - Parameters:
    ///   - original: The message that they would be shown at.
    ///   - amongOccupants: Whether both are private messages of occupants of a room; see ``author(amongOccupants:)``.
    /// - Returns: Whether they are about that one.
    ///
    /// Source: XEP-0444 section 4.1.
    public func reacts(to original: Message, amongOccupants: Bool = false) -> Bool {
        guard let reactions, reactions.id == original.referenceID, let from,
            (type == .groupchat) == (original.type == .groupchat),
            let author = author(amongOccupants: amongOccupants)?.jid
        else { return false }
        if type == .groupchat { return from.bare == original.from?.bare }
        return [original.from, original.to].contains { party in
            party == author || (author.isBare && party?.bare == author)
        }
    }
}
