public import Handlers
public import XMPPAccount
public import XMPPCore

/// Whom the account has blocked: read from the store, changed through the server.
///
/// It needs ``BlockingModule`` in the account's configuration. A blocked address can be a user's, one resource's, or a
/// whole domain. Nothing that they send arrives, and to them the account seems offline.
///
/// ```swift
/// try await account.blocking.block([iago])
/// ```
public struct Blocking: Sendable {
    /// The account in whose name it asks.
    public let account: Account

    init(_ account: Account) { self.account = account }

    private var table: BlockingTable {
        get throws {
            _ = try account.module(BlockingModule.self)
            return BlockingTable(account: account.id)
        }
    }

    // MARK: Reading

    /// The blocked addresses as the server last told them, in order.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: Bare addresses, full ones and domains.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func list(in source: borrowing some Readable) throws -> [JID] { try table.all(in: source) }

    /// Whether an address is blocked, by itself or with its account, its domain or its resource there.
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

    // MARK: Changing

    /// Blocks addresses, and waits until the server has done so. What is stored changes when the server pushes it.
    ///
    /// - Parameter jids: One at least.
    /// - Throws: `StanzaError` when the server refuses; otherwise what ``/XMPPAccount/Account/request(_:timeout:)`` throws;
    ///   ``/XMPPAccount/AccountError`` `missingModule`, `invalidStanza` for no address at all.
    ///
    /// Source: XEP-0191 section 3.3.
    public func block(_ jids: [JID]) async throws { try await change(Self.payload("block", jids)) }

    /// Blocks addresses; the answer calls a stored handler.
    ///
    /// - Parameters:
    ///   - jids: One at least.
    ///   - then: Called with the server's answer: a result without payload, an error, or nothing in time.
    ///   - orElse: Called with the reason when the answer can never come; the next session tells whether it was done.
    /// - Throws: ``/XMPPAccount/AccountError`` `invalidStanza` for no address at all, `missingModule`, `outboxFull`;
    ///   ``/Handlers/HandlerError`` when the store fails.
    public func block(
        _ jids: [JID], then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil
    ) async throws {
        try await account.perform { step in try self.block(jids, then: then, orElse: orElse, in: step) }
    }

    /// Blocks addresses, from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - jids: One at least.
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Throws: As ``block(_:then:orElse:)``.
    public func block(
        _ jids: [JID], then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws { try change(Self.payload("block", jids), then, orElse, in: step) }

    /// Unblocks addresses, and waits until the server has done so.
    ///
    /// - Parameter jids: One at least; ``unblockAll()`` unblocks all.
    /// - Throws: As ``block(_:)``.
    ///
    /// Source: XEP-0191 section 3.4.
    public func unblock(_ jids: [JID]) async throws { try await change(Self.payload("unblock", jids)) }

    /// Unblocks addresses; the answer calls a stored handler, as in ``block(_:then:orElse:)``.
    ///
    /// - Parameters:
    ///   - jids: One at least.
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    /// - Throws: As ``block(_:then:orElse:)``.
    public func unblock(
        _ jids: [JID], then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil
    ) async throws {
        try await account.perform { step in try self.unblock(jids, then: then, orElse: orElse, in: step) }
    }

    /// Unblocks addresses, from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - jids: One at least.
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Throws: As ``block(_:then:orElse:)``.
    public func unblock(
        _ jids: [JID], then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws { try change(Self.payload("unblock", jids), then, orElse, in: step) }

    /// Unblocks everybody, and waits until the server has done so.
    ///
    /// - Throws: As ``block(_:)``.
    ///
    /// Source: XEP-0191 section 3.5.
    public func unblockAll() async throws {
        try await change(Element("unblock", namespace: Namespaces.blocking))
    }

    /// Unblocks everybody; the answer calls a stored handler, as in ``block(_:then:orElse:)``.
    ///
    /// - Parameters:
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func unblockAll(then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil) async throws {
        try await account.perform { step in try self.unblockAll(then: then, orElse: orElse, in: step) }
    }

    /// Unblocks everybody, from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func unblockAll(
        then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        try change(Element("unblock", namespace: Namespaces.blocking), then, orElse, in: step)
    }

    // MARK: Inside

    /// To unblock nobody in particular would unblock everybody.
    private static func payload(_ name: String, _ jids: [JID]) throws(AccountError) -> Element {
        guard !jids.isEmpty else {
            throw AccountError(.invalidStanza, "there is nobody to \(name); name one address at least")
        }
        return Element(
            name, namespace: Namespaces.blocking,
            children: jids.map {
                Element("item", namespace: Namespaces.blocking, attributes: ["jid": $0.description])
            })
    }

    private func change(_ payload: Element) async throws {
        _ = try table
        _ = try await account.request(IQ(type: .set, id: StanzaID.random(), payload: payload))
    }

    private func change(
        _ payload: Element, _ then: Durable<IQReply>, _ orElse: Durable<Invalidation>?,
        in step: borrowing Step
    ) throws {
        _ = try table
        try account.send(
            IQ(type: .set, id: StanzaID.random(), payload: payload), then: then, orElse: orElse, in: step)
    }
}

extension Account {
    /// Whom the account has blocked.
    public var blocking: Blocking { Blocking(self) }
}
