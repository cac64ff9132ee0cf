import Handlers
import XMPPAccount
import XMPPCore

// How the account gets into a room, and how it comes out.
extension Rooms {
    // MARK: Asking

    /// Asks a room to let the account in, with what has come since the stored cursor.
    ///
    /// Who waits from before, through a lost session, goes on to wait.
    func ask(_ room: Room, in step: borrowing Step) throws {
        let waiter = try table.claimWaiter(of: room.jid, in: step)
        var room = room
        if waiter == nil {
            room = try renewed(room, in: step)
        } else {
            try table.set(waiter: waiter, room.jid, in: step)
        }
        var x = Element("x", namespace: Namespaces.muc)
        if let history = try wantedHistory(room, in: step) { x.append(history) }
        if let password = room.password {
            x.append(Element("password", namespace: Namespaces.muc, text: password))
        }
        try signs.askForName(of: room, in: step)
        account.log(
            .info, .rooms,
            "\(room.jid): asks to be let in as \(room.nick)\(room.cursor == nil ? "" : ", with what came since the last time")",
            after: step)
        try account.send(Presence(to: room.occupant, id: room.ticket, children: [x]), in: step)
        try table.set(.joining, room.jid, in: step)
        try table.removeOccupants(of: room.jid, in: step)
    }

    /// Returns the room with a new ticket for another attempt that has no caller.
    private func renewed(_ room: Room, in step: borrowing Step) throws -> Room {
        let ticket = StanzaID.random()
        try table.set(ticket: ticket, room.jid, in: step)
        let waiter = try bind(room, ticket, nil, module.joinTimeout, in: step)
        try table.set(waiter: waiter, room.jid, in: step)
        return try table.room(room.jid, in: step) ?? room
    }

    /// Stores the handler for the end of an attempt.
    func bind(
        _ room: Room, _ ticket: String, _ then: Durable<RoomJoined>?, _ timeout: Duration,
        in step: borrowing Step
    ) throws -> HandlerID<RoomJoined> {
        let unanswered = RoomJoinUnanswered(
            room: room.jid, nick: room.nick.string, ticket: ticket, then: then)
        return try step.bind(
            Durable(RoomJoinEnded(then: then)).orElse(Durable(unanswered)), timeout: timeout,
            in: account.scope)
    }

    /// Calls who waits.
    func end(
        _ waiter: HandlerID<RoomJoined>?, _ room: Room, _ outcome: RoomJoined.Outcome, isNew: Bool = false,
        in step: borrowing Step
    ) throws {
        guard let waiter else { return }
        let context = RoomJoined(
            account: account, room: room.jid, nick: room.nick, outcome: outcome, isNew: isNew)
        let disposition = try step.end(waiter, .result, with: context)
        try account.report(disposition, waiter, "joining \(room.jid)", after: step)
    }

    /// Cancels the wait for the outcome of an attempt.
    func abandon(_ room: Room, in step: borrowing Step) throws {
        guard let waiter = try table.claimWaiter(of: room.jid, in: step) else { return }
        try step.invalidate(waiter, reason: .cancelled, environment: account)
    }

    func sendUnavailable(_ room: Room, status: (any TextConvertible)? = nil, in step: borrowing Step) throws {
        let children = status.map { [Element("status", namespace: Namespaces.client, text: $0)] } ?? []
        let presence = try Presence(
            type: .unavailable, to: room.occupant, id: StanzaID.random(), children: children)
        try account.send(presence, in: step)
    }

    // MARK: The room's answer

    /// The room has let the account in.
    func joined(_ room: Room, as nick: ForeignText, isNew: Bool = false, in step: borrowing Step) throws {
        var room = room
        room.nick = nick
        try table.setJoined(room.jid, nick: room.nick, connectedTime: connectedTime(in: step), in: step)
        let waiter = try table.claimWaiter(of: room.jid, in: step)
        try end(waiter, room, .joined, isNew: isNew, in: step)
        report(room.jid, .joined(nick: room.nick, isNew: isNew), ticket: room.ticket, after: step)
        // Who was told may have left again.
        guard try table.room(room.jid, in: step)?.state == .joined else { return }
        if isNew, !room.configures { try setUp(room, in: step) }
        try catchUp(room, in: step)
        try fetchMissed(room, in: step)
        try watch(in: step)
    }

