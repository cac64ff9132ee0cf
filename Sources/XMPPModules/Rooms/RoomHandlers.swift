import Handlers
import XMPPAccount
import XMPPCore

// The module's own handlers. Their ids and arguments are stored: they change only with an alias or a version.

/// Reports to the program how joining a room ended.
struct RoomJoinEnded: Handler {
    static let id = "rooms.join-ended"
    var then: Durable<RoomJoined>?

    func run(_ call: borrowing Call<RoomJoined>) throws {
        if let then { try call.step.run(then, with: call.context) }
    }
}

/// Joining a room has not ended in time, or is not wanted any more.
struct RoomJoinUnanswered: Handler {
    static let id = "rooms.join-unanswered"
    var room: JID
    var nick: String
    /// The attempt.
    var ticket: String
    var then: Durable<RoomJoined>?

    func run(_ call: borrowing Call<Invalidation>) throws {
        let rooms = try call.context.account.rooms
        var outcome = RoomJoined.Outcome.abandoned
        if call.reason == .timedOut {
            outcome = try rooms.timedOut(room, ticket, in: call.step)
        } else {
            rooms.report(room, .abandoned, ticket: ticket, after: call.step)
        }
        guard let then else { return }
        let context = RoomJoined(
            account: rooms.account, room: room, nick: ForeignText(nick), outcome: outcome)
        try call.step.run(then, with: context)
    }
}

/// Sends what the outbox had no room for when the account came into a room.
struct RoomBacklog: Handler {
    static let id = "rooms.backlog"
    var room: JID
    /// The stay in which it is to be sent.
    var ticket: String
    /// Whether what was sent in an earlier stay is to be sent again.
    var again: Bool

    func run(_ call: borrowing Call<TimerFired>) throws {
        let rooms = try call.context.account.rooms
        guard let known = try rooms.table.room(room, in: call.step), known.state == .joined,
            known.ticket == ticket
        else { return }
        try rooms.flush(known, again: again, in: call.step)
    }
}

/// Looks after rooms from which nothing has come for long.
struct RoomSilence: Handler {
    static let id = "rooms.silence"

    func run(_ call: borrowing Call<Invalidation>) throws {
        guard call.reason == .timedOut else { return }
        try call.context.account.rooms.lookAfterRooms(in: call.step)
    }
}

/// A room has answered whether the account is still in it.
struct RoomChecked: Handler {
    static let id = "rooms.checked"
    var room: JID
    /// The stay that was checked.
    var ticket: String
    var check: String

    func run(_ call: borrowing Call<IQReply>) throws {
        try call.account.rooms.checked(
            room, ticket: ticket, check: check, call.outcome, in: call.step)
    }
}

/// The answer will never come, for the session is gone.
struct RoomCheckAbandoned: Handler {
    static let id = "rooms.check-abandoned"
    var room: JID
    var check: String

    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.context.account.rooms.report(room, .checked(.unanswered), ticket: check, after: call.step)
    }
}

/// A room has answered under the address that its service has for it. The id of the request was random, so nobody else can have.
struct RoomNamed: Handler {
    static let id = "rooms.named"
    var room: JID
    /// The attempt to join it.
    var ticket: String

    func run(_ call: borrowing Call<IQReply>) throws {
        let rooms = call.account.rooms
        guard let name = call.iq.from, name.isBare, name != room,
            let known = try rooms.table.room(room, in: call.step), known.jid == room,
            known.state == .joining, known.ticket == ticket
        else { return }
        _ = try rooms.signs.rename(known, to: name, in: call.step)
    }
}

/// The service has answered whether it has made a new room.
struct RoomSetUp: Handler {
    static let id = "rooms.set-up"
    var room: JID

    func run(_ call: borrowing Call<IQReply>) throws {
        let failure: StanzaError?
        switch call.outcome {
        case .result: return
        case .error(let error): failure = error
        case .timeout: failure = nil
        }
        call.account.rooms.report(room, .setupFailed(failure), after: call.step)
    }
}
