public import XMPPCore

/// An error of a ``ScriptedServer`` that could not be made or started.
///
/// ```swift
/// do {
///     try server.start()
/// } catch {
///     Issue.record("\(error.code): \(error)")
/// }
/// ```
public struct ScriptedServerError: DetailedError, CodedError {
    /// Kind of the error.
    public let code: ErrorCode<ScriptedServerError>
    /// A sentence that says what to do.
    public let message: String
    /// The error beneath, if there is one.
    public let cause: (any Error)?

    init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// The message, and the cause in parentheses.
    package var details: String { messageWithCause }
}

// MARK: - Codes

extension ErrorCode where Failure == ScriptedServerError {
    /// The domain or an account's name cannot be part of an address.
    package static var invalidAddress: Self { Self(rawValue: "invalidAddress") }
    /// The certificate or its key cannot be used.
    package static var certificate: Self { Self(rawValue: "certificate") }
    /// A password cannot be used.
    package static var password: Self { Self(rawValue: "password") }
    /// The log file cannot be written.
    package static var logFile: Self { Self(rawValue: "logFile") }
    /// A port cannot be listened on.
    package static var port: Self { Self(rawValue: "port") }
    /// The system gives no thread or descriptor.
    package static var system: Self { Self(rawValue: "system") }
    /// The server runs already.
    package static var running: Self { Self(rawValue: "running") }
}
