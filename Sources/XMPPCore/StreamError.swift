/// The error that ends a stream: what `<stream:error/>` says.
///
/// ```swift
/// let error = StreamError(.policyViolation, text: "The stanza is larger than 256 KiB.")
/// ```
///
/// Source: RFC 6120 section 4.9.
public struct StreamError: DetailedError, CodedError, Hashable, ConditionedError {
    /// Kind of the error.
    public var condition: OpenName<StreamError>
    /// A sentence for people.
    public var text: ForeignText?
    /// Language tag of `text`.
    package var language: ForeignText?
    /// The other server for `seeOtherHost`: `host`, `host:port` or `[v6]:port`.
    package var alternateAddress: ForeignText?
    /// The condition of the extension concerned, such as stream management's `<handled-count-too-high/>`.
    public var applicationCondition: Element?

    /// Makes an error.
    ///
    /// - Parameters:
    ///   - condition: What went wrong.
    ///   - text: A sentence for people; nil for none.
    ///   - applicationCondition: The condition of the extension concerned; nil for none.
    public init(
        _ condition: OpenName<StreamError>, text: (any TextConvertible)? = nil,
        applicationCondition: Element? = nil
    ) {
        self.condition = condition
        self.text = text?.foreignText
        self.applicationCondition = applicationCondition
    }

    /// Reads a `<stream:error/>`. Nil when the element is none. A missing condition becomes `undefinedCondition`.
    ///
    /// - Parameter element: A first-level element of a stream.
    package init?(_ element: Element) {
        guard element.has(name: "error", namespace: Namespaces.stream) else { return nil }
        self.init(.undefinedCondition)
        read(element.elements, in: Namespaces.streams)
    }

    /// The `<stream:error/>`.
    public var element: Element {
        Element("error", namespace: Namespaces.stream, children: children(in: Namespaces.streams))
    }

    /// The ``condition``.
    public var code: OpenName<StreamError> { condition }
    /// The peer's sentence; the condition's name if it gave none.
    public var message: String { text?.string ?? condition.description }

    /// Condition and text in one line.
    package var details: String {
        let conditions = [condition.rawValue.string] + (applicationCondition.map { [$0.name.string] } ?? [])
        return conditions.joined(separator: ", ") + (text.map { ": \($0)" } ?? "")
    }

    /// A defined condition (RFC 6120 section 4.9.3). Open: a name this table does not know is kept as it came.
    package typealias Condition = OpenName<StreamError>
}

extension OpenName where List == StreamError {
    /// XML that cannot be processed (4.9.3.1).
    package static var badFormat: Self { Self(rawValue: "bad-format") }
    /// A prefix that is unknown or missing (4.9.3.2).
    package static var badNamespacePrefix: Self { Self(rawValue: "bad-namespace-prefix") }
    /// A newer stream of the same entity took over (4.9.3.3).
    public static var conflict: Self { Self(rawValue: "conflict") }
    /// The domain is served here no longer (4.9.3.5).
    package static var hostGone: Self { Self(rawValue: "host-gone") }
    /// The domain is not served here (4.9.3.6).
    package static var hostUnknown: Self { Self(rawValue: "host-unknown") }
    /// `from` is not the entity that was authenticated (4.9.3.9).
    package static var invalidFrom: Self { Self(rawValue: "invalid-from") }
    /// The stream or content namespace is unknown (4.9.3.10).
    package static var invalidNamespace: Self { Self(rawValue: "invalid-namespace") }
    /// XML that a validating server refuses (4.9.3.11).
    package static var invalidXML: Self { Self(rawValue: "invalid-xml") }
    /// Data before authentication (4.9.3.12).
    public static var notAuthorized: Self { Self(rawValue: "not-authorized") }
    /// XML that is not well-formed (4.9.3.13).
    package static var notWellFormed: Self { Self(rawValue: "not-well-formed") }
    /// A local policy was violated, such as a limit (4.9.3.14).
    public static var policyViolation: Self { Self(rawValue: "policy-violation") }
    /// The server wants a fresh stream (4.9.3.16).
    public static var reset: Self { Self(rawValue: "reset") }
    /// The server is too busy (4.9.3.17).
    package static var resourceConstraint: Self { Self(rawValue: "resource-constraint") }
    /// Comment, processing instruction, DTD or entity reference (4.9.3.18).
    package static var restrictedXML: Self { Self(rawValue: "restricted-xml") }
    /// Connect to another host (4.9.3.19).
    package static var seeOtherHost: Self { Self(rawValue: "see-other-host") }
    /// The server is going down (4.9.3.20).
    package static var systemShutdown: Self { Self(rawValue: "system-shutdown") }
    /// None of the others (4.9.3.21).
    package static var undefinedCondition: Self { Self(rawValue: "undefined-condition") }
    /// Another encoding than UTF-8, or broken UTF-8 (4.9.3.22).
    package static var unsupportedEncoding: Self { Self(rawValue: "unsupported-encoding") }
    /// A mandatory feature is not supported (4.9.3.23).
    package static var unsupportedFeature: Self { Self(rawValue: "unsupported-feature") }
    /// A first-level element that is no stanza we know (4.9.3.24).
    package static var unsupportedStanzaType: Self { Self(rawValue: "unsupported-stanza-type") }
}
