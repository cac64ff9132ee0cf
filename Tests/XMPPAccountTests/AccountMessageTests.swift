import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Messages: every listener is called exactly once for each.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountMessageTests {
    @Test("S5 a listener is called once for each message, in order, and another key adds a second one")
    func once() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await account.listen()
            for number in 0..<50 { rig.bot.send(rig.messageToAlice("m\(number)", "hello")) }
            try await account.caughtUp()
            #expect(try account.store.notes("message") == (0..<50).map { "m\($0): hello" })
            try await account.listen(as: "second", TestApp.Received().durable)
            rig.bot.send(rig.messageToAlice("x", "hello"))
            try await account.caughtUp()
            #expect(try account.store.notes("message").suffix(2) == ["x: hello", "x: hello"])
        }
    }

    @Test("H13 the way in which a message arrived is stored under the name that earlier versions gave it")
    func storedSource() throws {
        let names = ["live", "carbonReceived", "carbonSent"]
        let stored = try names.map { name in
            try JSONDecoder().decode(MessageReceived.Source.self, from: Data("{\"\(name)\":{}}".utf8))
        }
        #expect(stored == [.direct, .carbonReceived, .carbonSent])
        #expect(String(decoding: try JSONEncoder().encode(stored[0]), as: UTF8.self) == #"{"live":{}}"#)
    }

    @Test("S9 a copy that offline storage delivers after a lost session is recognized")
    func offlineDuplicate() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            try await account.caughtUp()
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await account.caughtUp()
            // The next acknowledgements of ours never arrive, so the server keeps what we handled.
            rig.server.pause([.reading])
            rig.bot.send(rig.messageToAlice("m2", "hello"))
            try await eventually { try account.store.notes("message").count == 2 }
            rig.server.expireSessions()
            await events.until("bound")
            try await account.caughtUp()
            try await account.caughtUp()
            let copies = rig.server.log.entries.filter { $0.event == .delivered && $0.id == "m2" }
            #expect(copies.count == 2, "the server delivered a copy")
            #expect(copies.last?.xml?.contains("urn:xmpp:delay") == true)
            #expect(try account.store.notes("message") == ["m1: hello", "m2: hello"])
        }
    }

    @Test("S9 a resent message is recognized although the process forgot to say that it has it")
    func resentAfterCommit() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            rig.server.pause([.reading])
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await eventually { try account.store.notes("message").count == 1 }
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            try await account.caughtUp()
            // Resumed with the committed count, so the server does not even send it again.
            #expect(rig.server.log.entries.repeatedDeliveries.isEmpty)
            #expect(try account.store.notes("message") == ["m1: hello"])
        }
    }

    @Test("S9 the same id with other content, from another sender, or without id is no copy")
    func notDuplicates() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            rig.bot.send(rig.messageToAlice("1", "one"))
            rig.bot.send(rig.messageToAlice("1", "two"))
            rig.bot.send(rig.messageToAlice("1", "one"))
            rig.server.send(rig.messageToAlice("1", "one"), from: try JID("other@localhost/x"))
            for _ in 0..<2 { rig.bot.send(rig.messageToAlice(nil, "nameless")) }
            try await account.caughtUp()
            #expect(
                try account.store.notes("message") == [
                    "1: one", "1: two", "1: one", "-: nameless", "-: nameless",
                ])
        }
    }

    @Test("S9 a stanza id of the own server tells copies apart from messages; anyone else's does not")
    func stanzaID() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            func message(_ body: String, by: String, id: String) -> Element {
                var element = rig.messageToAlice(nil, body)
                element["from"] = ForeignText(AccountRig.peer.description)
                element.append(
                    Element("stanza-id", namespace: Namespaces.sid, attributes: ["by": by, "id": id]))
                return element
            }
            rig.server.send(message("one", by: "alice@localhost", id: "s1"), to: .everyone)
            rig.server.send(message("one", by: "alice@localhost", id: "s1"), to: .everyone)
            rig.server.send(message("two", by: "peer@localhost", id: "s1"), to: .everyone)
            rig.server.send(message("two", by: "peer@localhost", id: "s1"), to: .everyone)
            rig.server.send(message("one", by: "alice@localhost", id: "s2"), to: .everyone)
            try await account.caughtUp()
            #expect(
                try account.store.notes("message") == ["-: one", "-: two", "-: two", "-: one"])
        }
    }

    @Test(
        "S5 a listener that throws has its call quarantined with the input; h advances and the next one is handled"
    )
    func throwing() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "throw"))
            rig.bot.send(rig.messageToAlice("m2", "fine"))
            try await account.caughtUp()
            await events.until("unfinished")
            #expect(try account.store.notes("message") == ["m2: fine"])
            #expect(try account.store.number("SELECT received FROM session") == 2)
            let (input, reason) = try account.store.step { step in
                try step.first("SELECT input, reason FROM handler WHERE state = 2 AND attempts = 1") {
                    (row) throws(HandlerError) in (String(decoding: row.blob(0), as: UTF8.self), row.text(1))
                } ?? ("", "")
            }
            #expect(input.contains("id='m1'") && input.contains("<body>throw</body>"))
            #expect(reason.contains("asked to fail"))
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
        }
    }

    @Test("S5 a handler that this program does not know is kept, and the stream goes on")
    func unknownHandler() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.ask(rig.question("q1", want: "silence"))
            try account.store.change("UPDATE handler SET name = 'test.of-the-future'")
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            let own = rig.server.boundAddresses[0]
            rig.server.send(
                IQ(type: .result, to: own, id: "q1", payload: nil).element, from: AccountRig.peer)
            await events.until("unfinished")
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(*) FROM handler WHERE state = 1") == 1)
        }
    }

    @Test("S5 a stanza that cannot be understood is counted, reported and ignored")
    func malformed() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            var broken = rig.messageToAlice("b", "hello")
            broken["from"] = "@@@"
            rig.server.send(broken, to: .everyone)
            rig.bot.send(rig.messageToAlice("m", "hello"))
            try await account.caughtUp()
            await events.until("ignored")
            #expect(try account.store.number("SELECT received FROM session") == 2)
            #expect(try account.store.notes("message") == ["m: hello"])
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
        }
    }

    @Test("S5 a burst is stored in far fewer commits than it has messages", .sqliteOnly)
    func groupCommit() async throws {
        // The account's clock stands still: on a busy machine steps would end because of the time that they took.
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await account.caughtUp()
            // Every commit writes the page of the session's row once more: count the frames of that page.
            let page = try account.store.number(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'session' AND type = 'table'")
            let before = try walFrames(of: page, in: rig)
            let hasBurst: Bool = try await account.perform { _ in
                // The account's thread waits here until all of it has arrived.
                for number in 0..<300 { rig.bot.send(rig.messageToAlice("m\(number)", "hello")) }
                let end = ContinuousClock.now + .seconds(30)
                while rig.server.log.entries.count(where: { $0.event == .delivered && $0.name == "message" })
                    < 300, ContinuousClock.now < end
                {
                    usleep(1000)
                }
                return ContinuousClock.now < end
            }
            #expect(hasBurst)
            try await account.caughtUp()
            #expect(try account.store.notes("message").count == 300)
            let commits = try walFrames(of: page, in: rig) - before
            #expect(commits > 0)
            #expect(commits < 60, "\(commits) commits for 300 messages")
        }
    }

    /// How often the write-ahead log has a page: a header of 32 bytes, then frames of 24 bytes and a page, the page's
    /// number first, big-endian. Frames with another salt than the header's are left from before a checkpoint.
    private func walFrames(of page: Int64, in rig: AccountRig) throws -> Int {
        let bytes = [UInt8](try Data(contentsOf: URL(filePath: rig.databasePath + "-wal")))
        guard bytes.count > 32 else { return 0 }
        func number(_ offset: Int) -> Int { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        let size = number(8)
        return stride(from: 32, to: bytes.count - 24, by: 24 + size).count {
            number($0) == Int(page) && bytes[$0 + 8..<$0 + 16] == bytes[16..<24]
        }
    }
}