    /// A room whose archive has been fetched from is caught up with that way alone, page by page, in order.
    private func wantedHistory(_ room: Room, in step: borrowing Step) throws -> Element? {
        // What may have to be sent again must be looked for before the archive is through.
        let mayHaveArrived = try table.hasUnsent(in: room.ticket, to: room.jid, before: true, in: step)
        guard try account.archive.isInUse(room.jid, in: step), !mayHaveArrived else {
            return room.wantedHistory
        }
        return Room.noHistory
    }

    /// A room sends only the last messages by itself. If it has an archive, the others are there (XEP-0313).
    private func fetchMissed(_ room: Room, in step: borrowing Step) throws {
        guard account.moduleIfPresent(ArchiveModule.self) != nil else { return }
        if try account.archive.isInUse(room.jid, in: step) {
            try account.archive.catchUp(room.jid, in: step)
        } else if let cursor = room.cursor {
            // Messages that carry its ids are in an archive.
            guard cursor.archiveID != nil else { return }
            try account.archive.catchUp(room.jid, since: cursor.time - ArchiveTable.overlap, in: step)
        } else if case .since(let time) = room.history {
            try account.archive.catchUp(room.jid, since: time, in: step)
        }
    }

    /// Takes a new room as the service makes it.
    private func setUp(_ room: Room, in step: borrowing Step) throws {
        let request = RoomRequest.configure(DataForm(.submit))
        try account.send(.iq(request.iq(to: room.jid)), then: Durable(RoomSetUp(room: room.jid)), in: step)
    }

    /// The room does not let the account in.
    ///
    /// The first time, that ends the wish. Later it ends only what somebody decided: an own session that the room has not
    /// seen end may hold the nickname, the room may be full, its server away.
    func refused(_ room: Room, _ error: StanzaError, in step: borrowing Step) throws {
        let waiter = try table.claimWaiter(of: room.jid, in: step)
        try giveUp(room, isFinal: !error.mayPass, in: step)
        try end(waiter, room, .refused(error), in: step)
        report(room.jid, .refused(error), ticket: room.ticket, after: step)
    }

    /// The room has not answered.
    ///
    /// - Returns: The outcome: the account is in if an occupant has its nickname, whatever the room has left out.
    func timedOut(_ room: JID, _ ticket: String, in step: borrowing Step) throws -> RoomJoined.Outcome {
        guard let known = try table.room(room, in: step), known.ticket == ticket,
            known.state == .joining || known.state == .wanted
        else { return .timedOut }
        if known.state == .joining, try signs.hasNickname(in: known, in: step) {
            try account.usingReserve(in: step) { try joined(known, as: known.nick, in: step) }
            return .joined
        }
        // It may let us in yet.
        if known.state == .joining { try sendUnavailable(known, in: step) }
        try giveUp(known, isFinal: false, in: step)
        report(room, .timedOut, ticket: ticket, after: step)
        return .timedOut
    }

    private func giveUp(_ room: Room, isFinal: Bool, in step: borrowing Step) throws {
        try set(room, isOver: isFinal || !room.wasJoined, in: step)
        try watch(in: step)
    }

    /// The account is not in the room, and enters it again unless that is over.
    private func set(_ room: Room, isOver: Bool, in step: borrowing Step) throws {
        if isOver {
            try table.set(.left, room.jid, in: step)
            try giveUpMessages(to: room, in: step)
        } else {
            try table.set(.wanted, room.jid, triedAt: connectedTime(in: step), in: step)
        }
        try table.removeOccupants(of: room.jid, in: step)
    }

    // MARK: Coming out

    /// The account is out of the room.
    func depart(_ room: Room, _ departure: RoomDeparture, isOwnWish: Bool = true, in step: borrowing Step)
        throws
    {
        try set(room, isOver: isOwnWish || departure.isFinal, in: step)
        report(room.jid, .left(departure), after: step)
        try watch(in: step)
    }

    func connectedTime(in step: borrowing Step) throws -> Int64 {
        try step.connectedTime(of: account.scope).milliseconds
    }
}

extension StanzaError {
    /// Whether a room that refused an account that it knows may let it in later.
    fileprivate var mayPass: Bool {
        kind == .wait
            || [.conflict, .serviceUnavailable, .remoteServerNotFound, .internalServerError, .itemNotFound]
                .contains(condition)
    }
}
