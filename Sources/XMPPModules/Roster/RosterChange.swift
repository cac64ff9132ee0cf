public import XMPPAccount
public import XMPPCore

/// What changed in the roster and around it, once it is stored.
///
/// ```swift
/// for await change in account.events(of: RosterChange.self) {
///     if case .requested(let request) = change { print("\(request.jid) asks to see the presence") }
/// }
/// ```
public enum RosterChange: ModuleEvent, Hashable {
    /// The server sent the changes since the last session; the stored roster is complete.
    case loaded
    /// The server did not send the roster; the stored roster stays. The error is nil for a timeout.
    case notLoaded(StanzaError?)
    /// An item was added or changed.
    case changed(RosterItem)
    /// An item was removed.
    case removed(JID)
    /// Somebody who is not the own server tried to change the roster. Nothing was changed.
    case refused(JID)
    /// Somebody asks to see the account's presence; it is stored until it is answered.
    case requested(SubscriptionRequest)
    /// Somebody in the roster asked to see the account's presence and may do so now, as
    /// `approvesKnownContacts` says.
    case approved(SubscriptionRequest)
    /// Somebody who had asked to see the account's presence, or saw it, does not want to any more.
    case unsubscribed(JID)
    /// A resource of a contact, or of the account itself, became available or says something else about it.
    case available(ContactPresence)
    /// A resource is not available any more; a bare address stands for all its resources.
    case unavailable(JID)
}

/// Somebody asks to see the account's presence.
///
/// ```swift
/// for request in try account.store.read({ try account.roster.requests(in: $0) }) {
///     try await account.perform { try account.roster.approve(request.jid, in: $0) }
/// }
/// ```
///
/// Source: RFC 6121 section 3.1.
public struct SubscriptionRequest: Hashable, Sendable {
    /// Who asks, as a bare address.
    public let jid: JID
    /// What they say with it. It comes from a stranger.
    public let status: ForeignText?
    /// The name that they give themselves (XEP-0172). It comes from a stranger.
    public let nick: ForeignText?
    /// When it was received first.
    public let receivedAt: Timestamp
}
