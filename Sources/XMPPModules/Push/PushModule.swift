// Push: the server tells a push service that something has arrived, and that wakes the device (XEP-0357).
//
//     enable  ──▶ push_registration ──▶ <enable/>  ──▶ PushEnabled      again in each new session
//     disable ──▶ push_removal      ──▶ <disable/> ──▶ PushDisabled     again in each new session, until it is answered
//     <affiliation affiliation='none'/> of the service ──▶ disable

import Handlers
public import XMPPAccount
import XMPPCore

/// Module for registrations with push services (XEP-0357).
///
/// A server may forget a registration with the session, so each new session registers again; a resumed one does not.
/// `Account.push` registers; ``PushChange`` reports changes.
///
/// ```swift
/// configuration.modules = [PushModule()]
/// ```
public struct PushModule: LibraryModule, AccountModule {
    package static let moduleName = "push"
    static let schema = Schema(
        module: "xmpp-push", migrations: [PushTable.script], handlers: [PushEnabled.self, PushDisabled.self])

    /// Makes the module, which has no options.
    public init() {}

    package func install(in hooks: inout ModuleHooks) {
        hooks.schema = Self.schema
        hooks.reset = reset
        hooks.start = start
        hooks.receiveMessage = receive(_:in:)
    }

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        try PushTable(account: account.id).forgetStates(in: step)
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        let push = PushNotifications(account)
        let table = PushTable(account: account.id)
        // What was asked for while there was no session goes with this one already.
        for removal in try table.removals(in: step) where try !table.isWaiting(removal.asked, in: step) {
            try push.sendAgain(removal, in: step)
        }
        for stored in try table.all(in: step) where try !table.isWaiting(stored.asked, in: step) {
            try push.send(stored.registration, then: nil, in: step)
        }
    }

    /// Handles a revocation by the push service (XEP-0357 section 8).
    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        guard message.source == .direct, message.message.type != .error, let from = message.message.from,
            let pubsub = message.message.element.child("pubsub", Namespaces.pubsub)
        else { return false }
        let own = try message.account.ownAddress(in: step)
        let isRevoked = pubsub.children("affiliation", Namespaces.pubsub).contains {
            $0["affiliation"] == "none" && $0["jid"].flatMap { try? JID(received: $0) } == own
        }
        let table = PushTable(account: message.account.id)
        guard isRevoked, let stored = try table.find(from, pubsub["node"], in: step) else { return false }
        try PushNotifications(message.account).remove(
            from, node: stored.registration.node, then: nil, in: step)
        message.account.report(PushChange.revoked(stored.registration), after: step)
        return true
    }
}
