// Roster: the contacts of an account, as its server keeps them (RFC 6121 sections 2 and 3).
//
//     begin ──▶ <query ver/> ──▶ RosterFetched ──▶ RosterUpdate ──▶ roster, roster_item, contact_presence,
//     push ─────────────────────────────────────▶                   subscription_request, subscription_wait
//     presence ─────────────────────────────────▶
//
// What the server says decides; what this client asks for changes nothing here until the server has pushed it.

import Handlers
public import XMPPAccount
import XMPPCore

/// Keeps the roster, requests to see the account's presence, and which contacts are available.
///
/// The module requests the roster when a session starts, with the stored version. After a resumption the server continues to
/// push its changes. `Account.roster` reads and changes it; ``RosterChange`` reports changes.
///
/// ```swift
/// configuration.modules = [RosterModule()]
/// ```
public struct RosterModule: LibraryModule, AccountModule {
    package static let moduleName = "roster"
    static let schema = Schema(
        module: "xmpp-roster",
        migrations: [
            RosterTable.script + ContactPresenceTable.script + SubscriptionTable.script,
            SubscriptionTable.bounds, RosterTable.bounds,
        ],
        handlers: [RosterFetched.self, SubscriptionSent.self, SubscriptionUnsent.self])

    /// Whether subscription requests of contacts in the roster are approved without asking the user.
    package let approvesKnownContacts: Bool

    /// Makes the module.
    ///
    /// - Parameter approvesKnownContacts: Whether a user in the roster who asks to see the account's presence may do so without
    ///   the user being asked; ``RosterChange/approved(_:)`` reports it.
    public init(approvesKnownContacts: Bool = false) { self.approvesKnownContacts = approvesKnownContacts }

    package func install(in hooks: inout ModuleHooks) {
        // So that the server's pushes and the contacts' presence find the roster in place (RFC 6121 section 2.2).
        hooks.startsBeforePresence = true
        hooks.schema = Self.schema
        hooks.reset = reset
        hooks.start = start
        hooks.receiveOffer = receive(offered:for:in:)
        hooks.answer = answer
        hooks.receivePresence = receive(_:for:in:)
    }

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        let update = RosterUpdate(account)
        try update.roster.setLoaded(false, in: step)
        try update.presences.removeAll(in: step)
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session, !BuiltInFault.staleLists.isOn else { return }
        let update = RosterUpdate(account)
        let state = try update.roster.state(in: step)
        // RFC 6121 section 2.6: the version goes to servers that have announced versions, and only to those; an empty one
        // asks for the first.
        let query = RosterWire.query(version: state.isVersioned ? state.version ?? "" : nil)
        let session = try account.sessionNumber(in: step)
        try account.send(
            .iq(IQ(type: .get, payload: query)), then: Durable(RosterFetched(session: session)), in: step)
        account.log(
            .info, .roster,
            "asks for the roster\(state.version.map { ", of which it has version \($0)" } ?? "")",
            after: step)
        for stanza in try update.subscriptions.claimLost(in: step) {
            try update.send(stanza.type, to: stanza.jid, status: stanza.status, in: step)
        }
    }

    /// Records whether the server supports roster versions (RFC 6121 section 2.6.1).
    func receive(offered features: Set<ForeignText>, for account: Account, in step: borrowing Step)
        throws
    {
        try RosterTable(account: account.id).setVersioned(
            features.contains(ForeignText(Namespaces.rosterVersions)), in: step)
    }

    func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer? {
        guard request.type == .set, let query = request.payload,
            query.has(name: "query", namespace: Namespaces.roster)
        else { return nil }
        // RFC 6121 section 2.1.6: only the own server may push.
        guard try account.isFromOwnAccount(request.from, in: step) else {
            if let from = request.from { account.report(RosterChange.refused(from), after: step) }
            return .error(StanzaError(.serviceUnavailable))
        }
        return try RosterUpdate(account).push(query, in: step)
    }

    func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {
        guard let from = presence.from else { return }
        let update = RosterUpdate(account)
        switch presence.type {
        case nil: try update.available(presence, from: from, in: step)
        case .unavailable: try update.unavailable(from, in: step)
        case .error: try update.failed(presence, from: from, in: step)
        case .subscribe: try update.requested(presence, from: from.bare, in: step)
        case .unsubscribe: try update.unsubscribed(from.bare, in: step)
        // What they grant and refuse is in the roster, and only the server can say that.
        case .subscribed, .unsubscribed, .probe: break
        }
    }
}
