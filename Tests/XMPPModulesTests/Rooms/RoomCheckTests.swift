import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Whether the account is still in a room (XEP-0410).
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RoomCheckTests {
    @Test("X14 the answers that say that the account is still in the room, and what is asked")
    func stillIn() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let answers: [IQReply.Outcome] = [
                .result(nil), .error(StanzaError(.serviceUnavailable)),
                .error(StanzaError(.featureNotImplemented)), .error(StanzaError(.itemNotFound)),
            ]
            for answer in answers {
                room.change { $0.ping = answer }
                #expect(try await account.rooms.check(ScriptedRoom.jid) == .joined)
            }
            #expect(
                Set(room.received("iq")) == [
                    "<iq type='get' to='council@conference.localhost/Alice'><ping xmlns='urn:xmpp:ping'/></iq>"
                ])
            #expect(room.received("presence").count == 1)
        }
    }

    @Test(
        "X14 any other error lets the account join again, with what it missed",
        arguments: [OpenName<StanzaError>.notAcceptable, .notAllowed, .badRequest])
    func outside(condition: OpenName<StanzaError>) async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            room.change { $0.ping = .error(StanzaError(condition)) }
            let events = RoomEventReader(account)
            #expect(try await account.rooms.check(ScriptedRoom.jid) == .rejoining(StanzaError(condition)))
            await events.until(.joined(nick: "Alice", isNew: false))
            #expect(room.received("presence").last?.contains("<history since=") == true)
            #expect(try account.store.notes("room").count == 1)
        }
    }

    @Test("X14 a room whose server is away stays as it is")
    func away() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            for condition in [OpenName<StanzaError>.remoteServerNotFound, .remoteServerTimeout] {
                room.change { $0.ping = .error(StanzaError(condition)) }
                #expect(try await account.rooms.check(ScriptedRoom.jid) == .unanswered)
            }
            #expect(try account.room?.state == .joined)
            #expect(room.received("presence").count == 1)
        }
    }

    @Test(
        "X14 a check whose session is lost is reported as unanswered; one about an earlier stay changes nothing"
    )
    func stale() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            room.change { $0.ping = nil }
            let events = RoomEventReader(account)
            async let check = account.rooms.check(ScriptedRoom.jid)
            try await eventually { room.received("iq").count == 1 }
            rig.server.expireSessions()
            #expect(try await check == .unanswered)
            await events.until(.joined(nick: "Alice", isNew: false))
            // The answer comes when the account has left and come back.
            _ = try await account.perform { try account.rooms.check(ScriptedRoom.jid, in: $0) }
            try await eventually { room.received("iq").count == 2 }
            let ping = try #require(room.state.withLock { $0.received.last { $0.name == "iq" } })
            try await account.perform { try account.rooms.leave(ScriptedRoom.jid, in: $0) }
            try await account.wantRoom("again")
            try await eventually { try account.store.notes("room").count == 2 }
            let count = room.received("presence").count
            var answer = try #require(IQ(element: ping).errorReply(StanzaError(.notAcceptable))).element
            answer["from"] = "\(ScriptedRoom.jid)/Alice"
            rig.server.send(answer, to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try account.room?.state == .joined)
            #expect(room.received("presence").count == count)
        }
    }

    @Test("X14 a room from which nothing comes is asked by itself; one that speaks is not")
    func silence() async throws {
        let clock = VirtualClock()
        try await withModulesRig(clock: clock) { rig in
            let (room, account) = try await rig.joined(RoomsModule(silence: .seconds(30)))
            // Speaks every ten seconds.
            for number in 1...6 {
                clock.advance(by: .seconds(10))
                room.send(body: "\(number)", id: "m\(number)")
                try await account.caughtUp()
                try await account.perform { _ in }
            }
            #expect(room.received("iq") == [])
            room.change { $0.ping = .error(StanzaError(.notAcceptable)) }
            try await rig.turnUntil { !room.received("iq").isEmpty }
            try await eventually { room.received("presence").count == 2 }
            room.change { $0.ping = .result(nil) }
            try await rig.turnUntil { room.received("iq").count == 2 }
            #expect(room.received("presence").count == 2)
        }
    }

    @Test("X14 while there is no connection no time passes for a silent room")
    func silentOffline() async throws {
        let clock = VirtualClock()
        try await withModulesRig(clock: clock) { rig in
            let (room, account) = try await rig.joined(RoomsModule(silence: .seconds(30)))
            try await account.suspend()
            for _ in 1...10 { clock.advance(by: .seconds(10)) }
            try await account.connect()
            try await account.caughtUp()
            try await account.perform { _ in }
            #expect(room.received("iq") == [])
        }
    }

    @Test("X14 a silent room that does not answer is asked again after as long again, and not before")
    func silentForGood() async throws {
        let clock = VirtualClock()
        try await withModulesRig(clock: clock) { rig in
            let (room, account) = try await rig.joined(RoomsModule(silence: .seconds(200)))
            room.change { $0.ping = nil }
            // The clock runs on for a while before the ping is seen.
            try await rig.turnUntil { !room.received("iq").isEmpty }
            for _ in 1...20 {
                clock.advance(by: .seconds(1))
                _ = try await account.drain(for: .seconds(30))
                try await account.caughtUp()
            }
            #expect(room.received("iq").count == 1)
            try await rig.turnUntil { room.received("iq").count == 2 }
            #expect(try account.room?.state == .joined)
        }
    }
}
