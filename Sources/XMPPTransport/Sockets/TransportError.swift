public import XMPPCore

/// Why a connection could not be made or was lost.
///
/// `description` is one sentence that names the host and the domain and says what to do. Decide on `code`:
///
/// ```swift
/// do {
///     try await account.connect()
/// } catch let error as TransportError where error.code == .certificateExpired {
///     print(error)
/// }
/// ```
public struct TransportError: CodedError, Hashable {
    /// What went wrong. Open: later versions may add codes, so a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name, stable across versions.
        public let description: String

        init(_ name: String) { description = name }

        /// The name does not exist in DNS.
        public static let nameNotFound = Code("nameNotFound")
        /// The name could not be looked up now; it may exist.
        package static let lookupFailed = Code("lookupFailed")
        /// The domain says that it does not offer the service.
        package static let serviceNotOffered = Code("serviceNotOffered")
        /// The host answered that nothing listens on the port.
        public static let refused = Code("refused")
        /// No route to the host, or the network is down.
        public static let unreachable = Code("unreachable")
        /// The deadline passed.
        public static let timedOut = Code("timedOut")
        /// The interrupting file descriptor became readable: the caller requested a stop.
        package static let interrupted = Code("interrupted")
        /// The peer closed the connection before what was asked for was done.
        package static let connectionClosed = Code("connectionClosed")
        /// The connection broke (reset by the peer, or its acknowledgements stopped).
        package static let connectionReset = Code("connectionReset")
        /// The connection was closed on this side before the call.
        package static let notConnected = Code("notConnected")
        /// The server's certificate is past its last day.
        public static let certificateExpired = Code("certificateExpired")
        /// The server's certificate is not valid yet; most often this machine's clock is wrong.
        package static let certificateNotYetValid = Code("certificateNotYetValid")
        /// The server's certificate is for other names than the account's domain.
        public static let certificateNameMismatch = Code("certificateNameMismatch")
        /// The server's certificate signs itself and is not among the trusted ones.
        package static let certificateSelfSigned = Code("certificateSelfSigned")
        /// The server's certificate was issued by an authority that is not trusted.
        public static let certificateUntrusted = Code("certificateUntrusted")
        /// The server's certificate fails another rule (revoked, weak key, wrong purpose…).
        package static let certificateInvalid = Code("certificateInvalid")
        /// The server's certificate is good but its key is not the pinned one.
        public static let certificateChanged = Code("certificateChanged")
        /// The server speaks only TLS 1.1 or older.
        package static let tlsProtocolTooOld = Code("tlsProtocolTooOld")
        /// Bytes that TLS does not protect came where TLS must begin (RFC 6120 section 5.4.3.3).
        package static let plaintextBeforeTLS = Code("plaintextBeforeTLS")
        /// TLS failed in another way.
        public static let tlsFailed = Code("tlsFailed")
        /// A certificate, key or trust file could not be used.
        package static let invalidCredentialFile = Code("invalidCredentialFile")
        /// A system call failed, for instance because too many files are open.
        package static let systemFailure = Code("systemFailure")
    }

    /// Kind of the error.
    public let code: Code
    /// One sentence for a person: what happened, and what to do about it.
    public let message: String
    /// What the system or OpenSSL said, when it said something.
    package let words: String?

    package init(_ code: Code, _ message: String, cause: String? = nil) {
        self.code = code
        self.message = message
        words = cause
    }

    /// What the system or OpenSSL said, as an error whose description it is.
    public var cause: (any Error)? { words.map { ReportedWords($0) } }

    /// The message, and the cause in parentheses.
    public var description: String {
        VisibleText(words.map { "\(message) (\($0))" } ?? message).description
    }
}
