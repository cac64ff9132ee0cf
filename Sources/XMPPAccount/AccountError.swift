public import Handlers
public import XMPPCore

/// An error of an account, with a sentence that says what to do.
///
/// ```swift
/// do {
///     try await account.connect()
/// } catch let error as AccountError where error.code == .ownershipHeld {
///     print("another process has the stream")
/// }
/// ```
public struct AccountError: CodedError {
    /// Kind of error; open for new kinds.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { rawValue }

        /// The server refused the user name or password.
        public static let notAuthorized = Code(rawValue: "not-authorized")
        /// The server does not offer TLS.
        public static let tlsUnavailable = Code(rawValue: "tls-unavailable")
        /// The server sent something that the protocol forbids here.
        package static let protocolViolation = Code(rawValue: "protocol-violation")
        /// The server ended the stream with an error.
        public static let streamError = Code(rawValue: "stream-error")
        /// Another client took the session's place on the server.
        public static let conflict = Code(rawValue: "conflict")
        /// The server was refused again and again: its certificate, or what it offers to log in with. See the cause.
        public static let untrustedServer = Code(rawValue: "untrusted-server")
        /// The server refused a resource.
        package static let bindFailed = Code(rawValue: "bind-failed")
        /// The connection could not be made or broke; the account tries again by itself.
        package static let connectionFailed = Code(rawValue: "connection-failed")
        /// The server did not answer in time.
        public static let timedOut = Code(rawValue: "timed-out")
        /// Another process took the stream over; this one must not commit, acknowledge or send any more.
        public static let ownershipLost = Code(rawValue: "ownership-lost")
        /// Another process owns the stream and is alive.
        public static let ownershipHeld = Code(rawValue: "ownership-held")
        /// The account was closed.
        public static let closed = Code(rawValue: "closed")
        /// More stanzas wait than the account may hold.
        public static let outboxFull = Code(rawValue: "outbox-full")
        /// What was to be sent is not a valid stanza.
        package static let invalidStanza = Code(rawValue: "invalid-stanza")
        /// The server does not take a stanza of that size (XEP-0478).
        public static let stanzaTooLarge = Code(rawValue: "stanza-too-large")
        /// The inbound request was answered before, or cannot be answered any more.
        package static let alreadyAnswered = Code(rawValue: "already-answered")
        /// The stanza is not being delivered just now, so it cannot be deferred.
        package static let notDeferrable = Code(rawValue: "not-deferrable")
        /// The session in which a request was sent is gone; its answer will never come.
        public static let sessionLost = Code(rawValue: "session-lost")
        /// The program's ``AccountConfiguration/chooseSession`` wants to wait.
        package static let sessionPostponed = Code(rawValue: "session-postponed")
        /// What was waited for was canceled or given up; the message says by what.
        public static let abandoned = Code(rawValue: "abandoned")
        /// The account lacks a module: it was not configured in this process.
        public static let missingModule = Code(rawValue: "missing-module")
        /// A configuration value cannot be used.
        public static let invalidConfiguration = Code(rawValue: "invalid-configuration")
    }

    /// Kind of the error.
    public let code: Code
    /// A sentence that says what happened and what to do.
    public let message: String
    /// The error beneath, if there is one.
    public let cause: (any Error)?

    /// Makes an error, for modules of a program's own.
    ///
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - message: A sentence that says what happened and what to do.
    ///   - cause: The error beneath; nil for none.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// Whether trying again cannot help until someone changes something.
    package var isFinal: Bool {
        switch code {
        case .notAuthorized, .tlsUnavailable, .ownershipLost, .ownershipHeld, .closed,
            .invalidConfiguration, .missingModule:
            true
        default: false
        }
    }
}

extension HandlerError: CodedError {}
