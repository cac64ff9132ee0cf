// Omemo: end-to-end encryption for several devices of each user (XEP-0384), in both its versions.
//
//     refresh ──▶ PubSub fetch ──▶ server
//                                    │  maybe in another process
//     tables "omemo_device…" ◀── DeviceListFetched ◀── PubSubFetch
//        the same step: merged, marked, the program's handler run
//
// So far: the device lists. Bundles, sessions and messages will stand on them.

public import Handlers
import PubSub
public import XMPPAccount
public import XMPPCore

/// OMEMO of one account.
///
/// A value that refers to its account; make one whenever it is needed, through ``XMPPAccount/Account/omemo``.
///
/// ```swift
/// let registry = HandlerRegistry.discovered(and: OmemoService.handlers)
/// let store = try HandlerStore(path: path, registry: registry, schemas: Account.schemas + OmemoService.schemas)
/// …
/// try await account.omemo.refresh(juliet, .omemo2)
/// ```
public struct OmemoService: Sendable {
    /// The account in whose name it works.
    public let account: Account

    public init(_ account: Account) { self.account = account }

    /// The handlers that this module and PubSub store; every program that uses it must register them, in every
    /// process.
    public static let handlers: [any Handler.Type] = PubSubService.handlers + [DeviceListFetched.self]

    /// The tables of this module; pass them to `HandlerStore`.
    public static let schemas: [Schema] = [OmemoDeviceListTable.schema]

    /// The device lists that this account knows.
    public var deviceLists: OmemoDeviceListTable { OmemoDeviceListTable(account: account.id) }

    // MARK: Device lists

    /// Asks a user's server for the user's device list and merges the answer into ``deviceLists``.
    ///
    /// Only the answer that there is no list means that the user has no devices. After an error, a timeout or a lost
    /// session nothing is known, and what is stored stays as it is.
    ///
    /// - Parameters:
    ///   - jid: The user, or the own address; its resource is ignored.
    ///   - version: Which of the two lists.
    ///   - then: Called in the step that merges, with what changed.
    ///   - orElse: Called with the reason when the answer can never come.
    /// - Returns: The request's id, which `Account.cancelRequest(id:in:)` takes.
    /// - Throws: `AccountError` `outboxFull`; `HandlerError` `unknownHandler` when ``handlers`` are not registered, or
    ///   when the store fails.
    ///
    /// Source: XEP-0384 sections 5.2 and 5.3.1.
    @discardableResult
    public func refresh(
        _ jid: JID, _ version: OmemoVersion, then: Durable<OmemoRefresh>? = nil,
        orElse: Durable<Invalidation>? = nil
    ) async throws -> String {
        try await account.perform { step in
            try self.refresh(jid, version, then: then, orElse: orElse, in: step)
        }
    }

    /// Asks for a device list from inside a step: it commits with the rest of the step.
    @discardableResult
    public func refresh(
        _ jid: JID, _ version: OmemoVersion, then: Durable<OmemoRefresh>? = nil,
        orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws -> String {
        guard account.store.registry.knows(DeviceListFetched.id) else {
            throw HandlerError(
                .unknownHandler,
                "the handlers of OMEMO are not registered; make the registry with HandlerRegistry.discovered(and: OmemoService.handlers)"
            )
        }
        // All items, not "current" alone: lists of older clients stand under other ids.
        // Invalidated with the program's handler inside; without one, by itself.
        let fetched = try DeviceListFetched(version: version, then: then?.orElse(orElse)).durable
        return try account.pubsub.fetch(
            version.deviceListNode, from: jid.bare, .all, then: fetched, orElse: then == nil ? orElse : nil,
            in: step)
    }
}

extension Account {
    /// OMEMO in the name of this account.
    public var omemo: OmemoService { OmemoService(self) }
}
