public import XMPPCore

/// The target of a fault.
///
/// ```swift
/// server.expireSessions(of: .jid(alice))
/// ```
public enum ServerTarget: Hashable, Sendable {
    /// Every connection and session there is now.
    case everyone
    /// Connections of an account (bare address) or of one resource (full address).
    case jid(JID)
    /// The session with this number, counted from 1.
    case session(Int)
    /// The connection with this number, counted from 1.
    case connection(Int)
}
