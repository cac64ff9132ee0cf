public import Handlers
package import XMPPAccount
public import XMPPCore

/// The rooms of one account.
///
/// A value that refers to its account; make one whenever it is needed, through `Account.rooms`. What it changes is
/// committed with the step, and done by whatever process is there.
///
/// ```swift
/// try await account.perform { step in
///     try account.rooms.join(council, as: "Juliet", then: Council.joined(), in: step)
///     try account.rooms.send("Good morning", to: council, in: step)   // waits until the room has let us in
/// }
/// for await event in account.events(of: RoomEvent.self) { … }
/// ```
///
/// Source: XEP-0045.
public struct Rooms: Sendable {
    /// The account in whose name it acts.
    package let account: Account

    init(account: Account) { self.account = account }

    var table: RoomTable { RoomTable(account: account.id) }

    var signs: RoomSigns { RoomSigns(account: account, table: table) }

    var module: RoomsModule { get throws { try account.module() } }

    // MARK: What is known

    /// Returns every room that the account is in, joins, or was in.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The rooms by their addresses.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func all(in source: borrowing some Readable) throws -> [Room] { try table.all(in: source) }

    /// Returns the stored state of a room. Nil if the account never joined it.
    ///
    /// - Parameters:
    ///   - room: The room's address; a nickname is left out.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The room.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func room(_ room: JID, in source: borrowing some Readable) throws -> Room? {
        try table.room(room.bare, in: source)
    }

    /// Returns the occupants of a room, by nickname. Empty unless the account is in it.
    ///
    /// - Parameters:
    ///   - room: The room's address; a nickname is left out.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The occupants, the account among them.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func occupants(of room: JID, in source: borrowing some Readable) throws -> [RoomOccupant] {
        try table.occupants(of: table.room(room.bare, in: source)?.jid ?? room.bare, in: source)
    }

    /// Returns the occupant with a nickname.
    package func occupant(_ nick: ForeignText, of room: JID, in step: borrowing Step) throws -> RoomOccupant?
    {
        try table.occupant(nick, of: room.bare, in: step)
    }

    /// Returns the pending invitations, oldest first: one for each room, and only the newest 100.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The invitations; ``join(_:as:password:history:configures:then:in:)`` or ``decline(_:reason:in:)``
    ///   answers one.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func invitations(in source: borrowing some Readable) throws -> [RoomInvitation] {
        try table.invitations(in: source)
    }

    // MARK: Being in a room

    /// Wants to be in a room from now on: now, after each lost session, and in every process.
    ///
    /// While the account is not connected it waits; each new session joins the room again. The wish ends with
    /// ``leave(_:status:in:)``, when the room refuses it the first time, and when the account is removed from it. An
    /// account
    /// that is in the room already has joined at once, under the nickname that it has.
    ///
    /// ```swift
    /// try account.rooms.join(council, as: "Juliet", history: .last(20), then: Council.joined(), in: step)
    /// ```
    ///
    /// - Parameters:
    ///   - room: The room's bare address.
    ///   - nick: The nickname; the service may assign another one (status 210).
    ///   - password: For a room that asks for one. It is kept in the store.
    ///   - history: How much of what was said before is wanted, as long as nothing of the room was seen.
    ///   - configures: Whether the program sets up a room that did not exist before; otherwise it is taken as the
    ///     service makes it (an instant room, XEP-0045 section 10.1.2).
    ///   - then: Called once with how it ended; the time counts while the account is connected.
    ///   - step: The step that it commits with.
    /// - Returns: Names this attempt.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `invalidStanza` for what is no room's address, `outboxFull`;
    ///   `JIDError` for a nickname that cannot be one; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func join(
        _ room: JID, as nick: any TextConvertible, password: (any TextConvertible)? = nil,
        history: RoomHistory = .usual,
        configures: Bool = false, then: Durable<RoomJoined>? = nil, in step: borrowing Step
    ) throws -> String {
        let timeout = try module.joinTimeout
        guard room.isBare, room.local != nil else {
            throw AccountError(.invalidStanza, "'\(room)' is no room; give its bare address")
        }
        guard let nick = try room.with(resource: nick).resource else { return "" }
        try table.removeInvitation(into: room, in: step)
        let ticket = StanzaID.random()
        let known = try table.room(room, in: step)
        let jid = known?.jid ?? room
        if let known, known.state == .joined {
            try end(bind(known, ticket, then, timeout, in: step), known, .joined, in: step)
            report(jid, .joined(nick: known.nick, isNew: false), ticket: ticket, after: step)
            return ticket
        }
        if let known, known.state != .left { try abandon(known, in: step) }
        try table.want(
            jid, nick: nick, password: password?.foreignText, history: history, configures: configures,
            ticket: ticket, in: step)
        guard let wanted = try table.room(jid, in: step) else { return ticket }
        try table.set(waiter: bind(wanted, ticket, then, timeout, in: step), jid, in: step)
        if try account.hasOpenStream(in: step) { try ask(wanted, in: step) }
        return ticket
    }

    /// Joins a room, from now on, and waits for the result.
    ///
    /// For code that has nothing to do any more once its process has ended. The wish stays all the same; canceling the
    /// task only ends the waiting.
    ///
    /// - Parameters:
    ///   - room: The room's bare address.
    ///   - nick: The nickname; the service may assign another one (status 210).
    ///   - password: For a room that asks for one; nil for none.
    ///   - history: How much of what was said before is wanted, as long as nothing of the room was seen.
    ///   - configures: Whether the program sets up a room that did not exist before.
    /// - Returns: How it ended, a refusal included.
    /// - Throws: What ``join(_:as:password:history:configures:then:in:)`` throws; ``/XMPPAccount/AccountError`` `closed` when the
    ///   account was closed meanwhile; `CancellationError`.
    public func join(
        _ room: JID, as nick: any TextConvertible, password: (any TextConvertible)? = nil,
        history: RoomHistory = .usual, configures: Bool = false
    ) async throws -> RoomJoined {
        let events = account.events(of: RoomEvent.self)
        let ticket = try await account.perform { step in
            try self.join(
                room, as: nick, password: password, history: history, configures: configures, in: step)
        }
        return try await first(of: events, ticket) { change in
            switch change {
            case .joined(let nick, let isNew):
                RoomJoined(account: account, room: room, nick: nick, outcome: .joined, isNew: isNew)
            case .refused(let error):
                RoomJoined(account: account, room: room, nick: nick.foreignText, outcome: .refused(error))
            case .timedOut:
                RoomJoined(account: account, room: room, nick: nick.foreignText, outcome: .timedOut)
            case .abandoned:
                RoomJoined(account: account, room: room, nick: nick.foreignText, outcome: .abandoned)
            default: nil
            }
        }
    }

    /// Leaves a room, and wants to be in it no longer. Messages that it has not sent back are given up.
    ///
    /// - Parameters:
    ///   - room: The room's address; a nickname is left out.
    ///   - status: A sentence for those who stay.
    ///   - step: The step that it commits with.
    /// - Returns: False when the account neither is in the room nor wants to be.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func leave(_ room: JID, status: (any TextConvertible)? = nil, in step: borrowing Step) throws
        -> Bool
    {
        guard let known = try table.room(room.bare, in: step), known.state != .left else { return false }
        if known.state != .wanted { try sendUnavailable(known, status: status, in: step) }
        try abandon(known, in: step)
        try depart(known, RoomDeparture(.left, text: status?.foreignText), in: step)
        return true
    }

    /// Leaves every room for good, such as before ``/XMPPAccount/Account/logOut()``.
    ///
    /// - Parameters:
    ///   - status: A sentence for those who stay; nil for none.
    ///   - step: The step that it commits with.
    /// - Returns: How many rooms were left.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func leaveAll(status: (any TextConvertible)? = nil, in step: borrowing Step) throws -> Int {
        var count = 0
        for room in try table.all(in: step) where try leave(room.jid, status: status, in: step) { count += 1 }
        return count
    }

    /// Requests another nickname; ``RoomEvent/Change/nickChanged(from:to:)`` or `nickRefused` reports the result.
    ///
    /// - Parameters:
    ///   - room: The room's bare address.
    ///   - nick: 1 to 1023 octets of UTF-8.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `notInRoom`; `JIDError` for what cannot be a nickname; `outboxFull`.
    public func changeNick(in room: JID, to nick: any TextConvertible, in step: borrowing Step) throws {
        let known = try wanted(room, in: step)
        let occupant = try known.jid.with(resource: nick)
        guard let nick = occupant.resource else { return }
        guard known.state == .joined else { return try table.set(nick: nick, known.jid, in: step) }
        try account.send(Presence(to: occupant, id: StanzaID.random()), in: step)
        try table.set(askedNick: nick, known.jid, in: step)
    }

    /// The room, if the account is in it or wants to be.
    func wanted(_ room: JID, in step: borrowing Step) throws -> Room {
        _ = try module
        guard let known = try table.room(room.bare, in: step), known.state != .left else {
            throw AccountError(
                .notInRoom, "\(account.configuration.jid) is not in the room \(room.bare); join it first")
        }
        return known
    }

    /// The first event with that ticket that `read` knows.
    func first<Result>(
        of events: AsyncStream<RoomEvent>, _ ticket: String, _ read: (RoomEvent.Change) -> Result?
    ) async throws -> Result {
        for await event in events where event.ticket == ticket {
            if let result = read(event.change) { return result }
        }
        try Task.checkCancellation()
        throw AccountError(.closed, "the account was closed before the room answered")
    }

    func report(_ room: JID, _ change: RoomEvent.Change, ticket: String? = nil, after step: borrowing Step) {
        account.report(RoomEvent(room, change, ticket: ticket), after: step)
    }
}
