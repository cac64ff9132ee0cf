public import XMPPCore

/// Why a ``ScriptedServer`` could not be made or started.
///
/// ```swift
/// do {
///     try server.start()
/// } catch {
///     Issue.record("\(error.code): \(error)")
/// }
/// ```
public struct ScriptedServerError: CodedError {
    /// What went wrong. Open: later versions may add codes.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// Stable name for logs.
        public let description: String

        /// The domain or an account's name cannot be part of an address.
        package static let invalidAddress = Code(description: "invalidAddress")
        /// The certificate or its key cannot be used.
        package static let certificate = Code(description: "certificate")
        /// A password cannot be used.
        package static let password = Code(description: "password")
        /// The log file cannot be written.
        package static let logFile = Code(description: "logFile")
        /// A port cannot be listened on.
        package static let port = Code(description: "port")
        /// The system gives no thread or descriptor.
        package static let system = Code(description: "system")
        /// The server runs already.
        package static let running = Code(description: "running")
    }

    /// Kind of the error.
    public let code: Code
    /// A sentence that says what to do.
    public let message: String
    /// The error beneath, if there is one.
    public let cause: (any Error)?

    init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// The message, and what is beneath it.
    public var description: String { cause.map { "\(message) (\($0))" } ?? message }
}
