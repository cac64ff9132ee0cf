import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension RealServerTests {
    /// Rooms on each real server, with an independent client in them.
    @Suite struct RoomsOnServersTests {
        private func room(_ account: Account, _ room: JID) throws -> Room? {
            try account.store.step { step in try account.rooms.room(room, in: step) }
        }

        /// The room with the peer as its owner, and the account in it.
        private func met(
            _ kind: ServerKind, port: (RealHome) throws -> UInt16? = { _ in nil },
            _ body: (RealHome, Account, SlixmppPeer, JID) async throws -> Void
        ) async throws {
            try await withModulesHome(kind) { home in
                let peer = try home.roomsPeer()
                defer { peer.close() }
                let room = try home.freshRoom()
                try peer.join(room, as: "Romeo")
                try peer.tell("configure", ["room": room, "values": [String: String]()])
                let account = try await home.withRooms(port: port(home))
                let end = try await account.rooms.join(room, as: "Alice")
                #expect(end.outcome == .joined && !end.isNew)
                try await body(home, account, peer, room)
            }
        }

        private func heard(_ account: Account) throws -> [String] { try account.store.notes("message") }

        @Test(
            "X14 join, talk both ways, subject, leave, with an independent client",
            arguments: ServerKind.allCases)
        func talk(kind: ServerKind) async throws {
            try await met(kind) { home, account, peer, room in
                let events = RoomEventReader(account)
                try await eventually("the occupants") {
                    try account.store.step { try account.rooms.occupants(of: room, in: $0).map(\.nick) }
                        == ["Alice", "Romeo"]
                }
                try peer.say("hello", id: "r1", in: room)
                _ = try await account.perform { try account.rooms.send("good day", to: room, in: $0) }
                try await eventually("what the peer said") { try heard(account) == ["r1: hello"] }
                try await eventually("what the account said") {
                    try peer.heard(from: "Alice") == ["good day"]
                }
                try await eventually("the reflection") {
                    try account.store.number("SELECT count(*) FROM room_message") == 0
                }
                try peer.tell("subject", ["room": room, "text": "Fire"])
                await events.until(.subject("Fire", by: try room.with(resource: "Romeo")))
                #expect(try self.room(account, room)?.subject == "Fire")
                // A private message is an ordinary one.
                try peer.tell(
                    "say", ["to": "\(room)/Alice", "type": "chat", "id": "p1", "body": "psst"])
                try await eventually("the private message") {
                    try heard(account) == ["r1: hello", "p1: psst"]
                }
                #expect(try await account.rooms.check(room) == .joined)
                try await account.perform { try account.rooms.leave(room, in: $0) }
                try await eventually("that the account left") {
                    try peer.records("presence").contains {
                        $0.from == "\(room)/Alice" && $0.type == "unavailable"
                    }
                }
                try await account.caughtUp()
                #expect(try self.room(account, room)?.state == .left)
            }
        }

        @Test(
            "X14 a lost session: joined again with what was said meanwhile, once; what could not be sent is sent",
            arguments: ServerKind.allCases)
        func lostSession(kind: ServerKind) async throws {
            try await met(kind) { home, first, peer, room in
                for number in 1...3 { try peer.say("before \(number)", id: "b\(number)", in: room) }
                try await eventually("the first messages") { try heard(first).count == 3 }
                await first.close()
                try home.forgetSession()
                for number in 1...3 { try peer.say("away \(number)", id: "a\(number)", in: room) }
                let second = try home.account { $0.modules = .standard }
                _ = try await second.perform { try second.rooms.send("said offline", to: room, in: $0) }
                try await second.connect()
                try await eventually("what was said meanwhile") { try heard(second).count >= 6 }
                try peer.say("after", id: "c1", in: room)
                try await eventually("the last message") { try heard(second).last == "c1: after" }
                #expect(
                    try heard(second) == [
                        "b1: before 1", "b2: before 2", "b3: before 3", "a1: away 1", "a2: away 2",
                        "a3: away 3", "c1: after",
                    ])
                try await eventually("what was said offline") {
                    try peer.heard(from: "Alice") == ["said offline"]
                }
                try await eventually("the reflection") {
                    try second.store.number("SELECT count(*) FROM room_message") == 0
                }
                try await second.caughtUp()
                #expect(try peer.heard(from: "Alice") == ["said offline"])
            }
        }

        @Test(
            "X14 more was said than a room sends by itself: the rest comes out of its archive, each once",
            arguments: ServerKind.allCases)
        func archive(kind: ServerKind) async throws {
            try await met(kind) { home, first, peer, room in
                // Prosody's rooms have an archive by themselves.
                if kind == .ejabberd {
                    try peer.tell("configure", ["room": room, "values": ["mam": "1"]])
                }
                try peer.say("before", id: "b1", in: room)
                try await eventually("the first message") { try heard(first) == ["b1: before"] }
                #expect(try self.room(first, room)?.cursor?.archiveID != nil)
                await first.close()
                try home.forgetSession()
                for number in 1...45 { try peer.say("\(number)", id: "a\(number)", in: room) }
                let second = try home.account { $0.modules = .standard }
                try await second.connect()
                let all = ["b1: before"] + (1...45).map { "a\($0): \($0)" }
                try await eventually("what was said meanwhile") { try heard(second).count >= all.count }
                try await second.caughtUp()
                #expect(try heard(second).sorted() == all.sorted())
            }
        }

        @Test("X14 after a resumption the account is in the room as before", arguments: ServerKind.allCases)
        func resumed(kind: ServerKind) async throws {
            let proxy = Kept<LoopbackProxy?>(nil)
            try await met(kind) { home in
                let made = try LoopbackProxy(to: home.port(.directTLS))
                proxy.withLock { $0 = made }
                return made.port
            } _: { home, account, peer, room in
                let events = EventReader(account)
                try await eventually("that the account came") {
                    try peer.records("presence").contains { $0.from == "\(room)/Alice" }
                }
                let arrivals = try peer.records("presence").count { $0.from == "\(room)/Alice" }
                let before = try self.room(account, room)
                proxy.withLock { $0 }?.cut()
                await events.until("resumed")
                _ = try await account.perform { try account.rooms.send("still here", to: room, in: $0) }
                try await eventually("what the account said") {
                    try peer.heard(from: "Alice") == ["still here"]
                }
                try peer.say("indeed", id: "r1", in: room)
                try await eventually("what the peer said") { try heard(account) == ["r1: indeed"] }
                #expect(try peer.records("presence").count { $0.from == "\(room)/Alice" } == arrivals)
                #expect(try self.room(account, room)?.state == .joined)
                #expect(try self.room(account, room)?.nick == before?.nick)
                #expect(try home.sessions == [1, 1])
            }
        }

        @Test(
            "X14 a room that forgot the account is noticed by a ping and joined again",
            arguments: ServerKind.allCases)
        func forgotten(kind: ServerKind) async throws {
            try await met(kind) { home, account, peer, room in
                // The room forgets the account, which does not know that.
                func forget(_ times: Int) async throws {
                    try await account.perform { try account.rooms.leave(room, in: $0) }
                    try await eventually("that the account left") {
                        try peer.records("presence").count {
                            $0.from == "\(room)/Alice" && $0.type == "unavailable"
                        } == times
                    }
                    try await account.caughtUp()
                    try account.store.change("UPDATE room SET state = 'joined'")
                }
                try await forget(1)
                let events = RoomEventReader(account)
                let check = try await account.rooms.check(room)
                guard case .rejoining = check else {
                    Issue.record("\(check)")
                    return
                }
                await events.until(.joined(nick: "Alice", isNew: false))
                #expect(try await account.rooms.check(room) == .joined)
                // The same when a message finds out.
                try await forget(2)
                _ = try await account.perform { try account.rooms.send("anybody there", to: room, in: $0) }
                try await eventually("the message") { try peer.heard(from: "Alice") == ["anybody there"] }
            }
        }

        @Test(
            "X14 nickname taken, banned, password, members only: each refusal by its name",
            arguments: ServerKind.allCases)
        func refusals(kind: ServerKind) async throws {
            try await met(kind) { home, account, peer, room in
                func condition(_ nick: String, password: String? = nil) async throws -> String {
                    let end = try await account.rooms.join(room, as: nick, password: password)
                    return switch end.outcome {
                    case .refused(let error): error.condition.description
                    default: "\(end.outcome)"
                    }
                }
                func configure(_ values: [String: String]) throws {
                    try peer.tell("configure", ["room": room, "values": values])
                }
                try await account.perform { try account.rooms.leave(room, in: $0) }
                #expect(try await condition("Romeo") == "conflict")
                try configure(["muc#roomconfig_membersonly": "1"])
                #expect(try await condition("Alice") == "registration-required")
                try configure([
                    "muc#roomconfig_membersonly": "0", "muc#roomconfig_passwordprotectedroom": "1",
                    "muc#roomconfig_roomsecret": "cauldron",
                ])
                #expect(try await condition("Alice") == "not-authorized")
                #expect(try await condition("Alice", password: "wrong") == "not-authorized")
                #expect(try self.room(account, room)?.state == .left)
                #expect(try await condition("Alice", password: "cauldron") == "joined")
            }
        }

        @Test("X14 kicked and banned by an independent client", arguments: ServerKind.allCases)
        func putOut(kind: ServerKind) async throws {
            try await met(kind) { home, account, peer, room in
                let events = RoomEventReader(account)
                func left() async -> RoomDeparture? {
                    let change = await events.until { if case .left = $0 { true } else { false } }
                    guard case .left(let departure) = change else { return nil }
                    return departure
                }
                try peer.tell(
                    "role",
                    ["room": room, "nick": "Alice", "role": "none", "reason": "Enough"])
                #expect(await left() == RoomDeparture(.kicked, by: "Romeo", text: "Enough"))
                #expect(try self.room(account, room)?.state == .left)
                #expect(try await account.rooms.join(room, as: "Alice").outcome == .joined)
                try peer.tell(
                    "affiliation",
                    [
                        "room": room, "jid": home.jid, "affiliation": "outcast",
                        "reason": "Go",
                    ])
                #expect(await left() == RoomDeparture(.banned, by: "Romeo", text: "Go"))
                guard case .refused(let error) = try await account.rooms.join(room, as: "Alice").outcome
                else {
                    Issue.record("a banned account was let in")
                    return
                }
                #expect(error.condition == .forbidden)
            }
        }

        @Test("X14 an owner's room: made, set up, kick, ban, list, destroy", arguments: ServerKind.allCases)
        func owner(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let peer = try home.roomsPeer()
                defer { peer.close() }
                let room = try home.freshRoom()
                let account = try await home.withRooms()
                let events = RoomEventReader(account)
                let end = try await account.rooms.join(room, as: "Alice")
                #expect(end.outcome == .joined && end.isNew)
                // The room is open once the service has answered that it takes it as it is.
                try await account.caughtUp()
                try peer.join(room, as: "Romeo")
                let form = try await account.request(.room(room).configuration)
                #expect(form.formType == "http://jabber.org/protocol/muc#roomconfig")
                try await account.request(
                    .room(room).configure(
                        DataForm(
                            .submit,
                            [
                                .init("muc#roomconfig_roomname", "Council"),
                                .init("muc#roomconfig_persistentroom", "1"),
                            ]
                        )))
                #expect(
                    try await account.request(.room(room).configuration)["muc#roomconfig_roomname"]
                        == "Council")
                try await account.request(.room(room).setRole(.none, of: "Romeo", reason: "Enough"))
                await events.until(
                    .occupantLeft(
                        nick: "Romeo", RoomDeparture(.kicked, by: "Alice", text: "Enough")))
                try await eventually("the kick") {
                    try peer.records("presence").contains { $0.reason?.contains("307") == true }
                }
                let romeo = peer.account
                // As a stored request.
                _ = try await account.perform { step in
                    try account.send(
                        .room(room).setAffiliation(.outcast, of: [romeo], reason: "Brawling"),
                        then: TestApp.Answered(name: "ban").durable, in: step)
                }
                try await eventually("the ban") { try account.store.notes("ended").count == 1 }
                #expect(try account.store.notes("ended") == ["ban: result - from \(room)"])
                let banned = try await account.request(.room(room).users(with: .outcast))
                #expect(banned.map(\.jid) == [romeo])
                let refused = #expect(throws: TestServerError.self) { try peer.join(room, as: "Romeo") }
                #expect(refused?.code == .refused && refused?.message == "forbidden")
                try await account.request(.room(room).setAffiliation(.none, of: [romeo]))
                #expect(try await account.request(.room(room).users(with: .outcast)) == [])
                #expect(try await account.request(.room(room).users(with: .owner)).map(\.jid) == [home.jid])
                try await account.request(.room(room).destroy(alternative: nil, reason: "Over"))
                let left = await events.until { if case .left = $0 { true } else { false } }
                guard case .left(let departure) = left else {
                    Issue.record("not left")
                    return
                }
                #expect(departure.reason == .destroyed(alternative: nil))
                #expect(try self.room(account, room)?.state == .left)
            }
        }

        @Test("X14 invitations of both kinds in both directions", arguments: ServerKind.allCases)
        func invitations(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let peer = try home.roomsPeer()
                defer { peer.close() }
                let account = try await home.withRooms()
                let events = RoomEventReader(account)
                let room = try home.freshRoom()
                try peer.join(room, as: "Romeo")
                // ejabberd lets nobody but moderators invite unless it is told.
                let values = ["muc#roomconfig_allowinvites": "1"]
                try peer.tell("configure", ["room": room, "values": values])
                for isDirect in [false, true] {
                    try peer.tell(
                        "invite",
                        [
                            "room": room, "jid": home.jid, "reason": "Come",
                            "direct": isDirect,
                        ])
                    let change = await events.until { if case .invited = $0 { true } else { false } }
                    guard case .invited(let invitation) = change else {
                        Issue.record("not invited")
                        return
                    }
                    #expect(invitation.room == room && invitation.isDirect == isDirect)
                    // Prosody hides the address where the room hides addresses.
                    #expect([peer.account, room].contains(invitation.by?.bare))
                    #expect(invitation.reason == "Come")
                    let declined = try await account.perform { try account.rooms.decline(room, in: $0) }
                    #expect(declined)
                }
                _ = try await account.rooms.join(room, as: "Alice")
                let romeo = peer.account
                for isDirect in [false, true] {
                    try await account.perform { step in
                        try account.rooms.invite(
                            romeo, into: room, directly: isDirect, reason: "Come back", in: step)
                    }
                    try await eventually("the invitation") {
                        try peer.records("invited").count == (isDirect ? 2 : 1)
                    }
                }
                for record in try peer.records("invited") {
                    #expect(record.from == room.description && record.reason == "Come back")
                    let by = try record.jid.map { try JID($0).bare }
                    #expect([home.jid, room].contains(by))
                }
            }
        }

        @Test("X14 the nickname is changed, and one that is taken is refused", arguments: ServerKind.allCases)
        func nickname(kind: ServerKind) async throws {
            try await met(kind) { home, account, peer, room in
                let events = RoomEventReader(account)
                _ = try await account.perform { try account.rooms.changeNick(in: room, to: "Juliet", in: $0) }
                await events.until(.nickChanged(from: "Alice", to: "Juliet"))
                _ = try await account.perform { try account.rooms.changeNick(in: room, to: "Romeo", in: $0) }
                let refused = await events.until { if case .nickRefused = $0 { true } else { false } }
                guard case .nickRefused("Romeo", let error) = refused else {
                    Issue.record("not refused: \(String(describing: refused))")
                    return
                }
                #expect(error.condition == .conflict)
                #expect(try self.room(account, room)?.nick == "Juliet")
                _ = try await account.perform { try account.rooms.send("it is I", to: room, in: $0) }
                try await eventually("what was said") { try peer.heard(from: "Juliet") == ["it is I"] }
            }
        }
    }
}
