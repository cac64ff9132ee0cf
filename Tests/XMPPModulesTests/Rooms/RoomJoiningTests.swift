import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// How an account gets into a room, and that it is told once.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RoomJoiningTests {
    private static let x = "http://jabber.org/protocol/muc"

    @Test("X14 a room is joined: what is asked, who is there, which nickname the service gives")
    func joins() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .open(codes: [210], nick: "Alice2") }
            let account = try await rig.withRooms()
            let events = RoomEventReader(account)
            try await account.wantRoom(password: "cauldron", history: .last(5))
            await events.until(.joined(nick: "Alice2", isNew: false))
            #expect(
                room.received("presence") == [
                    "<presence to='council@conference.localhost/Alice'><x xmlns='\(Self.x)'>"
                        + "<history maxstanzas='5'/><password>cauldron</password></x></presence>"
                ])
            #expect(try account.store.notes("room") == ["first: joined as Alice2"])
            #expect(try account.room?.state == .joined)
            #expect(try account.room?.nick == "Alice2")
            #expect(try account.occupants() == ["Alice2 member participant", "Romeo none participant"])
            #expect(try account.store.waitingHandlers == 1, "the watch for silence alone")
        }
    }

    @Test(
        "X14 what is asked of a room's history",
        arguments: [
            (RoomHistory.usual, ""), (.none, "<history maxstanzas='0'/>"),
            (
                .since(Timestamp(milliseconds: 1_763_676_000_123)),
                "<history since='2025-11-20T22:00:00.123Z'/>"
            ),
        ])
    func history(history: RoomHistory, expected: String) async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let account = try await rig.withRooms()
            try await account.wantRoom(history: history)
            try await eventually { try account.store.notes("room").count == 1 }
            let x = expected.isEmpty ? "<x xmlns='\(Self.x)'/>" : "<x xmlns='\(Self.x)'>\(expected)</x>"
            #expect(
                room.received("presence") == [
                    "<presence to='council@conference.localhost/Alice'>\(x)</presence>"
                ])
        }
    }

    @Test(
        "X14 a room that refuses says why, once, and is wanted no longer",
        arguments: [
            OpenName<StanzaError>.notAuthorized, .registrationRequired, .forbidden, .conflict,
            .serviceUnavailable, .itemNotFound, .notAllowed, .notAcceptable,
        ])
    func refused(condition: OpenName<StanzaError>) async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .shut(StanzaError(condition)) }
            let account = try await rig.withRooms()
            let end = try await account.rooms.join(ScriptedRoom.jid, as: "Alice")
            #expect(end.outcome == .refused(StanzaError(condition)))
            #expect(try account.room?.state == .left)
            #expect(try account.store.waitingHandlers == 0)
            room.change { $0.door = .open() }
            try await account.wantRoom("again")
            try await eventually { try account.store.notes("room") == ["again: joined as Alice"] }
        }
    }

    @Test("X14 a room that does not answer has its time; who comes in late is out again")
    func timedOut() async throws {
        let clock = VirtualClock()
        try await withModulesRig(clock: clock) { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .silent }
            let account = try await rig.withRooms(RoomsModule(joinTimeout: .seconds(10)))
            let events = RoomEventReader(account)
            try await account.wantRoom()
            try await account.caughtUp()
            clock.advance(by: .milliseconds(9999))
            try await account.perform { _ in }
            #expect(try account.store.notes("room") == [])
            clock.advance(by: .milliseconds(1))
            await events.until(.timedOut)
            #expect(try account.store.notes("room") == ["first: timed out"])
            #expect(try account.room?.state == .left)
            try await account.caughtUp()
            #expect(
                room.received("presence").last
                    == "<presence type='unavailable' to='council@conference.localhost/Alice'/>")
            // Too late.
            let presence = ScriptedRoom.presence(nil, codes: [110], nil)
            rig.server.send(addressed(presence, from: "Alice"), to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try account.room?.state == .left)
            #expect(try account.occupants() == [])
            #expect(try account.store.notes("room").count == 1)
        }
    }

    private func addressed(_ element: Element, from nick: String?) -> Element {
        var element = element
        element["from"] = ForeignText(ScriptedRoom.jid.description + (nick.map { "/" + $0 } ?? ""))
        return element
    }

    @Test("X14 a wish that is uttered offline is fulfilled by the next process, which is notified")
    func offline() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let first = try rig.roomsAccount()
            try await first.wantRoom()
            #expect(try first.room?.state == .wanted)
            await first.close()
            #expect(room.received("presence") == [])
            let second = try await rig.withRooms()
            try await eventually { try second.store.notes("room") == ["first: joined as Alice"] }
            #expect(room.received("presence").count == 1)
        }
    }

    @Test("X14 a wish uttered while the stream is broken is fulfilled after the resumption, once")
    func brokenStream() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let account = try await rig.withRooms()
            try await account.caughtUp()
            try await account.suspend()
            try await account.wantRoom()
            try await account.connect()
            try await eventually { try account.store.notes("room") == ["first: joined as Alice"] }
            #expect(rig.server.log.entries.contains { $0.event == .resumed })
            #expect(room.received("presence").count == 1)
        }
    }

    @Test("X14 a session that is lost while a room is joined: asked again, reported once, by another process")
    func lostWhileJoining() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .silent }
            let first = try await rig.withRooms()
            try await first.wantRoom(password: "cauldron")
            try await eventually { room.received("presence").count == 1 }
            await first.close()
            rig.server.expireSessions()
            room.change { $0.door = .open() }
            let second = try await rig.withRooms()
            try await eventually { try second.store.notes("room") == ["first: joined as Alice"] }
            let asked = room.received("presence")
            #expect(asked.count == 2 && asked.first == asked.last)
            // A third session: nobody is told again.
            await second.close()
            rig.server.expireSessions()
            let third = try await rig.withRooms()
            try await eventually { try third.room?.state == .joined }
            #expect(try third.store.notes("room").count == 1)
        }
    }

    @Test(
        "X14 asking again, and leaving, end the wait of who asked before; being there already ends it at once"
    )
    func abandoned() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .silent }
            let account = try await rig.withRooms()
            try await account.wantRoom("first")
            try await account.wantRoom("second", as: "Juliet")
            #expect(try account.store.notes("room") == ["first: abandoned"])
            #expect(try await account.perform { try account.rooms.leave(ScriptedRoom.jid, in: $0) })
            #expect(try account.store.notes("room") == ["first: abandoned", "second: abandoned"])
            #expect(try await !account.perform { try account.rooms.leave(ScriptedRoom.jid, in: $0) })
            room.change { $0.door = .open() }
            try await account.wantRoom("third", as: "Juliet")
            try await eventually { try account.store.notes("room").last == "third: joined as Juliet" }
            let count = room.received("presence").count
            try await account.wantRoom("fourth", as: "Alice")
            #expect(try account.store.notes("room").last == "fourth: joined as Juliet")
            try await account.caughtUp()
            #expect(room.received("presence").count == count)
            let waiting = try account.store.number("SELECT count(*) FROM room WHERE waiter IS NOT NULL")
            #expect(waiting == 0)
        }
    }

    @Test("X14 an answer to an attempt that was given up does not end the next one")
    func staleAnswer() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .silent }
            let account = try await rig.withRooms()
            try await account.wantRoom()
            try await account.caughtUp()
            var refusal = Presence(type: .error, id: "another").element
            refusal.append(StanzaError(.conflict).element)
            rig.server.send(addressed(refusal, from: "Alice"), to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try account.room?.state == .joining)
            #expect(try account.store.notes("room") == [])
        }
    }

    @Test(
        "X14 a room that is new is taken as the service makes it, unless the program sets it up",
        arguments: [false, true])
    func newRoom(configures: Bool) async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .open(codes: [201]) }
            let account = try await rig.withRooms()
            let end = try await account.rooms.join(ScriptedRoom.jid, as: "Alice", configures: configures)
            #expect(end.outcome == .joined && end.isNew)
            try await account.caughtUp()
            let submitted =
                "<iq type='set' to='council@conference.localhost'>"
                + "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/>"
                + "</query></iq>"
            #expect(room.received("iq") == (configures ? [] : [submitted]))
        }
    }

    @Test("X14 what is no room, and no nickname, is refused before anything is stored")
    func badAddresses() async throws {
        try await withModulesRig { rig in
            let account = try rig.roomsAccount()
            for room in ["conference.localhost", "council@conference.localhost/Romeo"] {
                let error =
                    await errorOf {
                        _ = try await account.rooms.join(try JID(room), as: "Alice")
                    } as? AccountError
                #expect(error?.code == .invalidStanza)
            }
            let error = await errorOf { _ = try await account.rooms.join(ScriptedRoom.jid, as: "") }
            #expect(error is JIDError)
            #expect(try account.store.number("SELECT count(*) FROM room") == 0)
            let elsewhere =
                await errorOf {
                    _ = try await account.perform {
                        try account.rooms.send("hi", to: ScriptedRoom.jid, in: $0)
                    }
                } as? AccountError
            #expect(elsewhere?.code == .notInRoom)
            let bare = try Account(
                rig.configuration(),
                store: HandlerStore(
                    path: rig.folder.path + "/bare.db", registry: ModulesApp.registry,
                    schemas: Account.schemas))
            let missing = await errorOf { _ = try await bare.rooms.join(ScriptedRoom.jid, as: "Alice") }
            #expect((missing as? AccountError)?.code == .missingModule)
            await bare.close()
        }
    }

    @Test("X14 how joining ended can be stored with the handler that waits for it")
    func context() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .shut(StanzaError(.conflict, text: "taken")) }
            let account = try await rig.withRooms()
            let end = try await account.rooms.join(ScriptedRoom.jid, as: "Alice")
            let again = try RoomJoined(restoring: end.stored(), in: account)
            #expect(again.outcome == .refused(StanzaError(.conflict, text: "taken")))
            #expect(again.room == ScriptedRoom.jid && again.nick == "Alice" && !again.isNew)
            room.change { $0.door = .open(codes: [201]) }
            let second = try await account.rooms.join(ScriptedRoom.jid, as: "Alice")
            let restored = try RoomJoined(restoring: second.stored(), in: account)
            #expect(restored.outcome == .joined && restored.isNew)
        }
    }

    @Test("X14 the process dies while a room is joined: the next one resumes, asks nothing, and is notified")
    func answeredElsewhere() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .silent }
            let first = try await rig.withRooms()
            try await first.wantRoom()
            try await eventually { room.received("presence").count == 1 }
            await first.close()
            let presence = ScriptedRoom.presence(nil, codes: [110], nil)
            rig.server.send(addressed(presence, from: "Alice"), to: .jid(AccountRig.alice))
            let second = try await rig.withRooms()
            try await eventually { try second.store.notes("room") == ["first: joined as Alice"] }
            try await second.caughtUp()
            #expect(rig.server.log.entries.contains { $0.event == .resumed })
            #expect(room.received("presence").count == 1)
        }
    }
}
