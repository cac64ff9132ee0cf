import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

@testable import XMPPModules

/// What an account learns of a room that it is in, and what it keeps over lost sessions.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RoomLifeTests {
    private static let x = "http://jabber.org/protocol/muc"

    // MARK: Sessions

    @Test("X14 after a resumption nothing is asked; the room is as it was")
    func resumed() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = EventReader(account)
            let before = try account.room
            rig.server.dropConnections()
            await events.until("resumed")
            try await account.caughtUp()
            #expect(room.received("presence").count == 1)
            #expect(room.received("iq") == [])
            #expect(try account.room == before)
            #expect(try account.occupants().count == 2)
        }
    }

    @Test(
        "X14 a new session joins again, from the last message on: nothing is missed and nothing comes twice")
    func cursor() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let (room, first) = try await rig.joined()
            room.send(body: "one", id: "m1", [stanzaID("a1")])
            room.send(body: "two", id: "m2", [stanzaID("a2")])
            room.send(body: "forged", id: "m3", [stanzaID("x", by: "peer@localhost")])
            try await first.caughtUp()
            let cursor = try #require(try first.room?.cursor)
            #expect(cursor.archiveID == "a2")
            await first.close()
            rig.server.expireSessions()
            // The room sends more than was asked for, as if its clock were behind.
            room.change { state in
                state.history = ["m1", "m2", "m4"].enumerated().map { number, id in
                    let archiveID = ["a1", "a2", "a4"][number]
                    var message = Message(
                        to: nil, type: .groupchat, id: id, body: ["one", "two", "four"][number],
                        children: [stanzaID(archiveID)]
                    ).element
                    message["from"] = "Romeo"
                    return (cursor.time + .milliseconds(number), message)
                }
            }
            let second = try await rig.withRooms()
            try await eventually { try second.room?.cursor?.archiveID == "a4" }
            #expect(
                try second.store.notes("message") == ["m1: one", "m2: two", "m3: forged", "m4: four"])
            let since = (cursor.time - .seconds(60)).description
            #expect(
                room.received("presence").last
                    == "<presence to='council@conference.localhost/Alice'><x xmlns='\(Self.x)'>"
                    + "<history since='\(since)'/></x></presence>")
            #expect(try #require(second.room?.cursor).time >= cursor.time)
        }
    }

    @Test(
        "X24 all rooms are left at once: those that the account is in, and those that it only wants to be in")
    func leavesAll() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let other = try JID("garden@conference.localhost")
            try await account.perform { step in
                try account.rooms.join(other, as: "Alice", in: step)
                #expect(try account.rooms.leaveAll(status: "good night", in: step) == 2)
            }
            try await account.caughtUp()
            #expect(try account.store.step { try account.rooms.all(in: $0).map(\.state) } == [.left, .left])
            let last = try #require(room.received("presence").last)
            #expect(last.contains("unavailable") && last.contains("good night"))
            #expect(try await account.perform { try account.rooms.leaveAll(in: $0) } == 0)
        }
    }

    @Test("X24 without the module nobody is in a room")
    func removedModule() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            try await account.remove(RoomsModule.self)
            try await account.caughtUp()
            #expect(room.received("presence").last?.contains("unavailable") == true)
            #expect(try account.room?.state == .left)
        }
    }

    private func stanzaID(_ id: String, by: String = ScriptedRoom.jid.description) -> Element {
        Element("stanza-id", namespace: Namespaces.sid, attributes: ["by": by, "id": id])
    }

    @Test("X14 what has no id comes once too, when the room sends it again")
    func withoutID() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let (room, first) = try await rig.joined()
            room.send(body: "one", id: nil)
            try await first.caughtUp()
            let time = try #require(try first.room?.cursor?.time)
            await first.close()
            rig.server.expireSessions()
            room.change { state in
                state.history = [("one", time - .milliseconds(5)), ("late", time + .milliseconds(5))].map {
                    body, time in
                    var message = Message(to: nil, type: .groupchat, body: body).element
                    message["from"] = "Romeo"
                    return (time, message)
                }
            }
            let second = try await rig.withRooms()
            try await eventually { try second.store.notes("message") == ["-: one", "-: late"] }
        }
    }

    @Test("X14 a stamp of the future does not move the cursor beyond now")
    func futureStamp() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            room.send(
                body: "hello", id: "m1", [ScriptedRoom.delay(Timestamp(milliseconds: 9_000_000_000_000))])
            try await account.caughtUp()
            let now = try account.store.step { $0.now }
            #expect(try #require(account.room?.cursor).time <= now)
        }
    }

    @Test("X14 a lost session ends what is known of occupants; a room that refuses then is tried again")
    func refusedAgain() async throws {
        let clock = VirtualClock()
        try await withModulesRig(clock: clock) { rig in
            let (room, account) = try await rig.joined(RoomsModule(retryDelay: .seconds(10)))
            let events = RoomEventReader(account)
            room.change { $0.door = .shut(StanzaError(.conflict)) }
            rig.server.expireSessions()
            async let refused = events.until(.refused(StanzaError(.conflict)))
            try await rig.turnUntil {
                try account.store.number("SELECT count(*) FROM room WHERE tried_at IS NOT NULL") == 1
            }
            _ = await refused
            #expect(try account.room?.state == .wanted)
            #expect(try account.occupants() == [])
            room.change { $0.door = .open() }
            try await rig.turnUntil { try account.room?.state == .joined }
            #expect(try account.store.notes("room") == ["first: joined as Alice"])
        }
    }

    @Test("X14 a room that bans the account meanwhile is wanted no longer")
    func bannedMeanwhile() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            room.change { $0.door = .shut(StanzaError(.forbidden)) }
            rig.server.expireSessions()
            await events.until(.refused(StanzaError(.forbidden)))
            #expect(try account.room?.state == .left)
        }
    }

    // MARK: Presence

    @Test(
        "X14 how the account comes out of a room, and whether it wants to come back",
        arguments: [
            ([307, 110], RoomDeparture.Reason.kicked, Room.State.left), ([301, 110], .banned, .left),
            ([321, 110], .affiliationChanged, .left), ([322, 110], .membersOnly, .left),
            ([332, 110], .shutdown, .wanted), ([307, 333, 110], .failed, .wanted), ([], .left, .wanted),
        ])
    func departures(codes: [Int], reason: RoomDeparture.Reason, state: Room.State) async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            let item = ScriptedRoom.item(
                "none", "none",
                [
                    Element("actor", namespace: Namespaces.mucUser, attributes: ["nick": "Romeo"]),
                    Element("reason", namespace: Namespaces.mucUser, text: "Enough"),
                ])
            room.send(presence: .unavailable, from: "Alice", codes: codes, item)
            await events.until(.left(RoomDeparture(reason, by: "Romeo", text: "Enough")))
            #expect(try account.room?.state == state)
            #expect(try account.occupants() == [])
            // What comes from there now is nobody's.
            room.send(body: "behind the door", id: "m1")
            try await account.caughtUp()
            #expect(try account.store.notes("message") == [])
        }
    }

    @Test("X14 a destroyed room names the one that takes its place")
    func destroyed() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            var presence = Presence(type: .unavailable).element
            let destroy = Element(
                "destroy", namespace: Namespaces.mucUser, attributes: ["jid": "hall@conference.localhost"],
                children: [Element("reason", namespace: Namespaces.mucUser, text: "Moved")])
            presence.append(
                Element(
                    "x", namespace: Namespaces.mucUser,
                    children: [ScriptedRoom.item("none", "none"), destroy]))
            room.send(presence, from: "Alice")
            let hall = try JID("hall@conference.localhost")
            await events.until(.left(RoomDeparture(.destroyed(alternative: hall), text: "Moved")))
            #expect(try account.room?.state == .left)
        }
    }

    @Test("X14 occupants come, change, are renamed and go")
    func occupants() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            let item = ScriptedRoom.item("owner", "moderator", jid: "juliet@localhost/balcony")
            room.send(presence: nil, from: "Juliet", item)
            let juliet = RoomOccupant(
                nick: "Juliet", jid: try JID("juliet@localhost/balcony"), affiliation: .owner,
                role: .moderator)
            await events.until(.occupant(juliet))
            // The same again is no news.
            room.send(presence: nil, from: "Juliet", item)
            room.send(
                presence: .unavailable, from: "Juliet", codes: [303],
                ScriptedRoom.item("owner", "moderator", nick: "Jule"))
            #expect(await events.next() == .occupantRenamed(from: "Juliet", to: "Jule"))
            room.send(
                presence: .unavailable, from: "Jule", codes: [307], ScriptedRoom.item("owner", "none"))
            #expect(await events.next() == .occupantLeft(nick: "Jule", RoomDeparture(.kicked)))
            #expect(try account.occupants() == ["Alice member participant", "Romeo none participant"])
        }
    }

    @Test("X14 the nickname is changed, by the account, by the service, or not at all")
    func nicknames() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            _ = try await account.perform {
                try account.rooms.changeNick(in: ScriptedRoom.jid, to: "Romeo", in: $0)
            }
            await events.until(.nickRefused("Romeo", StanzaError(.conflict)))
            #expect(try account.room?.nick == "Alice")
            #expect(try account.room?.state == .joined)
            _ = try await account.perform {
                try account.rooms.changeNick(in: ScriptedRoom.jid, to: "Juliet", in: $0)
            }
            await events.until(.nickChanged(from: "Alice", to: "Juliet"))
            #expect(
                room.received("presence").suffix(2) == [
                    "<presence to='council@conference.localhost/Romeo'/>",
                    "<presence to='council@conference.localhost/Juliet'/>",
                ])
            room.send(
                presence: .unavailable, from: "Juliet", codes: [110, 210, 303],
                ScriptedRoom.item("member", nick: "Guest"))
            await events.until(.nickChanged(from: "Juliet", to: "Guest"))
            #expect(try account.room?.nick == "Guest")
            #expect(try account.room?.state == .joined)
            #expect(try account.occupants() == ["Guest member participant", "Romeo none participant"])
        }
    }

    // MARK: Strangers

    @Test("X14 presence and messages of rooms that the account is not in are refused, and change nothing")
    func strangers() async throws {
        try await withModulesRig { rig in
            let (_, account) = try await rig.joined()
            let events = EventReader(account)
            let before = try account.room
            for stranger in ["hall@conference.localhost/Romeo", "peer@localhost/bot"] {
                let from = try JID(stranger)
                var presence = ScriptedRoom.presence(nil, codes: [110], ScriptedRoom.item("owner"))
                var message = Message(to: nil, type: .groupchat, id: "g1", body: "hello").element
                var subject = Message(
                    to: nil, type: .groupchat,
                    children: [Element("subject", namespace: Namespaces.client, text: "Mine")]
                ).element
                for index in 0..<3 {
                    var stanza = [presence, message, subject][index]
                    stanza["from"] = ForeignText(from.description)
                    rig.server.send(stanza, to: .jid(AccountRig.alice))
                    await events.until("ignored")
                }
                (presence["id"], message["id"], subject["id"]) = (nil, nil, nil)
            }
            // A kick that does not come from the room.
            var kick = ScriptedRoom.presence(.unavailable, codes: [110, 307], nil)
            kick["from"] = "peer@localhost/Alice"
            rig.server.send(kick, to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try account.room == before)
            #expect(try account.occupants().count == 2)
            #expect(try account.store.number("SELECT count(*) FROM room") == 1)
            #expect(try account.store.notes("message") == [])
        }
    }

    // MARK: Messages

    @Test("X14 messages go on to listeners; subject, notices and what the account said itself do not")
    func messages() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            room.send(body: "hello", id: "m1")
            _ = try await account.perform { try account.rooms.send("mine", to: ScriptedRoom.jid, in: $0) }
            // A private message.
            room.send(Message(to: nil, id: "p1", body: "psst").element, from: "Romeo")
            var subject = Message(
                to: nil, type: .groupchat,
                children: [Element("subject", namespace: Namespaces.client, text: "Fire")]
            ).element
            room.send(subject, from: "Romeo")
            let romeo = try ScriptedRoom.jid.with(resource: "Romeo")
            await events.until(.subject("Fire", by: romeo))
            #expect(try account.room?.subject == "Fire")
            #expect(try account.room?.subjectBy == romeo)
            // One with a body says something and sets nothing.
            subject.append(Element("body", namespace: Namespaces.client, text: "talk"))
            subject["id"] = "m2"
            room.send(subject, from: "Romeo")
            let notice = Element(
                "x", namespace: Namespaces.mucUser,
                children: [Element("status", namespace: Namespaces.mucUser, attributes: ["code": "104"])])
            room.send(Message(to: nil, type: .groupchat, children: [notice]).element, from: nil)
            await events.until(.configurationChanged([104]))
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: hello", "p1: psst", "m2: talk"])
            #expect(try account.room?.subject == "Fire")
            #expect(try account.store.number("SELECT count(*) FROM room_message") == 0)
        }
    }

    @Test("X14 a subject is set and removed")
    func setsSubject() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            let alice = try ScriptedRoom.jid.with(resource: "Alice")
            for subject in ["Fire", nil] {
                try await account.perform {
                    try account.rooms.setSubject(subject, of: ScriptedRoom.jid, in: $0)
                }
                await events.until(.subject(subject.map { ForeignText($0) }, by: alice))
                #expect(try account.room?.subject == subject)
            }
            let to = "<message type='groupchat' to='council@conference.localhost'>"
            #expect(
                room.received("message") == [
                    to + "<subject>Fire</subject></message>", to + "<subject/></message>",
                ])
        }
    }

    @Test("X14 what is said before the room lets the account in waits for that")
    func waits() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let account = try await rig.withRooms()
            try await account.suspend()
            try await account.wantRoom()
            for body in ["one", "two"] {
                _ = try await account.perform { try account.rooms.send(body, to: ScriptedRoom.jid, in: $0) }
            }
            try await account.connect()
            try await eventually { try account.store.number("SELECT count(*) FROM room_message") == 0 }
            let bodies = room.state.withLock(\.received).filter { $0.name == "message" }
                .map { $0.child("body", Namespaces.client)?.text }
            #expect(bodies == ["one", "two"])
        }
    }

    @Test(
        "X14 what a room has not sent back when the session is lost is sent again once it has shown all it has"
    )
    func sentAgain() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let (room, first) = try await rig.joined()
            room.change { $0.reflects = false }
            let ids = [
                try await first.perform { try first.rooms.send("taken", to: ScriptedRoom.jid, in: $0) },
                try await first.perform { try first.rooms.send("lost", to: ScriptedRoom.jid, in: $0) },
            ]
            try await eventually { room.received("message").count == 2 }
            await first.close()
            rig.server.expireSessions()
            // The room had taken the first one.
            let taken = try #require(
                room.state.withLock(\.received).first { $0["id"] == ids[0] })
            room.change { state in
                state.reflects = true
                var message = taken
                message["from"] = "Alice"
                state.history = [(Timestamp(milliseconds: 9_000_000_000_000), message)]
                state.received = []
                state.inside = [:]
            }
            let second = try await rig.withRooms()
            try await eventually { try second.store.number("SELECT count(*) FROM room_message") == 0 }
            try await second.caughtUp()
            // Whatever the account sent before it was in came back as an error; then only what was missing went.
            let entered = room.state.withLock(\.received).drop { $0.name != "iq" }
            #expect(entered.filter { $0.name == "message" }.map { $0["id"] ?? "" } == [ids[1]])
            #expect(try second.store.notes("message") == [])
        }
    }

    @Test(
        "X14 a message that the room bounces is reported; one that says that the account is outside joins again"
    )
    func bounced() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            room.change {
                $0.reflects = false
                $0.inside = [:]
            }
            let id = try await account.perform {
                try account.rooms.send("hello", to: ScriptedRoom.jid, in: $0)
            }
            await events.until(.joined(nick: "Alice", isNew: false))
            room.change { $0.reflects = true }
            try await eventually { try account.store.number("SELECT count(*) FROM room_message") <= 1 }
            room.change { $0.reflects = false }
            let second = try await account.perform {
                try account.rooms.send("shout", to: ScriptedRoom.jid, in: $0)
            }
            var error = Message(to: nil, type: .error, id: second).element
            error.append(StanzaError(.forbidden).element)
            room.send(error, from: nil)
            await events.until(.messageRefused(id: ForeignText(second), StanzaError(.forbidden)))
            #expect(room.received("presence").count == 2)
            #expect(id != second)
        }
    }

    @Test("X14 a room that never sends a message back gets it three times, and the program is notified")
    func neverSentBack() async throws {
        try await withModulesRig { rig in
            let (room, account) = try await rig.joined()
            let events = RoomEventReader(account)
            room.change { $0.reflects = false }
            let id = try await account.perform {
                try account.rooms.send("hello", to: ScriptedRoom.jid, in: $0)
            }
            for _ in 1...3 {
                try await account.caughtUp()
                room.change { $0.inside = [:] }
                let check = try await account.rooms.check(ScriptedRoom.jid)
                #expect(check == .rejoining(StanzaError(.notAcceptable)))
                await events.until(.joined(nick: "Alice", isNew: false))
                await events.until(.checked(.joined))
            }
            try await account.caughtUp()
            #expect(room.received("message").count == 3)
            #expect(try account.store.number("SELECT count(*) FROM room_message") == 0)
            #expect(events.seen.contains(.messageUnconfirmed(id: ForeignText(id))))
        }
    }

    @Test("X14 what waits for a room is given up, and reported, when the account leaves it")
    func givenUp() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            room.change { $0.door = .silent }
            let account = try await rig.withRooms()
            let events = RoomEventReader(account)
            try await account.wantRoom()
            let id = try await account.perform {
                try account.rooms.send("hello", to: ScriptedRoom.jid, in: $0)
            }
            try await account.perform { try account.rooms.leave(ScriptedRoom.jid, in: $0) }
            await events.until(.messageUnconfirmed(id: ForeignText(id)))
            #expect(try account.store.number("SELECT count(*) FROM room_message") == 0)
            #expect(room.received("message") == [])
        }
    }
}
