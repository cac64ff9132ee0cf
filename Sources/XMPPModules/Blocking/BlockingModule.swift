// Blocking: addresses from which the server lets nothing through (XEP-0191).
//
//     begin ──▶ <blocklist/> ──▶ BlocklistFetched ──▶ blocklist, blocked
//     push  <block/>, <unblock/> ─────────────────▶

import Handlers
public import XMPPAccount
public import XMPPCore

/// Module for the list of blocked addresses.
///
/// The module requests the list when a session starts. After a resumption the server continues to push its changes. A server
/// without blocking has an empty list. `Account.blocking` reads and changes it; ``BlockingChange`` reports changes.
///
/// ```swift
/// configuration.modules = [BlockingModule()]
/// ```
public struct BlockingModule: LibraryModule, AccountModule {
    package static let moduleName = "blocking"
    static let schema = Schema(
        module: "xmpp-blocking", migrations: [BlockingTable.script], handlers: [BlocklistFetched.self])

    /// Makes the module, which has no options.
    public init() {}

    package func install(in hooks: inout ModuleHooks) {
        hooks.schema = Self.schema
        hooks.start = start
        hooks.answer = answer
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        let session = try account.sessionNumber(in: step)
        let list = Element("blocklist", namespace: Namespaces.blocking)
        try account.send(
            .iq(IQ(type: .get, payload: list)), then: Durable(BlocklistFetched(session: session)), in: step)
    }

    func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer? {
        guard request.type == .set, let payload = request.payload,
            payload.namespace == Namespaces.blocking, ["block", "unblock"].contains(payload.name)
        else { return nil }
        guard try account.isFromOwnAccount(request.from, in: step) else {
            if let from = request.from { account.report(BlockingChange.refused(from), after: step) }
            return .error(StanzaError(.serviceUnavailable))
        }
        return try pushed(payload, account, in: step)
    }

    private func pushed(_ payload: Element, _ account: Account, in step: borrowing Step) throws
        -> ModuleAnswer
    {
        let table = BlockingTable(account: account.id)
        let jids = BlockingTable.addresses(in: payload)
        let isEmpty = payload.children("item", Namespaces.blocking).isEmpty
        switch (payload.name, isEmpty) {
        case ("block", true): return .error(StanzaError(.badRequest))
        case ("block", false):
            try table.add(jids, in: step)
            account.report(BlockingChange.blocked(jids), after: step)
        case (_, true):
            try table.removeAll(in: step)
            account.report(BlockingChange.unblockedAll, after: step)
        case (_, false):
            try table.remove(jids, in: step)
            account.report(BlockingChange.unblocked(jids), after: step)
        }
        return .result(nil)
    }
}

/// A stored change of the list of blocked addresses.
///
/// ```swift
/// for await change in account.events(of: BlockingChange.self) {
///     if case .blocked(let jids) = change { print("blocked: \(jids)") }
/// }
/// ```
public enum BlockingChange: ModuleEvent, Hashable {
    /// The server sent the list, and it was stored.
    case loaded
    /// The server does not support blocking: no address is blocked.
    case unsupported
    /// The server did not send the list; the stored list stays. The error is nil for a timeout.
    case notLoaded(StanzaError?)
    /// These are blocked now.
    case blocked([JID])
    /// These are not blocked any more.
    case unblocked([JID])
    /// All addresses were unblocked.
    case unblockedAll
    /// A sender other than the own server tried to change the list. Nothing was changed.
    case refused(JID)
}

/// Takes the list in. Its id and arguments are stored.
struct BlocklistFetched: Handler {
    static let id = "blocking.list-fetched"
    /// Later the list would be older than what was pushed since.
    static let retry = RetryPolicy.never
    /// The session in which it was asked for.
    var session: Int64

    func run(_ call: borrowing Call<IQReply>) throws {
        let account = call.account
        guard try account.sessionNumber(in: call.step) == session else { return }
        account.report(
            try Self.handle(call.outcome, BlockingTable(account: account.id), in: call.step), after: call.step
        )
    }

    /// The errors of a server that does not support blocking.
    private static let unsupported: Set<OpenName<StanzaError>> = [
        .itemNotFound, .serviceUnavailable, .featureNotImplemented,
    ]

    private static func handle(
        _ outcome: IQReply.Outcome, _ table: BlockingTable, in step: borrowing Step
    ) throws -> BlockingChange {
        switch outcome {
        case .timeout: return .notLoaded(nil)
        case .error(let error) where unsupported.contains(error.condition):
            try table.removeAll(in: step)
            return .unsupported
        case .error(let error): return .notLoaded(error)
        case .result(let list):
            guard let list, list.has(name: "blocklist", namespace: Namespaces.blocking) else {
                return .notLoaded(StanzaError(.undefinedCondition))
            }
            try table.removeAll(in: step)
            try table.add(BlockingTable.addresses(in: list), in: step)
            return .loaded
        }
    }
}
