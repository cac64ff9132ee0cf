public import XMPPCore

/// What a live program may want to know about an account's stream.
public enum AccountEvent: Sendable {
    /// A new session: roster, rooms and subscriptions must be asked for again.
    case bound(JID)
    /// The session goes on where it was; nothing was lost and nothing need be asked for again.
    case resumed(JID)
    /// The stream broke; the session waits to be resumed.
    case suspended(AccountError)
    /// The stream is not open and will be tried again after this time, for this reason.
    case retrying(after: Duration, reason: any Error)
    /// The server keeps the session no longer. Requests sent in it were invalidated; messages will be sent again.
    case sessionLost
    /// A stanza was counted but could not be understood.
    case ignored(Element, reason: String)
    /// A handler was set aside; its row and what it was called with are kept.
    case setAside(handler: String, reason: String)
    /// Another process asked for the stream and gets it.
    case handedOver
    /// The account stopped for good; see the error.
    case stopped(AccountError)
}
