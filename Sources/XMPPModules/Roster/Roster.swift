public import Handlers
public import XMPPAccount
public import XMPPCore

/// The roster of an account: read from the store, changed through the server.
///
/// A value that refers to its account; make one whenever it is needed, through `Account.roster`. It needs
/// ``RosterModule`` in the account's configuration.
///
/// ```swift
/// try await account.roster.set(juliet, name: "Juliet", groups: ["Verona"])
/// try await account.roster.subscribe(to: juliet, then: Contacts.decided().durable)
/// let contacts = try account.store.read { try account.roster.items(in: $0) }
/// ```
public struct Roster: Sendable {
    /// The account whose roster it is.
    public let account: Account

    init(_ account: Account) { self.account = account }

    /// What the module writes, once it is sure that the module is there.
    var update: RosterUpdate {
        get throws {
            _ = try account.module(RosterModule.self)
            return RosterUpdate(account)
        }
    }

    // MARK: Reading

    /// All contacts as the server last told them, in the order of their addresses.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The contacts.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func items(in source: borrowing some Readable) throws -> [RosterItem] {
        try update.roster.items(in: source)
    }

    /// One contact; nil when it is not in the roster.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The contact.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func item(for jid: JID, in source: borrowing some Readable) throws -> RosterItem? {
        try update.roster.item(for: jid, in: source)
    }

    /// The version of the stored roster; nil when the server has none (RFC 6121 section 2.6).
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The version, which only the server understands.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func version(in source: borrowing some Readable) throws -> ForeignText? {
        try update.roster.state(in: source).version
    }

    /// The available resources of a contact, or of the account itself, that with the highest priority first.
    ///
    /// It is what this session was told. Nothing is known before the account has been connected, and while it is not
    /// connected this is the last that was heard.
    ///
    /// - Parameters:
    ///   - jid: The contact; a resource is left out.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The resources; none for a contact that is not available.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func presence(of jid: JID, in source: borrowing some Readable) throws -> [ContactPresence] {
        try update.presences.presence(of: jid, in: source)
    }

    /// Who asks to see the account's presence and is not answered yet, the oldest first.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The requests; ``approve(_:)`` or ``deny(_:)`` answers one.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func requests(in source: borrowing some Readable) throws -> [SubscriptionRequest] {
        try update.subscriptions.requests(in: source)
    }

    // MARK: Changing

    /// Adds a contact, or gives it another name and other groups, and waits until the server has done so.
    ///
    /// What is stored changes when the server pushes it, see ``RosterChange/changed(_:)``.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - name: What to call it; nil for nothing. It replaces the name that there was.
    ///   - groups: Into which groups to put it. They replace those that there were.
    /// - Throws: `StanzaError` when the server refuses; otherwise what ``/XMPPAccount/Account/request(_:timeout:)`` throws;
    ///   ``/XMPPAccount/AccountError`` `missingModule`.
    ///
    /// Source: RFC 6121 sections 2.3 and 2.4.
    public func set(_ jid: JID, name: (any TextConvertible)?, groups: [any TextConvertible] = []) async throws
    {
        try await change(RosterWire.set(jid, name: name, groups: groups))
    }

    /// Adds a contact or gives it another name and other groups; the answer calls a stored handler.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - name: What to call it; nil for nothing.
    ///   - groups: Into which groups to put it.
    ///   - then: Called with the server's answer: a result without payload, an error, or nothing in time.
    ///   - orElse: Called with the reason when the answer can never come; whether the server did it is then unknown
    ///     until the next session has told the roster.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `outboxFull`, `ownershipLost` or `closed`;
    ///   ``/Handlers/HandlerError`` when the store fails.
    public func set(
        _ jid: JID, name: (any TextConvertible)?, groups: [any TextConvertible] = [], then: Durable<IQReply>,
        orElse: Durable<Invalidation>? = nil
    ) async throws {
        try await account.perform { step in
            try self.set(jid, name: name, groups: groups, then: then, orElse: orElse, in: step)
        }
    }

    /// Adds a contact or gives it another name and other groups, from inside a step: it commits with the rest of the
    /// step.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - name: What to call it; nil for nothing.
    ///   - groups: Into which groups to put it.
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule` or `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func set(
        _ jid: JID, name: (any TextConvertible)?, groups: [any TextConvertible] = [], then: Durable<IQReply>,
        orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        try change(RosterWire.set(jid, name: name, groups: groups), then, orElse, in: step)
    }

    /// Removes a contact, and with it both subscriptions, and waits until the server has done so.
    ///
    /// - Parameter jid: The contact's address.
    /// - Throws: `StanzaError`, such as `itemNotFound`, when the server refuses; otherwise what
    ///   ``/XMPPAccount/Account/request(_:timeout:)`` throws; ``/XMPPAccount/AccountError`` `missingModule`.
    ///
    /// Source: RFC 6121 section 2.5.
    public func remove(_ jid: JID) async throws { try await change(RosterWire.remove(jid)) }

    /// Removes a contact; the answer calls a stored handler, as in ``set(_:name:groups:then:orElse:)``.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `outboxFull`, `ownershipLost` or `closed`;
    ///   ``/Handlers/HandlerError`` when the store fails.
    public func remove(
        _ jid: JID, then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil
    ) async throws {
        try await account.perform { step in try self.remove(jid, then: then, orElse: orElse, in: step) }
    }

    /// Removes a contact, from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - then: Called with the server's answer.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule` or `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func remove(
        _ jid: JID, then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        try change(RosterWire.remove(jid), then, orElse, in: step)
    }

    private func change(_ query: Element) async throws {
        _ = try update
        _ = try await account.request(IQ(type: .set, id: StanzaID.random(), payload: query))
    }

    private func change(
        _ query: Element, _ then: Durable<IQReply>, _ orElse: Durable<Invalidation>?, in step: borrowing Step
    ) throws {
        _ = try update
        try account.send(
            IQ(type: .set, id: StanzaID.random(), payload: query), then: then, orElse: orElse, in: step)
    }
}

extension Account {
    /// The account's contacts.
    public var roster: Roster { Roster(self) }
}
