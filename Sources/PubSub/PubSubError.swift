public import XMPPCore

/// The refusal of a PubSub service: the condition of RFC 6120 and, if the service sends one, PubSub's own.
///
/// Read ``condition`` first: services differ in the general condition that they put beside it.
///
/// ```swift
/// if error.condition == .payloadTooBig { … }
/// ```
///
/// Source: XEP-0060 sections 12 and 18.2.
public struct PubSubError: CodedError, Hashable {
    /// PubSub's own condition; nil when the service gave none.
    public let condition: OpenName<PubSubError>?
    /// The feature that the service lacks, such as `retrieve-items`; given with the condition `unsupported`.
    public let unsupportedFeature: ForeignText?
    /// The error of the stanza, with the condition and the text of RFC 6120.
    public let stanzaError: StanzaError

    /// Reads the PubSub condition out of a stanza's error.
    ///
    /// - Parameter error: The error of an answer; it is kept as ``stanzaError``.
    package init(_ error: StanzaError) {
        self.init(error, candidates: error.applicationCondition.map { [$0] } ?? [])
    }

    /// Reads the error of an answer. A service may put conditions of other extensions beside its own.
    init(_ error: StanzaError, in iq: IQ) {
        let element = iq.element.child("error", iq.element.namespace)
        self.init(error, candidates: element?.elements ?? [])
    }

    /// Whether the service says that what was asked for does not exist. Read by the PubSub condition first: one that says
    /// more than "not found" is an error of its own.
    public var isNotFound: Bool { condition == nil && stanzaError.condition == .itemNotFound }

    static let notFound = PubSubError(StanzaError(.itemNotFound))

    /// An answer that makes no sense.
    static func nonsense(_ text: String) -> PubSubError {
        PubSubError(StanzaError(.undefinedCondition, text: text))
    }

    private init(_ error: StanzaError, candidates: [Element]) {
        let found = candidates.first { $0.namespace == Namespaces.pubsubErrors }
        condition = found.map { Condition(rawValue: $0.name) }
        unsupportedFeature = found.flatMap { $0.name == "unsupported" ? $0["feature"] : nil }
        stanzaError = error
    }

    /// PubSub's own condition; the general one when the service gave none.
    public var code: OpenName<PubSubError> {
        condition ?? Condition(rawValue: stanzaError.condition.rawValue)
    }

    /// The ``stanzaError``.
    public var cause: (any Error)? { stanzaError }

    /// A sentence that says what happened and what to do.
    public var message: String {
        var text = "the PubSub service answered with "
        text += condition.map { "\($0) (\(stanzaError.condition))" } ?? stanzaError.condition.description
        if let unsupportedFeature { text += ", feature \(unsupportedFeature)" }
        if let said = stanzaError.text { text += ", saying \"\(said)\"" }
        text += "; " + (condition?.advice ?? Self.generalAdvice(stanzaError.kind))
        return text
    }

    private static func generalAdvice(_ kind: StanzaError.Kind) -> String {
        switch kind {
        case .auth: "ask the node's owner for permission"
        case .cancel: "trying the same again will not help"
        case .continue: "it was a warning only"
        case .modify: "change the request and try again"
        case .wait: "try again later"
        }
    }
}
