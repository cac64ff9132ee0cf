/// Milestones of opening a stream, for measurements.
///
/// Each is told on the thread that reached it, again after each reconnection; nothing waits for it, and where nobody
/// listens it costs a comparison with nil.
package enum Milestone: String, CaseIterable, Sendable {
    /// The epoch is raised: the account is this process's.
    case owned
    /// The server's host took the connection.
    case connected
    /// TLS protects it, and the certificate was verified.
    case protected
    /// The session goes on, and that is committed.
    case resumed
    /// A new session was bound, and that is committed.
    case bound
    /// The received stanzas are committed, together with the effects of their handlers.
    case handled
    /// The stream is closed and the account given back, so that the next process finds it free.
    case released
}
