/// The way in which a ``ScriptedServer`` breaks a connection.
///
/// ```swift
/// server.dropConnections(of: .jid(alice), .finish)
/// ```
public enum ConnectionEnding: String, Hashable, Sendable {
    /// A TCP reset: what is under way in either direction may be lost.
    case reset
    /// The end of TCP's stream, without `</stream:stream>` and without TLS's close_notify: what was sent before arrives.
    case finish
}
