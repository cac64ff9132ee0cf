public import XMPPCore

/// Why login did not come about.
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
public struct SASLError: CodedError, Hashable {
    /// What went wrong. Open: later versions may add codes, so a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name, stable across versions.
        public let description: String

        package init(_ name: String) { description = name }

        /// The server offers no mechanism that this library uses.
        public static let noCommonMechanism = Code("noCommonMechanism")
        /// The offers of the server contradict each other, as if the stronger mechanisms had been removed.
        public static let downgradeSuspected = Code("downgradeSuspected")
        /// User name or password holds a character that SASL forbids, or is empty.
        package static let forbiddenCredentials = Code("forbiddenCredentials")
        /// A message of the exchange breaks its grammar, or comes at the wrong time.
        package static let malformedMessage = Code("malformedMessage")
        /// The nonce of the other side does not continue ours.
        package static let nonceMismatch = Code("nonceMismatch")
        /// The other side demands an extension that this library does not know (`m=`).
        package static let unsupportedExtension = Code("unsupportedExtension")
        /// The server wants the password hashed too few times to be safe.
        package static let tooFewIterations = Code("tooFewIterations")
        /// The server wants the password hashed so often that it would only burn this machine's time.
        package static let tooManyIterations = Code("tooManyIterations")
        /// The server could not prove that it knows the password: it may be an impostor.
        public static let serverNotAuthenticated = Code("serverNotAuthenticated")
        /// User name or password is wrong.
        public static let notAuthorized = Code("notAuthorized")
        /// The two sides see different channel bindings: an attacker may be between them.
        public static let channelBindingFailed = Code("channelBindingFailed")
        /// The server refused for another reason, given as cause.
        public static let refused = Code("refused")
    }

    /// Kind of the error.
    public let code: Code
    /// One sentence for a person: what happened, and what to do about it.
    public let message: String
    /// What the server said, when it said something.
    package let words: ForeignText?

    package init(_ code: Code, _ message: String, cause: (any TextConvertible)? = nil) {
        self.code = code
        self.message = message
        words = cause?.foreignText
    }

    /// What the server said, as an error whose description it is.
    public var cause: (any Error)? { words.map { ReportedWords($0.string) } }

    /// The message, and the cause in parentheses.
    public var description: String {
        VisibleText(words.map { "\(message) (\($0))" } ?? message).description
    }
}
