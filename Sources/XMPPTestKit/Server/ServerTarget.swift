public import XMPPCore

/// Whom a fault concerns.
///
/// ```swift
/// server.expireSessions(of: .jid(alice))
/// ```
public enum ServerTarget: Hashable, Sendable {
    /// Every connection and session there is now.
    case everyone
    /// Those of an account (a bare address), or of one resource (a full address).
    case jid(JID)
    /// One session, counted from 1.
    case session(Int)
    /// One connection, counted from 1.
    case connection(Int)
}
