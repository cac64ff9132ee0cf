public import XMPPAccount
public import XMPPCore

/// A stored change of the roster, the subscriptions or the presence of contacts.
///
/// ```swift
/// for await change in account.events(of: RosterChange.self) {
///     if case .requested(let request) = change { print("\(request.jid) asks to see the presence") }
/// }
/// ```
public enum RosterChange: ModuleEvent, Hashable {
    /// The server sent the changes since the last session. The stored roster is complete.
    case loaded
    /// The server did not send the roster; the stored roster stays. The error is nil for a timeout.
    case notLoaded(StanzaError?)
    /// An item was added or changed.
    case changed(RosterItem)
    /// An item was removed.
    case removed(JID)
    /// A sender other than the own server tried to change the roster. Nothing was changed.
    case refused(JID)
    /// A user asks to see the account's presence. The request is stored until it is answered.
    case requested(SubscriptionRequest)
    /// A contact's subscription request was approved, as `approvesKnownContacts` says.
    case approved(SubscriptionRequest)
    /// A user canceled a request or a subscription to the account's presence.
    case unsubscribed(JID)
    /// The presence of a contact's or an own resource changed.
    case available(ContactPresence)
    /// A resource is not available any more. A bare address means all its resources.
    case unavailable(JID)
}

/// A request to see the account's presence.
///
/// ```swift
/// for request in try account.store.read({ try account.roster.requests(in: $0) }) {
///     try await account.perform { try account.roster.approve(request.jid, in: $0) }
/// }
/// ```
///
/// Source: RFC 6121 section 3.1.
public struct SubscriptionRequest: Hashable, Sendable {
    /// The bare address of the requester.
    public let jid: JID
    /// The text of the request. It comes from a stranger.
    public let status: ForeignText?
    /// The name that they give themselves (XEP-0172). It comes from a stranger.
    public let nick: ForeignText?
    /// When it was received first.
    package let receivedAt: Timestamp
}
