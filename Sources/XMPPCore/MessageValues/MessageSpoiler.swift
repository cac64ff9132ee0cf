/// The extension that hides a message's text until the user asks.
///
/// ```swift
/// let spoiler = MessageSpoiler([.init("Love story end")])
/// let message = Message(to: peer, body: "And at the end of the story…", children: spoiler.elements)
/// ```
///
/// Source: XEP-0382 sections 3 and 4.
public struct MessageSpoiler: Hashable, Sendable {
    /// The topic of the text, shown in its place.
    public struct Topic: Hashable, Sendable {
        /// The topic.
        public var text: ForeignText
        /// The language of the topic, as `xml:lang` says it; nil for none.
        public var language: ForeignText?

        /// Makes a topic.
        ///
        /// - Parameters:
        ///   - text: The topic, not empty.
        ///   - language: Its language, such as `en`; nil for none.
        public init(_ text: some TextConvertible, language: (any TextConvertible)? = nil) {
            (self.text, self.language) = (text.foreignText, language?.foreignText)
        }
    }

    /// The maximum number of topics in a message.
    package static let maximumTopics = 32

    /// The topic in each language; none when the sender names none.
    public var topics: [Topic]

    /// Makes a spoiler.
    ///
    /// - Parameter topics: What the text is about, once for each language; none to say nothing.
    public init(_ topics: [Topic] = []) { self.topics = topics }

    /// Makes a spoiler with a topic without a language.
    ///
    /// - Parameter topic: What the text is about.
    package init(_ topic: some TextConvertible) { self.init([Topic(topic)]) }

    /// The spoiler as XML, to be added to a message: an element for each topic, and one if there are none.
    public var elements: [Element] {
        let topics = topics.isEmpty ? [Topic("")] : topics
        return topics.map {
            Element(
                "spoiler", namespace: Namespaces.spoilers, attributes: ["xml:lang": $0.language],
                text: $0.text)
        }
    }
}

extension Message {
    /// The spoiler that this message is. Nil when its text may be shown. Empty topics are left out.
    public var spoiler: MessageSpoiler? {
        guard type != .error else { return nil }
        let elements = element.children("spoiler", Namespaces.spoilers)
        guard !elements.isEmpty else { return nil }
        return MessageSpoiler(
            elements.prefix(MessageSpoiler.maximumTopics).compactMap {
                let text = $0.text
                return text.isEmpty ? nil : MessageSpoiler.Topic(text, language: $0["xml:lang"])
            })
    }
}
