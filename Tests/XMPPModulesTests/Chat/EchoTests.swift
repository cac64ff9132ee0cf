import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// What was sent from here and comes back, and what only looks like that.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct EchoTests {
    private let room = try! JID("verona@rooms.localhost")  // An address of the test's own.

    /// A room that lets everybody in and says nothing by itself.
    private func addRoom(_ rig: AccountRig) {
        rig.server.addService(at: room) { [weak server = rig.server, room] stanza, _ in
            guard stanza.name == "presence", stanza["type"] == nil,
                let to = stanza["to"].flatMap({ try? JID($0) })
            else { return }
            let item = Element(
                "item", namespace: Namespaces.mucUser,
                attributes: ["affiliation": "member", "role": "participant"])
            let status = Element("status", namespace: Namespaces.mucUser, attributes: ["code": "110"])
            server?.send(
                Element(
                    "presence", namespace: Namespaces.client,
                    attributes: ["to": stanza["from"], "id": stanza["id"]],
                    children: [Element("x", namespace: Namespaces.mucUser, children: [item, status])]),
                from: to)
            server?.send(
                Element(
                    "message", namespace: Namespaces.client,
                    attributes: ["to": stanza["from"], "type": "groupchat"],
                    children: [Element("subject", namespace: Namespaces.client)]), from: room)
        }
    }

    private func said(_ id: String, _ body: String, by nick: String, on rig: AccountRig) throws {
        rig.server.send(
            Message(to: AccountRig.alice, type: .groupchat, id: id, body: body).element,
            from: try JID("\(room)/\(nick)"))
    }

    @Test("X12 what others say in a room is reported, even under an id that was used here before")
    func othersIDs() async throws {
        try await withModulesRig { rig in
            addRoom(rig)
            let account = try await rig.connected { $0.modules = [ChatModule(), RoomsModule()] }
            try await account.listen()
            _ = try await account.rooms.join(room, as: "alice")
            // Clients that count: everybody's first message is number 1.
            try await account.send(Message(to: AccountRig.peer, id: "1", body: "mine"))
            try await account.perform { step in
                _ = try account.rooms.send(
                    Message(to: self.room, type: .groupchat, id: "2", body: "mine too"), to: self.room,
                    in: step)
            }
            try said("1", "theirs", by: "bob", on: rig)
            try said("2", "theirs too", by: "bob", on: rig)
            try said("2", "mine too", by: "alice", on: rig)
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["1: theirs", "2: theirs too"])
        }
    }

    @Test("X12 an occupant who repeats what a message of the account is known by hides nothing with it")
    func repeatedOrigins() async throws {
        try await withModulesRig { rig in
            addRoom(rig)
            let account = try await rig.connected { $0.modules = [ChatModule(), RoomsModule()] }
            try await account.listen()
            _ = try await account.rooms.join(room, as: "alice")
            for id in ["1", "2"] {
                try await account.perform { step in
                    _ = try account.rooms.send(
                        Message(to: self.room, type: .groupchat, id: id, body: "mine"), to: self.room,
                        in: step)
                }
            }
            func said(_ id: String, _ body: String, by nick: String) throws {
                let origin = Element("origin-id", namespace: Namespaces.sid, attributes: ["id": id])
                rig.server.send(
                    Message(to: AccountRig.alice, type: .groupchat, id: id, body: body, children: [origin])
                        .element, from: try JID("\(room)/\(nick)"))
            }
            try said("1", "mine", by: "alice")
            // Under a nickname of before, as a room's history may tell it.
            try said("2", "mine", by: "ghost")
            for id in ["1", "2"] { try said(id, "theirs", by: "mallory") }
            try said("1", "mine", by: "alice")
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["1: theirs", "2: theirs"])
        }
    }

    @Test("X12 a stranger who repeats an id in the name of a room does not make a message taken")
    func strangersEcho() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected { $0.modules = [ChatModule()] }
            try await account.listen()
            try await account.caughtUp()
            rig.server.pause([.reading])
            try await account.perform {
                try account.chat.send(Message(to: AccountRig.peer, id: "m1", body: "hello"), in: $0)
            }
            let origin = Element("origin-id", namespace: Namespaces.sid, attributes: ["id": "m1"])
            rig.server.send(
                Message(to: AccountRig.alice, type: .groupchat, id: "x", body: "fake", children: [origin])
                    .element,
                from: try JID("\(room)/mallory"))
            rig.server.send(rig.messageToAlice("after", "it"), from: AccountRig.peer)
            try await eventually { try account.store.notes("message").contains("after: it") }
            let delivery = try await account.perform { try account.chat.delivery(of: "m1", in: $0) }
            #expect(delivery?.acknowledgedAt == nil)
        }
    }

    @Test("X12 a message that is to be sent again waits while the outbox is full, and is sent again then")
    func fullOutbox() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected {
                $0.modules = [ChatModule()]
                $0.maximumOutbox = 2
            }
            try await account.caughtUp()
            try await account.perform {
                try account.chat.send(
                    Message(to: AccountRig.peer, id: "m1", body: "hello"), attempts: 2, in: $0)
            }
            try await account.caughtUp()
            try await account.suspend()
            for id in ["m2", "m3"] { try await account.tell(id) }
            func fire() throws {
                try account.store.change("UPDATE handler SET due = 1 WHERE name = 'chat.deadline'")
                _ = try account.runner.runDue()
            }
            // More often than a handler that fails would be tried again.
            for _ in 0..<30 { try fire() }
            #expect(try account.store.number("SELECT attempts FROM delivery") == 1)
            #expect(try account.store.unfinished == 0)
            try await account.connect()
            try await account.caughtUp()
            try fire()
            try await account.caughtUp()
            #expect(try account.store.number("SELECT attempts FROM delivery") == 2)
            #expect(rig.xml(ofID: "m1").count == 2)
        }
    }

    @Test("X12 a message that finds no place in the outbox leaves nothing, wherever the error is caught")
    func refusedSend() async throws {
        try await withModulesRig { rig in
            let account = try rig.account {
                $0.modules = [ChatModule()]
                $0.maximumOutbox = 1
            }
            try await account.tell("m1")
            _ = try await account.perform { step in
                #expect(throws: AccountError.self) {
                    try account.chat.send(
                        Message(to: AccountRig.peer, id: "m2", body: "hello"),
                        then: ModulesApp.DeliverySeen(name: "m2").durable, in: step)
                }
            }
            #expect(try account.store.number("SELECT count(*) FROM delivery") == 0)
            #expect(
                try account.store.number(
                    "SELECT count(*) FROM handler WHERE name IN ('chat.deadline', 'test.delivery-seen')") == 0
            )
        }
    }

    @Test("X12 in a room only the one who was whispered to confirms, not another occupant")
    func whispers() async throws {
        try await withModulesRig { rig in
            addRoom(rig)
            let account = try await rig.connected { $0.modules = [ChatModule(), RoomsModule()] }
            _ = try await account.rooms.join(room, as: "alice")
            let bob = try JID("\(room)/bob")
            try await account.perform {
                try account.chat.send(Message(to: bob, id: "w1", body: "psst"), in: $0)
            }
            func receipt() -> Element {
                let received = Element("received", namespace: Namespaces.receipts, attributes: ["id": "w1"])
                return Message(to: AccountRig.alice, children: [received]).element
            }
            rig.server.send(receipt(), from: try JID("\(room)/mallory"))
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(delivered_at) FROM delivery") == 0)
            rig.server.send(receipt(), from: bob)
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(delivered_at) FROM delivery") == 1)
        }
    }

    /// Notes of each message what a bot asks.
    private struct Flagged: Handler {
        static let id = "test.flagged"
        func run(_ call: borrowing Call<MessageReceived>) throws {
            let again = try MessageReceived(restoring: call.context.stored(), in: call.account)
            let flags = [call.context, again].map { "\($0.isOutgoing) \($0.isHistory)" }
            try TestApp.note(
                "flags", call.message.body?.string ?? "", Set(flags).joined(separator: " or "), in: call.step)
        }
    }

    @Test(
        "X29 a message of the own nickname is outgoing and one of a room's history is history, also when called later"
    )
    func flags() async throws {
        try await withModulesRig { rig in
            addRoom(rig)
            let store = try HandlerStore(
                path: rig.databasePath, registry: HandlerRegistry([Flagged.self]),
                schemas: Account.schemas + [TestApp.schema], synchronous: .normal)
            let account = try rig.account(store: store) { $0.modules = [ChatModule(), RoomsModule()] }
            try await account.listen(as: "flags", Flagged().durable)
            try await account.connect()
            _ = try await account.rooms.join(room, as: "alice")
            func say(_ body: String, by nick: String, delayed witness: String? = nil) throws {
                let delay = Element(
                    "delay", namespace: Namespaces.delay,
                    attributes: ["stamp": "2025-11-20T22:00:00Z", "from": witness])
                rig.server.send(
                    Message(
                        to: AccountRig.alice, type: .groupchat, id: body, body: body,
                        children: witness == nil ? [] : [delay]
                    ).element, from: try JID("\(room)/\(nick)"))
            }
            try say("theirs", by: "bob")
            try say("ours", by: "alice")
            try say("old", by: "bob", delayed: room.description)
            try say("forged", by: "bob", delayed: "\(room)/bob")
            try say("ours and old", by: "alice", delayed: room.description)
            for (from, body) in [(AccountRig.peer, "hello"), (AccountRig.alice, "note to self")] {
                let message = Message(to: AccountRig.alice, id: body, body: body)
                rig.server.send(message.element, from: from)
            }
            try await account.caughtUp()
            #expect(
                try store.notes("flags") == [
                    "theirs: false false", "ours: true false", "old: false true", "forged: false false",
                    "ours and old: true true", "hello: false false", "note to self: true false",
                ])
        }
    }

    @Test(
        "X29 after the own nickname has changed a message of the new one is outgoing, and one of the old one is another person's"
    )
    func flagsOfNewNick() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let store = try HandlerStore(
                path: rig.databasePath, registry: HandlerRegistry([Flagged.self]),
                schemas: Account.schemas + [TestApp.schema], synchronous: .normal)
            let account = try rig.account(store: store) { $0.modules = [ChatModule(), RoomsModule()] }
            let events = RoomEventReader(account)
            try await account.listen(as: "flags", Flagged().durable)
            try await account.connect()
            _ = try await account.rooms.join(ScriptedRoom.jid, as: "Alice")
            room.send(body: "before", id: "1", from: "Alice")
            _ = try await account.perform {
                try account.rooms.changeNick(in: ScriptedRoom.jid, to: "Juliet", in: $0)
            }
            await events.until(.nickChanged(from: "Alice", to: "Juliet"))
            room.send(body: "by the new name", id: "2", from: "Juliet")
            // Somebody else may take the name that became free.
            room.send(presence: nil, from: "Alice", ScriptedRoom.item("none"))
            room.send(body: "by the old name", id: "3", from: "Alice")
            try await account.caughtUp()
            #expect(
                try store.notes("flags") == [
                    "before: true false", "by the new name: true false", "by the old name: false false",
                ])
        }
    }

    @Test("X12 a message is as old as the own server says, not as the sender says, and never of tomorrow")
    func times() async throws {
        try await withModulesRig { rig in
            let account = try rig.account()
            func received(_ stamp: String, from: String?, type: Message.Kind = .chat) throws -> Int64? {
                let delay = Element(
                    "delay", namespace: Namespaces.delay, attributes: ["stamp": stamp, "from": from])
                let sender = type == .groupchat ? try JID("\(room)/bob") : AccountRig.peer
                return MessageReceived(
                    account: account,
                    message: Message(to: AccountRig.alice, from: sender, type: type, children: [delay])
                ).sentAt?.milliseconds
            }
            let stamp = "2025-11-20T22:00:00Z"
            for believed in ["localhost", "alice@localhost"] {
                #expect(try received(stamp, from: believed) == 1_763_676_000_000)
            }
            #expect(try received(stamp, from: room.description, type: .groupchat) == 1_763_676_000_000)
            for liar in ["peer@localhost/bot", "evil.example", room.description, nil] {
                #expect(try received(stamp, from: liar) == nil, "\(liar ?? "-")")
            }
            let tomorrow = try #require(try received("9998-01-01T00:00:00Z", from: "localhost"))
            #expect(tomorrow <= Int64(Date().timeIntervalSince1970 * 1000) + 1000)
        }
    }
}
