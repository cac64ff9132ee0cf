public import Handlers
public import XMPPAccount
public import XMPPCore

/// The account's list of blocked addresses, read from the store and changed through the server.
///
/// It needs ``BlockingModule`` in the account's configuration. A blocked address can be a user's, one resource's, or a
/// whole domain. Nothing that they send arrives, and to them the account seems offline.
///
/// ```swift
/// try await account.request(.blocking.block([iago]))
/// ```
public struct Blocking: Sendable {
    /// Account that sends the requests.
    package let account: Account

    init(_ account: Account) { self.account = account }

    private var table: BlockingTable {
        get throws {
            _ = try account.module(BlockingModule.self)
            return BlockingTable(account: account.id)
        }
    }

    // MARK: Reading

    /// Returns the blocked addresses as the server last sent them, in order.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: Bare addresses, full ones and domains.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func list(in source: borrowing some Readable) throws -> [JID] { try table.all(in: source) }

    /// Returns whether an address is blocked, or its account, its domain or its resource there.
    ///
    /// - Parameters:
    ///   - jid: Any address.
    ///   - source: The step or snapshot to read in.
    /// - Returns: Whether the server lets nothing of it through.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0191 section 5.
    public func isBlocked(_ jid: JID, in source: borrowing some Readable) throws -> Bool {
        try table.covers(jid, in: source)
    }
}

/// Changes of the block list, found as `AccountOperation.blocking`.
///
/// They need ``BlockingModule``. The stored list changes when the server pushes the change. If the session is lost before the
/// answer, the list of the next session shows whether the server made the change.
///
/// ```swift
/// try await account.request(.blocking.block([tybalt]))
/// try account.send(.blocking.unblockAll, then: Peace.made(), in: step)
/// ```
public struct BlockingOperations: Sendable {
    /// Blocks addresses.
    ///
    /// - Parameter jids: One at least; without one it cannot be sent (``/XMPPAccount/AccountError`` `invalidStanza`).
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0191 section 3.3.
    public func block(_ jids: [JID]) -> AccountOperation<IQReply, Void> { change("block", jids) }

    /// Unblocks addresses.
    ///
    /// - Parameter jids: One at least; ``unblockAll`` unblocks all.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0191 section 3.4.
    public func unblock(_ jids: [JID]) -> AccountOperation<IQReply, Void> { change("unblock", jids) }

    /// Unblocks everybody.
    ///
    /// Source: XEP-0191 section 3.5.
    public var unblockAll: AccountOperation<IQReply, Void> { change("unblock", nil) }

    /// - Parameter jids: Nil for everybody.
    private func change(_ name: String, _ jids: [JID]?) -> AccountOperation<IQReply, Void> {
        AccountOperation { account in
            _ = try account.module(BlockingModule.self)
            // An empty list would unblock everybody.
            if jids?.isEmpty == true {
                throw AccountError(.invalidStanza, "there is nobody to \(name); name one address at least")
            }
            let items = (jids ?? []).map {
                Element("item", namespace: Namespaces.blocking, attributes: ["jid": $0.description])
            }
            return IQ(
                type: .set, payload: Element(name, namespace: Namespaces.blocking, children: items))
        } value: { _ in
        }
    }
}

extension AccountOperation where Context == IQReply, Value == Void {
    /// Changes of the block list.
    public static var blocking: BlockingOperations { BlockingOperations() }
}

extension Account {
    /// The list of blocked addresses.
    public var blocking: Blocking { Blocking(self) }
}
