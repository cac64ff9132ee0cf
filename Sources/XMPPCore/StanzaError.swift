/// The error of a stanza: what `<error/>` says.
///
/// ```swift
/// throw StanzaError(.itemNotFound, text: "No such node.")
/// ```
///
/// Source: RFC 6120 section 8.3.
public struct StanzaError: DetailedError, CodedError, Hashable, ConditionedError {
    /// The type of an error: what the sender may do (RFC 6120 section 8.3.2).
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Try again after proving who you are.
        case auth
        /// Do not try again.
        case cancel
        /// Go on; this was only a warning.
        case `continue`
        /// Try again with other data.
        case modify
        /// Try again later; it is temporary.
        case wait
    }

    /// The type of the error: what the sender may do.
    public var kind: Kind
    /// Kind of the error.
    public var condition: OpenName<StanzaError>
    /// A sentence for people, in the language `language`.
    public var text: ForeignText?
    /// Language tag of `text`.
    package var language: ForeignText?
    /// The entity that raised the error, if it is not the stanza's sender.
    public var by: JID?
    /// The new address that `gone` and `redirect` may name, as a URI.
    public var alternateAddress: ForeignText?
    /// The condition of the extension the stanza belongs to, such as PubSub's.
    public var applicationCondition: Element?

    /// Makes an error.
    ///
    /// - Parameters:
    ///   - condition: What went wrong.
    ///   - kind: What the sender may do; nil takes the one that RFC 6120 associates with the condition.
    ///   - text: A sentence for people.
    ///   - by: Who raised the error.
    ///   - applicationCondition: The extension's own condition, in its own namespace.
    public init(
        _ condition: OpenName<StanzaError>, kind: Kind? = nil, text: (any TextConvertible)? = nil,
        by: JID? = nil, applicationCondition: Element? = nil
    ) {
        self.kind = kind ?? condition.defaultKind
        self.condition = condition
        self.text = text?.foreignText
        self.by = by
        self.applicationCondition = applicationCondition
    }

    /// Reads an `<error/>`. Nil when the element is no stanza error at all.
    ///
    /// What is missing or unknown is filled in, since a request must end even when its error is odd: no condition
    /// becomes `undefinedCondition`, an unknown `type` the one associated with the condition.
    ///
    /// - Parameter element: `<error/>` in a content namespace.
    package init?(_ element: Element) {
        guard element.name == "error", Namespaces.isContent(element.namespace) else { return nil }
        self.init(.undefinedCondition)
        read(element.elements, in: Namespaces.stanzas)
        kind = element["type"].flatMap { Kind($0) } ?? condition.defaultKind
        by = element["by"].flatMap { try? JID(received: $0) }
    }

    /// The `<error/>` of a client's stanza.
    public var element: Element { element(in: Namespaces.client) }

    /// Returns the `<error/>` in the namespace of its stanza.
    ///
    /// - Parameter namespace: The content namespace of the stanza.
    /// - Returns: The element, to be the last child of the stanza.
    package func element(in namespace: some TextConvertible) -> Element {
        Element(
            "error", namespace: namespace, attributes: ["type": kind.rawValue, "by": by?.description],
            children: children(in: Namespaces.stanzas))
    }

    /// The ``condition``.
    public var code: OpenName<StanzaError> { condition }
    /// The peer's sentence; the condition's name if it gave none.
    public var message: String { text?.string ?? condition.description }

    /// Kind, condition and text in one line.
    package var details: String {
        let conditions = [condition.rawValue.string] + (applicationCondition.map { [$0.name.string] } ?? [])
        return "\(conditions.joined(separator: ", ")) (\(kind.rawValue))" + (text.map { ": \($0)" } ?? "")
    }
}
