public import Handlers
import XMPPCore

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
    /// Kind of the error.
    public let code: ErrorCode<AccountError>
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
    public init(_ code: ErrorCode<AccountError>, _ message: String, cause: (any Error)? = nil) {
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

// MARK: - Codes

extension ErrorCode where Failure == AccountError {
    /// The server refused the user name or password.
    public static var notAuthorized: Self { Self(rawValue: "not-authorized") }
    /// The server does not offer TLS.
    package static var tlsUnavailable: Self { Self(rawValue: "tls-unavailable") }
    /// The server sent something that the protocol forbids here.
    package static var protocolViolation: Self { Self(rawValue: "protocol-violation") }
    /// The server ended the stream with an error.
    public static var streamError: Self { Self(rawValue: "stream-error") }
    /// Another client took the session's place on the server.
    public static var conflict: Self { Self(rawValue: "conflict") }
    /// The server was refused again and again: its certificate, or what it offers to log in with. See the cause.
    public static var untrustedServer: Self { Self(rawValue: "untrusted-server") }
    /// The server refused a resource.
    package static var bindFailed: Self { Self(rawValue: "bind-failed") }
    /// The connection could not be made or broke; the account tries again by itself.
    package static var connectionFailed: Self { Self(rawValue: "connection-failed") }
    /// The server did not answer in time.
    public static var timedOut: Self { Self(rawValue: "timed-out") }
    /// Another process took the stream over. This one must not commit, acknowledge or send any more.
    public static var ownershipLost: Self { Self(rawValue: "ownership-lost") }
    /// Another process owns the stream and is alive.
    public static var ownershipHeld: Self { Self(rawValue: "ownership-held") }
    /// The account was closed.
    public static var closed: Self { Self(rawValue: "closed") }
    /// More stanzas wait than the account may hold.
    public static var outboxFull: Self { Self(rawValue: "outbox-full") }
    /// What was to be sent is not a valid stanza.
    package static var invalidStanza: Self { Self(rawValue: "invalid-stanza") }
    /// The server does not take a stanza of that size (XEP-0478).
    package static var stanzaTooLarge: Self { Self(rawValue: "stanza-too-large") }
    /// The inbound request was answered before, or cannot be answered any more.
    package static var alreadyAnswered: Self { Self(rawValue: "already-answered") }
    /// The stanza is not being delivered just now, so it cannot be deferred.
    package static var notDeferrable: Self { Self(rawValue: "not-deferrable") }
    /// The session in which a request was sent is gone. Its answer will never come.
    public static var sessionLost: Self { Self(rawValue: "session-lost") }
    /// The program's ``AccountConfiguration/chooseSession`` wants to wait.
    package static var sessionPostponed: Self { Self(rawValue: "session-postponed") }
    /// The awaited work was canceled or given up; the message says why.
    public static var abandoned: Self { Self(rawValue: "abandoned") }
    /// The account lacks a module: it was not configured in this process.
    public static var missingModule: Self { Self(rawValue: "missing-module") }
    /// A configuration value cannot be used.
    public static var invalidConfiguration: Self { Self(rawValue: "invalid-configuration") }
}
