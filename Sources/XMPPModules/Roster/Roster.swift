public import Handlers
public import XMPPAccount
public import XMPPCore

/// The roster of an account: read from the store, changed through the server.
///
/// A value that refers to its account; make one whenever it is needed, through `Account.roster`. It needs
/// ``RosterModule`` in the account's configuration.
///
/// ```swift
/// try await account.request(.roster.set(RosterItem(juliet, name: "Juliet", groups: ["Verona"])))
/// try await account.perform { try account.roster.subscribe(to: juliet, then: Contacts.decided(), in: $0) }
/// let contacts = try account.store.read { try account.roster.items(in: $0) }
/// ```
public struct Roster: Sendable {
    /// The account whose roster it is.
    package let account: Account

    init(_ account: Account) { self.account = account }

    /// The module's writes, once the module is known to be there.
    var update: RosterUpdate {
        get throws {
            _ = try account.module(RosterModule.self)
            return RosterUpdate(account)
        }
    }

    // MARK: Reading

    /// Returns all contacts as the server last sent them, in the order of their addresses.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The contacts.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func items(in source: borrowing some Readable) throws -> [RosterItem] {
        try update.roster.items(in: source)
    }

    /// Returns a contact; nil if it is not in the roster.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The contact.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func item(for jid: JID, in source: borrowing some Readable) throws -> RosterItem? {
        try update.roster.item(for: jid, in: source)
    }

    /// Returns the version of the stored roster; nil when the server has none (RFC 6121 section 2.6).
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The version, which only the server understands.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    package func version(in source: borrowing some Readable) throws -> ForeignText? {
        try update.roster.state(in: source).version
    }

    /// Returns the available resources of a contact or the account itself. The highest priority comes first.
    ///
    /// They are those that this session received. Nothing is known before the account has been connected; while it is not
    /// connected, they are the last that arrived.
    ///
    /// - Parameters:
    ///   - jid: The contact; a resource is left out.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The resources; none for a contact that is not available.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func presence(of jid: JID, in source: borrowing some Readable) throws -> [ContactPresence] {
        try update.presences.presence(of: jid, in: source)
    }

    /// Returns the unanswered requests to see the account's presence, oldest first.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The requests; ``approve(_:in:)`` or ``deny(_:in:)`` answers one.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func requests(in source: borrowing some Readable) throws -> [SubscriptionRequest] {
        try update.subscriptions.requests(in: source)
    }
}

/// Changes of the roster, found as `AccountOperation.roster`.
///
/// They need ``RosterModule``. The stored roster changes when the server pushes the change, see ``RosterChange/changed(_:)``.
/// If the session is lost before the answer, the roster of the next session shows whether the server made the change.
///
/// ```swift
/// try await account.request(.roster.set(RosterItem(juliet, name: "Juliet", groups: ["Verona"])))
/// try account.send(.roster.remove(tybalt), then: Contacts.removed(), in: step)
/// ```
public struct RosterOperations: Sendable {
    /// Adds a contact, or replaces its name and groups.
    ///
    /// - Parameter item: The contact with its new name and groups; the server decides its subscription.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: RFC 6121 sections 2.3 and 2.4.
    public func set(_ item: RosterItem) -> AccountOperation<IQReply, Void> { change(RosterWire.set(item)) }

    /// Removes a contact, and with it both subscriptions. The server refuses with `itemNotFound` where there is none.
    ///
    /// - Parameter jid: The contact's address.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: RFC 6121 section 2.5.
    public func remove(_ jid: JID) -> AccountOperation<IQReply, Void> { change(RosterWire.remove(jid)) }

    private func change(_ query: Element) -> AccountOperation<IQReply, Void> {
        AccountOperation { account in
            _ = try account.module(RosterModule.self)
            return IQ(type: .set, id: StanzaID.random(), payload: query)
        } value: { _ in
        }
    }
}

extension AccountOperation where Context == IQReply, Value == Void {
    /// Changes of the roster.
    public static var roster: RosterOperations { RosterOperations() }
}

extension Account {
    /// The account's contacts.
    public var roster: Roster { Roster(self) }
}
