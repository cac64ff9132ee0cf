/// The extension of a reply to another message.
///
/// ```swift
/// guard let reply = MessageReply(to: received) else { return }
/// let plain = Message(to: received.from, body: "Great idea!", children: [reply.element])
/// let quoted = reply.quoting(received.body ?? "", by: "Anna", before: "Great idea!")
/// let message = Message(to: received.from, body: quoted.body, children: quoted.children)
/// ```
///
/// Source: XEP-0461 sections 3 and 4.
public struct MessageReply: Hashable, Sendable {
    /// The id of the message that it answers; see ``Message/referenceID``.
    public var id: ForeignText
    /// The author of that message; nil if the reply names none.
    public var author: JID?

    /// Makes a reply.
    ///
    /// - Parameters:
    ///   - id: The id of the message that it answers, not empty.
    ///   - author: Who wrote that message: the full address, in a room the one with the nickname; nil for unknown.
    public init(to id: some TextConvertible, of author: JID? = nil) {
        (self.id, self.author) = (id.foreignText, author)
    }

    /// Makes a reply to a message.
    ///
    /// - Parameter message: What it answers.
    /// - Returns: Nil for a message that nothing can name; see ``Message/referenceID``.
    public init?(to message: Message) {
        guard let id = message.referenceID else { return nil }
        self.init(to: id, of: message.from)
    }

    /// Reads `<reply/>`.
    ///
    /// - Parameter element: The element.
    /// - Throws: ``ElementValueError`` without an id, or with an author that is no address.
    package init(_ element: Element) throws(ElementValueError) {
        id = try element.reference()
        author = try element.optionalValue(of: "to")
    }

    /// The reply as XML, to be added to a message.
    public var element: Element {
        Element("reply", namespace: Namespaces.replies, attributes: ["to": author?.description, "id": id])
    }

    /// Returns a body for clients that do not support replies: the quoted text before the answer.
    ///
    /// - Parameters:
    ///   - quoted: What is answered, or a part of it. Of a message that is a reply itself, take
    ///     ``Message/body(understanding:)``.
    ///   - name: Who wrote that, as people know them; nil leaves the name out.
    ///   - answer: What is said to it.
    /// - Returns: The body, and what is to be added to the message: the reply, and which part of the body quotes.
    ///
    /// Source: XEP-0461 section 3.1, XEP-0428.
    public func quoting(
        _ quoted: some TextConvertible, by name: (any TextConvertible)? = nil,
        before answer: some TextConvertible
    ) -> (body: ForeignText, children: [Element]) {
        let text = (name.map { "\($0.foreignText):\n" } ?? "") + quoted.foreignText.string
        var quote = ""
        for line in text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false) {
            quote += "> \(Substring(line))\n"
        }
        let fallback = MessageFallback(for: Namespaces.replies, [.body(0..<quote.unicodeScalars.count)])
        return (ForeignText(quote + answer.foreignText.string), [element, fallback.element])
    }
}

extension Message {
    /// The reply that this message is, if it is a correct one. ``body(understanding:)`` is its text without the quote.
    public var reply: MessageReply? {
        payload("reply", Namespaces.replies, MessageReply.init(_:))
    }
}
