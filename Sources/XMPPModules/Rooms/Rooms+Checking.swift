public import Handlers
import XMPPAccount
public import XMPPCore

// Whether the account is still in a room (XEP-0410): a room, or a link to it, may forget its occupants without a word.
extension Rooms {
    /// Asks a room whether the account is still in it. When it is not, it is joined again. `silence`
    /// does the
    /// same for rooms from which nothing comes.
    ///
    /// - Parameters:
    ///   - room: The room's bare address.
    ///   - step: The step that it commits with.
    /// - Returns: Names this check; nil when the account has not been let in, so that there is nothing to check.
    /// - Throws: ``/XMPPAccount/AccountError`` `notInRoom`, `outboxFull`, `missingModule`; ``/Handlers/HandlerError`` when the
    ///   store fails.
    @discardableResult
    public func check(_ room: JID, in step: borrowing Step) throws -> String? {
        let known = try wanted(room, in: step)
        guard known.state == .joined else { return nil }
        return try ping(known, in: step)
    }

    /// Checks whether the account is still in a room, and waits for the result.
    ///
    /// - Parameter room: The room's bare address.
    /// - Returns: ``RoomCheck/unanswered`` also when the account has not been let in.
    /// - Throws: What ``check(_:in:)`` throws; ``/XMPPAccount/AccountError`` `closed`; `CancellationError`.
    public func check(_ room: JID) async throws -> RoomCheck {
        let events = account.events(of: RoomEvent.self)
        guard let ticket = try await account.perform({ step in try self.check(room, in: step) }) else {
            return .unanswered
        }
        return try await first(of: events, ticket) { if case .checked(let check) = $0 { check } else { nil } }
    }

    /// Pings the account's own place in the room.
    @discardableResult
    func ping(_ room: Room, in step: borrowing Step) throws -> String {
        let id = StanzaID.random()
        let iq = try IQ(
            type: .get, to: room.occupant, id: id, payload: Element("ping", namespace: Namespaces.ping))
        try account.send(
            .iq(iq), then: Durable(RoomChecked(room: room.jid, ticket: room.ticket, check: id)),
            orElse: Durable(RoomCheckAbandoned(room: room.jid, check: id)), in: step)
        return id
    }

    /// Returns the result of a check from the answer to its ping (XEP-0410 section 3.2).
    static func check(_ outcome: IQReply.Outcome) -> RoomCheck {
        switch outcome {
        case .result: .joined
        case .timeout: .unanswered
        case .error(let error):
            switch error.condition {
            // Another client of the account was asked and does not know pings, or the nickname is just changing.
            case .serviceUnavailable, .featureNotImplemented, .itemNotFound: .joined
            case .remoteServerNotFound, .remoteServerTimeout: .unanswered
            default: .rejoining(error)
            }
        }
    }

    func checked(
        _ room: JID, ticket: String, check: String, _ answer: IQReply.Outcome, in step: borrowing Step
    ) throws {
        let outcome = Self.check(answer)
        if let known = try table.room(room, in: step), known.state == .joined, known.ticket == ticket {
            switch outcome {
            case .joined:
                try table.heard(room, connectedTime: connectedTime(in: step), in: step)
                try endHistory(of: known, in: step)
            case .rejoining: try rejoin(known, in: step)
            case .unanswered:
                // A room that answers no pings had the time for its history, too. One that cannot be reached had not.
                if case .timeout = answer { try endHistory(of: known, in: step) }
            }
        }
        report(room, .checked(outcome), ticket: check, after: step)
    }

    /// The room has shown all that it has.
    private func endHistory(of room: Room, in step: borrowing Step) throws {
        if room.isInHistory { try table.endHistory(of: room.jid, in: step) }
        try flush(room, again: true, in: step)
    }

    /// The account turned out to be outside: joins again, with all that came meanwhile.
    func rejoin(_ room: Room, in step: borrowing Step) throws {
        account.log(.warning, .rooms, "\(room.jid): the account is not in the room; joins again", after: step)
        try table.set(.wanted, room.jid, in: step)
        try ask(room, in: step)
    }

    // MARK: Silence

    /// Looks after rooms when the time of the next one has come: a silent one, or one that is to be tried again.
    func watch(in step: borrowing Step) throws {
        let module = try module
        let next = try table.nextDue(
            silence: module.silence.milliseconds, retry: module.retryDelay.milliseconds, in: step)
        if let watch = try table.watch(in: step) {
            let isWaiting = try step.waits(watch.handler)
            if isWaiting, next.map({ $0 >= watch.due }) ?? true { return }
            try table.removeWatch(in: step)
            if isWaiting { try step.invalidate(watch.handler, reason: .cancelled, environment: account) }
        }
        guard let next else { return }
        let silence = try Durable(RoomSilence())
        let watch = try step.bind(
            silence.orElse(silence), timeout: .milliseconds(max(1000, next - connectedTime(in: step))),
            in: account.scope)
        try table.set(watch: watch, due: next, in: step)
    }

    /// The time has come.
    func lookAfterRooms(in step: borrowing Step) throws {
        try table.removeWatch(in: step)
        let module = try module
        let now = try connectedTime(in: step)
        if try account.hasOpenStream(in: step) {
            let due = try table.due(
                silence: module.silence.milliseconds, retry: module.retryDelay.milliseconds,
                connectedTime: now, in: step)
            for room in due {
                guard room.state == .joined else {
                    try ask(room, in: step)
                    continue
                }
                // Asked again after as long again, whatever comes of it.
                try table.heard(room.jid, connectedTime: now, in: step)
                try ping(room, in: step)
            }
        }
        try watch(in: step)
    }
}
