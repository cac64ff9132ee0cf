import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// Rooms while more is to be sent than there is room for, and messages of rooms that are handled later.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RoomLoadTests {
    @Test("X14 more waits for a room than the outbox takes: the room is joined, and all arrives, in order")
    func backlog() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let account = try await rig.withRooms { $0.maximumOutbox = 10 }
            let events = EventReader(account)
            try await account.suspend()
            try await account.wantRoom()
            let bodies = (0..<10).map { "waiting \($0)" }
            for body in bodies {
                _ = try await account.perform { try account.rooms.send(body, to: ScriptedRoom.jid, in: $0) }
            }
            // And the outbox is nearly full of something else.
            for number in 0..<8 { try await account.tell("m\(number)") }
            try await account.connect()
            try await eventually { try account.room?.state == .joined }
            try await eventually { try account.store.number("SELECT count(*) FROM room_message") == 0 }
            try await account.caughtUp()
            let said = room.state.withLock(\.received).filter { $0.name == "message" }
                .compactMap { $0.child("body", Namespaces.client)?.text }
            #expect(said == bodies)
            #expect(!events.seen.contains { $0.hasPrefix("moduleFailed") }, "\(events.seen)")
        }
    }

    @Test("X14 a program cannot store more messages for rooms than the outbox may hold")
    func bounded() async throws {
        try await withModulesRig { rig in
            let account = try await rig.withRooms { $0.maximumOutbox = 3 }
            try await account.caughtUp()
            try await account.suspend()
            _ = try await account.perform { step in
                try account.rooms.join(ScriptedRoom.jid, as: "Alice", in: step)
            }
            for _ in 0..<3 {
                _ = try await account.perform {
                    try account.rooms.send("hello", to: ScriptedRoom.jid, in: $0)
                }
            }
            let error = await errorOf {
                _ = try await account.perform {
                    try account.rooms.send("hello", to: ScriptedRoom.jid, in: $0)
                }
            }
            #expect((error as? AccountError)?.code == .outboxFull)
            #expect(try account.store.number("SELECT count(*) FROM room_message") == 3)
        }
    }

    @Test("X14 a room without an archive is asked from the first message that is not handled yet")
    func deferred() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let room = ScriptedRoom(rig)
            let account = try await rig.withRooms()
            let events = EventReader(account)
            try await account.listen(as: "test", TestApp.Deferring().durable)
            try await account.wantRoom()
            try await eventually { try account.room?.state == .joined }
            let now = TimeSource.systemWall()
            let early = now - .seconds(600)
            room.send(body: "later", id: "m1", [ScriptedRoom.delay(early)])
            room.send(body: "now", id: "m2")
            try await eventually { try account.store.notes("message").count == 2 }
            room.change { state in
                var message = Message(to: nil, type: .groupchat, id: "m1", body: "later").element
                message["from"] = "Romeo"
                state.history = [(early, message)]
                state.inside = [:]
            }
            try await rig.loseSession(of: account, events)
            try await eventually { try account.store.notes("message").count == 3 }
            #expect(try account.store.notes("message") == ["m1: later", "m2: now", "m1: later"])
        }
    }
}
