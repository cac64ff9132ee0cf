/// An error in a stream or in an element. A parser that threw it is unusable; one that left an element out continues.
///
/// ```swift
/// do {
///     for event in try parser.parse(bytes) { handle(event) }
/// } catch {
///     error.events.forEach(handle)
///     close(sending: error.streamError)
/// }
/// ```
public struct StreamParserError: DetailedError, CodedError, Hashable {
    /// The kind of error.
    public let code: ErrorCode<StreamParserError>
    /// A sentence that names the error and, for a limit, its value.
    public let message: String
    /// The events before the error that were not returned yet, in order.
    public internal(set) var events: [StreamParser.Event] = []
    /// The first-level element in which the stream ended, without its children and with those of its attributes `from`, `to`,
    /// `id` and `type` that could be read; nil between elements.
    package internal(set) var element: Element?

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The stream error to send to the peer before closing (RFC 6120 section 4.9.3).
    public var streamError: StreamError { StreamError(condition, text: message) }

    private var condition: StreamError.Condition {
        switch code {
        case .unsupportedEncoding: .unsupportedEncoding
        case .restrictedXML: .restrictedXML
        case .badFormat: .badFormat
        case .invalidNamespace: .invalidNamespace
        case .limitExceeded: .policyViolation
        case .outOfMemory: .resourceConstraint
        case .notWellFormed, .dead: .notWellFormed
        default: .undefinedCondition
        }
    }

    /// The message with its code.
    package var details: String { "\(message) (\(condition.rawValue))" }
}

// MARK: - Codes

extension ErrorCode where Failure == StreamParserError {
    /// The XML breaks the rules of XML 1.0 or of Namespaces in XML.
    package static var notWellFormed: Self { Self(rawValue: "notWellFormed") }
    /// The bytes are no UTF-8, or the XML declaration names another encoding.
    package static var unsupportedEncoding: Self { Self(rawValue: "unsupportedEncoding") }
    /// A comment, processing instruction, DTD or reference to an undeclared entity.
    package static var restrictedXML: Self { Self(rawValue: "restrictedXML") }
    /// Character data between stanzas, or a root that is no stream header.
    package static var badFormat: Self { Self(rawValue: "badFormat") }
    /// The root is not in the namespace of streams.
    package static var invalidNamespace: Self { Self(rawValue: "invalidNamespace") }
    /// A value of `ParserLimits` was exceeded.
    package static var limitExceeded: Self { Self(rawValue: "limitExceeded") }
    /// libxml2 had no memory for a parser.
    package static var outOfMemory: Self { Self(rawValue: "outOfMemory") }
    /// The parser was used after it had thrown.
    package static var dead: Self { Self(rawValue: "dead") }
}
