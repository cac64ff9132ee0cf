/// The error with which a handler or a workflow fails.
///
/// A handler throws it to say which failure it is, and whether it is tried again. All that waits for the handler gets the error by its
/// code: ``Flow/run(_:as:lane:)``, ``HandlerStore/value(of:as:)``, ``JoinedChild/error``, the handler bound with ``Durable/orElse(_:)``, the
/// compensations of a workflow, and ``HandlerFailure``. It is kept as long as the ending.
///
/// ```swift
/// extension ErrorCode<CallError> { static var declined: Self { Self(rawValue: "declined") } }
///
/// func run(_ flow: Flow) async throws -> Nothing {
///     do { try await flow.run(Charge(order: "17", cents: 1999).durable) } catch let error as CallError where error.code == .declined {
///         try await flow.run(Wrap(order: "17").durable)
///     }
///     return Nothing()
/// }
/// ```
public struct CallError: CodedError, Hashable, Codable {
    /// Whether and when a handler is tried again after an error.
    public enum Retry: Hashable, Sendable {
        /// As its ``RetryPolicy`` says.
        case byPolicy
        /// Never: it has failed for good, whatever attempts are left.
        case never
        /// After this time, if the policy leaves an attempt: 0 to the longest delay of the policy. For example what a server says in
        /// `Retry-After`.
        case after(Duration)
    }

    /// The maximum number of bytes of ``code`` that are kept.
    static let codeBytes = 128

    /// Kind of the error. An error of another type than this has the code that it has itself, or ``ErrorCode/failed``.
    public let code: ErrorCode<CallError>
    /// A sentence that says what happened and what to do. At most 4096 bytes are kept.
    public let message: String
    /// Whether the handler that throws it is tried again; not kept.
    public let retry: Retry

    public var description: String { message }

    /// Makes an error.
    ///
    /// - Parameters:
    ///   - code: What went wrong; at most 128 bytes are kept.
    ///   - message: A sentence that says what happened and what to do.
    ///   - retry: Whether and when the handler that throws it is tried again.
    public init(_ code: ErrorCode<CallError>, _ message: String, retry: Retry = .byPolicy) {
        (self.code, self.message, self.retry) = (code, message, retry)
    }

    private enum CodingKeys: String, CodingKey {
        case code, message
    }

    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            try values.decode(ErrorCode.self, forKey: .code), try values.decode(String.self, forKey: .message)
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(code, forKey: .code)
        try values.encode(message, forKey: .message)
    }
}

extension ErrorCode where Failure == CallError {
    /// An error without a code of its own.
    public static var failed: Self { Self(rawValue: "failed") }
}

extension CallError {
    /// What is kept of an error.
    init(storing error: any Error) {
        let code = (error as? any CodedError).map { Self.word(of: $0) } ?? ErrorCode.failed.rawValue
        self.init(
            ErrorCode(rawValue: StoredReason(code.cut(toBytes: Self.codeBytes)).words),
            StoredReason(error).words)
    }

    /// - Returns: Nil where no error was kept.
    init?(storedCode code: String?, message: String?) {
        guard let message else { return nil }
        self.init(code.map(ErrorCode.init(rawValue:)) ?? .failed, message)
    }

    private static func word(of error: some CodedError) -> String { error.code.description }
}
