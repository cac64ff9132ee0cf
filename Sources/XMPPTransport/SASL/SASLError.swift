public import XMPPCore

/// An error of a login.
///
/// `description` is one sentence that says what to do. Decide on `code`.
///
/// ```swift
/// do {
///     try await account.connect()
/// } catch let error as SASLError where error.code == .downgradeSuspected {
///     print(error)  // ask the operator; Account.forgetLogin() accepts the change
/// }
/// ```
public struct SASLError: DetailedError, CodedError, Hashable {
    /// Kind of the error.
    public let code: ErrorCode<SASLError>
    /// A sentence for a person: what happened, and what to do.
    public let message: String
    /// The server's text, if it sent one.
    package let words: ReportedWords?

    package init(_ code: Code, _ message: String, cause: (any TextConvertible)? = nil) {
        self.code = code
        self.message = message
        words = (cause?.foreignText.string).map(ReportedWords.init)
    }

    /// What the server said, as an error whose description it is.
    package var storedCause: (any Error)? { words }

    /// The message, and the cause in parentheses.
    package var details: String { messageWithCause }
}

// MARK: - Codes

extension ErrorCode where Failure == SASLError {
    /// The server offers no mechanism that this library uses.
    package static var noCommonMechanism: Self { Self(rawValue: "noCommonMechanism") }
    /// The server's offers contradict each other, as after an attack. Stronger mechanisms may have been removed.
    public static var downgradeSuspected: Self { Self(rawValue: "downgradeSuspected") }
    /// User name or password holds a character that SASL forbids, or is empty.
    package static var forbiddenCredentials: Self { Self(rawValue: "forbiddenCredentials") }
    /// A message of the exchange breaks its grammar, or comes at the wrong time.
    package static var malformedMessage: Self { Self(rawValue: "malformedMessage") }
    /// The nonce of the other side does not continue ours.
    package static var nonceMismatch: Self { Self(rawValue: "nonceMismatch") }
    /// The other side demands an extension that this library does not know (`m=`).
    package static var unsupportedExtension: Self { Self(rawValue: "unsupportedExtension") }
    /// The server wants the password hashed too few times to be safe.
    package static var tooFewIterations: Self { Self(rawValue: "tooFewIterations") }
    /// The server wants the password hashed so often that it would only burn this machine's time.
    package static var tooManyIterations: Self { Self(rawValue: "tooManyIterations") }
    /// The server could not prove that it knows the password: it may be an impostor.
    package static var serverNotAuthenticated: Self { Self(rawValue: "serverNotAuthenticated") }
    /// User name or password is wrong.
    public static var notAuthorized: Self { Self(rawValue: "notAuthorized") }
    /// The two sides see different channel bindings: an attacker may be between them.
    package static var channelBindingFailed: Self { Self(rawValue: "channelBindingFailed") }
    /// The server refused for another reason, given as cause.
    public static var refused: Self { Self(rawValue: "refused") }
}
