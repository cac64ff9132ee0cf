import Handlers
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// A module that was written outside of this package, with its public API only.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct BoardModuleTests {
    private func state(_ scene: BoardScene, _ account: Account) throws -> BoardModule.State {
        try #require(
            try account.store.step { step in try scene.module.state(of: account, in: step) })
    }

    // MARK: Sessions

    @Test("X9 an outside module starts with the session, asks its service, and says what it understands")
    func sessionStart() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            #expect(
                scene.module.life.lines.filter { !$0.hasPrefix("deferrals") } == [
                    "reset session", "begin session",
                ])
            #expect(scene.asked.lines == ["0"])
            try await until("the board's answer") { try state(scene, account).isCurrent }
            try await until("the second presence") { scene.features.count == 2 }
            #expect(scene.features[0].isSuperset(of: [BoardModule.namespace, Namespaces.discoInfo]))
            #expect(!scene.features[0].contains(BoardModule.currentFeature))
            #expect(scene.features[1] == scene.features[0].union([BoardModule.currentFeature]))

            let query = Element("query", namespace: Namespaces.discoInfo)
            scene.peer.send(IQ(type: .get, to: try scene.address, id: "info", payload: query).element)
            let info = try #require(try await scene.answer("info").payload)
            let offered = info.children("feature", Namespaces.discoInfo).compactMap { $0["var"]?.string }
            #expect(Set(offered) == scene.features[1])

            try await scene.reconnect(account, losing: false)
            #expect(scene.module.life.lines.suffix(2) == ["reset stream", "begin stream"])
            #expect(scene.asked.lines == ["0"], "a resumed session keeps what it was told")
        }
    }

    @Test("X9 an outside module learns what the server offers in each session")
    func offered() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            #expect(try !state(scene, account).hasVersions)
            scene.server.update { $0.offersRosterVersions = true }
            try await scene.reconnect(account, losing: true)
            #expect(try state(scene, account).hasVersions)
        }
    }

    @Test("X9 an outside module without its dependency or without its tables is refused by name")
    func refused() async throws {
        try await withScene { scene in
            let lacking = #expect(throws: AccountError.self) {
                _ = try scene.account(modules: [scene.module])
            }
            #expect(lacking?.message.contains("'board' needs the module 'disco'") == true)
            let tables = #expect(throws: AccountError.self) {
                _ = try scene.account(modules: [DiscoModule(), scene.module], schemas: Account.schemas)
            }
            #expect(tables?.message.contains("without the tables of the module 'board'") == true)
        }
    }

    @Test("X24 an outside module that is removed ends at its service what it started, and offers nothing")
    func removed() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            try await until("the board's answer") { try state(scene, account).isCurrent }
            try await account.remove(BoardModule.self)
            try await until("the farewell") { scene.received.lines.contains("leave") }
            #expect(scene.module.life.lines.suffix(3) == ["end", "reset session", "stop"])
            try await until("presence without it") {
                scene.features.last?.contains(BoardModule.namespace) == false
            }
        }
    }

    // MARK: Requests

    @Test("X9 an outside module answers requests, and lets only the own account change something")
    func requests() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            let nick = Element("nick", namespace: BoardModule.namespace, text: "Alicia")
            scene.peer.send(IQ(type: .set, to: try scene.address, id: "stranger", payload: nick).element)
            #expect(try await scene.answer("stranger").error?.condition == .forbidden)
            #expect(try state(scene, account).nick == "Alice")
            scene.server.send(IQ(type: .set, id: "own", payload: nick).element, to: .jid(BoardScene.alice))
            #expect(try await scene.answer("own").type == .result)
            #expect(try state(scene, account).nick == "Alicia")
            let last = Element("last", namespace: BoardModule.namespace)
            scene.peer.send(IQ(type: .get, to: try scene.address, id: "last", payload: last).element)
            #expect(try await scene.answer("last").payload?.text == "0")
        }
    }

    // MARK: Messages

    @Test("X9 an outside module recognizes the account's own messages by nickname and origin id")
    func ownMessages() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            let (module, first) = (scene.module, scene.notice("n1"))
            let origin = Element("origin-id", namespace: Namespaces.sid, attributes: ["id": "n2"])
            let second = scene.notice("n2", "second", [origin])
            try await account.perform { step in
                try module.post(first, of: account, in: step)
                try module.post(second, of: account, in: step)
            }
            try await until("both at the board") {
                scene.received.lines.contains("n1") && scene.received.lines.contains("n2")
            }
            try scene.send(first, by: "Alice")
            try scene.send(scene.notice("n3"), by: "Alice")
            // The same id under another nickname is another message; an origin id counts until it came back once.
            try scene.send(first, by: "Mallory")
            try scene.send(second, by: "Mallory")
            try scene.send(second, by: "Trudy")
            try scene.send(scene.notice("n4"), by: "Mallory")
            try await until("the last notice") { try account.heard().last == "n4" }
            #expect(try account.heard() == ["n3 own", "n1", "n2", "n4"])
        }
    }

    @Test(
        "X9 an outside module takes messages out of others, refuses forged ones, and keeps its own to itself")
    func unwrapped() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            var events = account.events.makeAsyncIterator()
            var inner = scene.notice("inner").element
            inner["from"] = ForeignText("\(BoardScene.board)/Bob")
            let digest = Element("digest", namespace: BoardModule.namespace, children: [inner])
            let wrapped = Message(to: nil, id: "outer", children: [digest])
            try scene.send(wrapped, from: BoardScene.peer)
            var reason: String?
            while reason == nil, let event = await events.next() {
                if case .ignored(_, let why) = event { reason = why }
            }
            #expect(reason == "a digest of another sender than the board")
            try scene.send(wrapped, from: BoardScene.board)
            let nick = Element("nick", namespace: BoardModule.namespace, text: "Alicia")
            try scene.send(
                Message(to: nil, type: .groupchat, id: "nick", children: [nick]), from: BoardScene.board)
            try scene.send(scene.notice("end"), by: "Bob")
            try await until("the last notice") { try account.heard().last == "end" }
            #expect(try account.heard() == ["inner", "end"])
            #expect(try state(scene, account).nick == "Alicia")
        }
    }

    // MARK: Messages that are handled later

    @Test("X9 an outside module keeps its place for a deferred message until the message is handled")
    func released() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            let start = scene.now
            try scene.publish(scene.notice("n1", "later"), by: "Bob")
            try await until("the first notice") { try account.heard() == ["n1"] }
            scene.clock.advance(by: .seconds(1))
            try scene.publish(scene.notice("n2"), by: "Bob")
            try await until("the second notice") { try account.heard() == ["n1", "n2"] }
            #expect(try state(scene, account).kept == start)
            #expect(!scene.module.life.lines.contains("deferrals released"))
            let stanza = try account.deferred()
            #expect(try await account.perform { try account.acknowledge(stanza, in: $0) })
            #expect(try state(scene, account).kept == nil)
            #expect(scene.module.life.lines.last == "deferrals released")
            try await scene.reconnect(account, losing: true)
            #expect(scene.asked.lines == ["0", "\(start + 1000)"])
            #expect(try account.heard() == ["n1", "n2"])
        }
    }

    @Test(
        "X9 an outside module goes back to the first deferred message of a lost session, which comes once more"
    )
    func lostSession() async throws {
        try await withScene { scene in
            let account = try await scene.connected()
            let start = scene.now
            try scene.publish(scene.notice("n1", "later"), by: "Bob")
            try await until("the first notice") { try account.heard() == ["n1"] }
            scene.clock.advance(by: .seconds(1))
            try scene.publish(scene.notice("n2"), by: "Bob")
            try await until("the second notice") { try account.heard() == ["n1", "n2"] }
            try await scene.reconnect(account, losing: true)
            #expect(
                scene.module.life.lines.suffix(3) == ["deferrals lost", "reset session", "begin session"])
            #expect(scene.asked.lines == ["0", "\(start - 1)"])
            try await until("the first notice, again") { try account.heard().count == 3 }
            try await account.caughtUp()
            #expect(try account.heard() == ["n1", "n2", "n1"], "the second one was handled")
            let stanza = try account.deferred()
            #expect(try await account.perform { try account.acknowledge(stanza, in: $0) })
        }
    }

    // MARK: Duplicates

    @Test("X9 the marks that an outside module needs stay: an old message of its service is still recognized")
    func neededMarks() async throws {
        try await withScene { scene in
            let first = try await scene.connected()
            let notice = scene.notice("n1")
            try scene.send(notice, by: "Bob")
            let message = Message(to: BoardScene.alice, id: "m1", body: "hello")
            scene.peer.send(message.element)
            try await until("both messages") { try first.heard().count == 2 }
            try await first.caughtUp()
            await first.close()

            scene.clock.advance(by: .seconds(60 * 86_400))
            let account = try await scene.connected()
            // The peer's mark is needed by nobody. Until it is gone the message is a duplicate.
            try await until("the peer's message, again") {
                scene.peer.send(message.element)
                try await account.caughtUp()
                return try account.heard().filter { $0 == "m1" }.count == 2
            }
            try scene.send(notice, by: "Bob")
            try scene.send(scene.notice("n2"), by: "Bob")
            try await until("the last notice") { try account.heard().last == "n2" }
            #expect(try account.heard().filter { $0 == "n1" }.count == 1)
        }
    }
}
