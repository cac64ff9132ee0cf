import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// What a program can say and hear about the counts of stream management.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountAcknowledgementTests {
    private func settle(_ account: Account) async throws {
        try await account.caughtUp()
        try await eventually { try account.store.outboxCount == 0 }
    }

    /// How many elements of that name clients sent, from an entry of the log on.
    private func count(_ name: String, _ rig: AccountRig, from index: Int = 0) -> Int {
        rig.server.log.entries(from: index).count { $0.event == .received && $0.name == name }
    }

    // MARK: Enabling

    @Test(
        "S1 without resumption neither 'resume' nor 'max' is asked for, and the session ends with its stream")
    func notResumable() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try rig.account {
                $0.resumesSessions = false
                $0.resumptionWindow = .seconds(60)
            }
            let events = EventReader(account)
            try await account.connect()
            guard case .enabled(let window) = await events.until("enabled") else {
                Issue.record("no enabled")
                return
            }
            #expect(window == .zero)
            let enable = try #require(
                rig.server.log.entries.first { $0.event == .received && $0.name == "enable" }?.xml)
            #expect(!enable.contains("resume") && !enable.contains("max"))
            #expect(try !account.canResume())
            try await account.ask(rig.question("q1", want: "nothing"))
            try await account.caughtUp()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("bound")
            #expect(try account.store.notes("abandoned") == ["q1: bound"])
        }
    }

    @Test(
        "S1 'max' is in whole seconds and greater than zero",
        arguments: [(.milliseconds(2700), "max='2'"), (.milliseconds(999), nil), (.seconds(-3), nil)]
            as [(Duration, String?)])
    func window(asked: Duration, expected: String?) async throws {
        try await withRig { rig in
            let account = try rig.account { $0.resumptionWindow = asked }
            let events = EventReader(account)
            try await account.connect()
            guard case .enabled(let window) = await events.until("enabled") else {
                Issue.record("no enabled")
                return
            }
            let enable: String =
                rig.server.log.entries.first { $0.event == .received && $0.name == "enable" }?.xml ?? ""
            #expect(enable.contains("resume='true'"))
            #expect(expected.map(enable.contains) ?? !enable.contains("max="))
            #expect(window == (expected == nil ? .seconds(600) : .seconds(2)))
        }
    }

    @Test(
        "S1 a refusal to enable is reported with its reason, a server that does not offer it is distinguished"
    )
    func refused() async throws {
        try await withRig { rig in
            rig.server.setScript { element, _ in
                guard element.name == "enable" else { return .pass }
                return .answer([
                    Element(
                        "failed", namespace: Namespaces.sm,
                        children: [Element("internal-server-error", namespace: Namespaces.stanzas)])
                ])
            }
            let account = try rig.account()
            let events = EventReader(account)
            try await account.connect()
            guard case .notEnabled(let error) = await events.until("notEnabled") else {
                Issue.record("no notEnabled")
                return
            }
            #expect(error?.condition == .internalServerError)
        }
        try await withRig({ $0.behavior.offersStreamManagement = false }) { rig in
            let account = try rig.account()
            let events = EventReader(account)
            try await account.connect()
            guard case .notEnabled(let error) = await events.until("notEnabled") else {
                Issue.record("no notEnabled")
                return
            }
            #expect(error == nil)
            #expect(await errorOf { try await account.requestAcknowledgement() } is AccountError)
            #expect(await errorOf { try await account.sendAcknowledgement() } is AccountError)
        }
    }

    @Test(
        "S2 whether a session can be resumed is known: not yet, in time, out of time, with a clock that was set back"
    )
    func canResume() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try rig.account { $0.resumptionWindow = .seconds(60) }
            #expect(try !account.canResume())
            try await account.connect()
            try await settle(account)
            #expect(try account.canResume())
            try await account.suspend()
            #expect(try account.canResume())
            try account.store.change("UPDATE session SET alive_at = alive_at - 61000")
            #expect(try !account.canResume())
            try account.store.change("UPDATE session SET alive_at = alive_at + 999000000")
            #expect(try account.canResume())
            // Out of time by the clock is no reason not to try.
            try account.store.change("UPDATE session SET alive_at = 1")
            let events = EventReader(account)
            try await account.connect()
            await events.until("resumed")
        }
    }

    @Test("S2 a failed resumption says why")
    func failureIsTold() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await settle(account)
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            guard case .sessionLost(let error) = await events.until("sessionLost") else {
                Issue.record("no sessionLost")
                return
            }
            #expect(error?.condition == .itemNotFound)
        }
    }

    // MARK: Asking and telling

    @Test(
        "S3 the server is asked after five stanzas or two seconds, and the rule can be changed while it holds"
    )
    func asking() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected()
            try await settle(account)
            account.acknowledgements = .init(requestsAfterStanzas: 5, requestsAfter: .seconds(2))
            func tell(_ numbers: ClosedRange<Int>) async throws {
                for number in numbers { try await account.tell("m\(number)") }
                try await rig.saw { $0.event == .received && $0.id == "m\(numbers.upperBound)" }
            }
            try await account.perform { _ in }
            let mark = rig.server.log.count
            try await tell(1...4)
            #expect(count("r", rig, from: mark) == 0)
            try await tell(5...5)
            try await rig.saw(from: mark) { $0.event == .received && $0.name == "r" }
            try await eventually { try account.store.outboxCount == 0 }
            try await tell(6...6)
            clock.advance(by: .milliseconds(1999))
            try await account.perform { _ in }
            #expect(count("r", rig, from: mark) == 1)
            clock.advance(by: .milliseconds(1))
            try await eventually { count("r", rig, from: mark) == 2 }
            try await eventually { try account.store.outboxCount == 0 }
            account.acknowledgements = .init(requestsAfterStanzas: 0)
            try await tell(7...20)
            try await account.perform { _ in }
            clock.advance(by: .seconds(3600))
            try await account.perform { _ in }
            #expect(count("r", rig, from: mark) == 2)
            let events = EventReader(account)
            try await account.requestAcknowledgement()
            await events.until("acknowledgementRequested")
            guard case .acknowledged(let stanzas) = await events.until("acknowledged") else {
                Issue.record("no acknowledged")
                return
            }
            #expect(stanzas.map(\.id) == (7...20).map { "m\($0)" })
            #expect(count("r", rig, from: mark) == 3)
        }
    }

    @Test(
        "S4 our count is reported after three stanzas or a second, at once on demand, and answers wait for the delay"
    )
    func telling() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock, { $0.behavior.requestsAcks = false }) { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await settle(account)
            account.acknowledgements = .init(
                acknowledgesAfterStanzas: 3, acknowledgesAfter: .seconds(1), responseDelay: .milliseconds(200)
            )
            try await account.perform { _ in }
            let mark = rig.server.log.count
            func receive(_ numbers: ClosedRange<Int>) async throws {
                for number in numbers { rig.bot.send(rig.messageToAlice("m\(number)", "hello")) }
                try await eventually { try account.store.notes("message").count == numbers.upperBound }
                try await account.perform { _ in }
            }
            func told() -> [ForeignText] {
                rig.server.log.entries(from: mark).filter { $0.event == .received && $0.name == "a" }
                    .compactMap { $0.xml.flatMap { try? Element(parsing: $0) }?["h"] }
            }
            for number in 1...3 { try await receive(number...number) }
            try await eventually { told() == ["3"] }
            try await receive(4...4)
            clock.advance(by: .milliseconds(999))
            try await account.perform { _ in }
            #expect(told() == ["3"])
            clock.advance(by: .milliseconds(1))
            try await eventually { told() == ["3", "4"] }
            try await receive(5...5)
            try await account.sendAcknowledgement()
            try await eventually { told() == ["3", "4", "5"] }
            for _ in 0..<4 {
                rig.server.send(Element("r", namespace: Namespaces.sm), to: .everyone)
                clock.advance(by: .milliseconds(10))
                try await account.caughtUp()
            }
            #expect(told() == ["3", "4", "5"])
            clock.advance(by: .milliseconds(200))
            try await eventually { told() == ["3", "4", "5", "5"] }
        }
    }

    @Test(
        "S4 the server's question is answered once everything before it is committed, not when it is taken in"
    )
    func afterCommit() async throws {
        try await withRig({ $0.behavior.requestsAcks = false }) { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await settle(account)
            let reader = try rig.store()
            let stored = Kept<[(told: ForeignText?, count: Int64)]>([])
            rig.server.setScript { element, _ in
                guard element.name == "a" else { return .pass }
                let count = (try? reader.number("SELECT count(*) FROM note WHERE what = 'message'")) ?? -1
                stored.withLock { $0.append((element["h"], count)) }
                return .pass
            }
            for number in 1...50 {
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
                rig.server.send(Element("r", namespace: Namespaces.sm), to: .everyone)
            }
            try await eventually { stored.withLock { $0.last?.told } == "50" }
            #expect(stored.withLock { $0.allSatisfy { $0.count >= Int64($0.told ?? "") ?? .max } })
        }
    }

    @Test(
        "S4 a slow handler delays neither the acknowledgement of what was committed before it nor that of its neighbors"
    )
    func slowHandler() async throws {
        try await withRig({ $0.behavior.requestsAcks = false }) { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await settle(account)
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await eventually { try account.store.notes("message").count == 1 }
            let name = rig.folder.path
            rig.server.setScript { element, _ in
                if element.name == "a" { TestApp.told.withLock { $0[name] = element["h"] } }
                return .pass
            }
            // All in one piece, so that it is taken in together. Each handler waits until the server was told of what
            // comes before it.
            rig.server.pause([.writing])
            rig.server.send(Element("r", namespace: Namespaces.sm), to: .everyone)
            for number in 2...6 {
                let message = Message(
                    to: AccountRig.alice, from: AccountRig.peer, id: "m\(number)",
                    body: "slow \(name) \(number - 1)")
                rig.server.send(message.element, to: .everyone)
                rig.server.send(Element("r", namespace: Namespaces.sm), to: .everyone)
            }
            rig.server.unpause([.writing])
            try await eventually { TestApp.told.withLock { $0[name] } == "6" }
            #expect(try account.store.unfinished == 0)
            #expect(try account.store.notes("message").count == 6)
        }
    }

    // MARK: Names of stanzas

    private struct Key: Codable, Hashable {
        var chat: String
        var row: Int
    }

    @Test(
        "S6 acknowledged stanzas are listed in the order they were sent, by the program's own keys or their ids"
    )
    func keys() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await settle(account)
            account.acknowledgements = .init(requestsAfterStanzas: 0)
            try await account.perform { _ in }
            let events = EventReader(account)
            try await account.send(Message(to: AccountRig.peer, id: "m1", body: "1"))
            try await account.send(
                Message(to: AccountRig.peer, id: "m2", body: "2"), key: Key(chat: "peer", row: 2))
            try await account.perform { step in
                try account.send(Presence(type: .unavailable), in: step)
                try account.send(Presence(), key: 17, in: step)
            }
            try await account.requestAcknowledgement()
            guard case .acknowledged(let stanzas) = await events.until("acknowledged") else {
                Issue.record("no acknowledged")
                return
            }
            #expect(stanzas.map(\.id) == ["m1", "m2", nil])
            #expect(try stanzas[0].key(as: Key.self) == nil)
            #expect(try stanzas[1].key(as: Key.self) == Key(chat: "peer", row: 2))
            #expect(try stanzas[2].key() == 17)
            #expect(throws: DecodingError.self) { try stanzas[2].key(as: Key.self) }
        }
    }

    @Test("S6 what a resumption acknowledges is listed behind it")
    func keysAfterResuming() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            try await settle(account)
            rig.server.freezeWrites()
            try await account.send(Message(to: AccountRig.peer, id: "m1", body: "1"), key: "the first")
            try await rig.saw { $0.event == .received && $0.id == "m1" }
            let events = EventReader(account)
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            guard case .acknowledged(let stanzas) = await events.until("acknowledged") else {
                Issue.record("no acknowledged")
                return
            }
            #expect(try stanzas.map { try $0.key() } == ["the first"])
        }
    }

    // MARK: Deferred stanzas

    private func receipt(_ id: String, _ store: HandlerStore) throws -> DeferredStanza {
        let note = try #require(try store.notes("receipt").last { $0.hasPrefix(id + ": ") })
        return try JSONDecoder().decode(DeferredStanza.self, from: Data(note.dropFirst(id.count + 2).utf8))
    }

    @Test("S5 deferred messages hold the count back until they are marked, in any order, by any process")
    func deferred() async throws {
        try await withRig(reconnects: false, { $0.behavior.requestsAcks = false }) { rig in
            let account = try await rig.connected()
            try await account.listen(as: "test", TestApp.Deferring().durable)
            try await settle(account)
            let mark = rig.server.log.count
            for (id, body) in [
                ("m1", "now"), ("m2", "later"), ("m3", "now"), ("m4", "later"), ("m5", "throw"),
            ] {
                rig.bot.send(rig.messageToAlice(id, body))
            }
            try await eventually { try account.store.unfinished == 1 }
            func told() async throws -> ForeignText? {
                try await account.sendAcknowledgement()
                try await account.caughtUp()
                return rig.server.log.entries(from: mark).last { $0.event == .received && $0.name == "a" }?
                    .xml.flatMap { try? Element(parsing: $0) }?["h"]
            }
            #expect(try await told() == "1")
            let last = try receipt("m4", account.store)
            #expect(try await account.acknowledge(last))
            #expect(try await told() == "1")
            // Another process marks the other one.
            let other = try rig.account()
            let first = try receipt("m2", account.store)
            #expect(try await other.acknowledge(first))
            #expect(try await !other.acknowledge(first), "it was marked before")
            #expect(try await told() == "5")
        }
    }

    @Test(
        "S5 a message that was not marked is delivered again after a resumption or a kill, and nothing else is"
    )
    func deliveredAgain() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            try await account.listen(as: "test", TestApp.Deferring().durable)
            try await settle(account)
            for (id, body) in [("m1", "now"), ("m2", "later"), ("m3", "now"), ("m4", "later"), ("m5", "now")]
            {
                rig.bot.send(rig.messageToAlice(id, body))
            }
            try await eventually { try account.store.notes("message").count == 5 }
            let fourth = try receipt("m4", account.store)
            #expect(try await account.acknowledge(fourth))
            await account.close()
            let second = try await rig.connected()
            try await second.caughtUp()
            let again = ["m1: now", "m2: later", "m3: now", "m4: later", "m5: now", "m2: later"]
            #expect(try second.store.notes("message") == again)
            let retained = try receipt("m2", second.store)
            #expect(try await second.acknowledge(retained))
            rig.bot.send(rig.messageToAlice("m6", "now"))
            try await eventually { try second.store.notes("message").count == 7 }
            try await second.suspend()
            try await second.connect()
            try await second.caughtUp()
            #expect(try second.store.notes("message") == again + ["m6: now"])
            #expect(try second.store.number("SELECT count(*) FROM deferred") == 0)
        }
    }

    @Test("S5 a request behind a deferred message is answered once, although the server delivers both again")
    func requestBehindDeferred() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen(as: "test", TestApp.Deferring().durable)
            try await settle(account)
            let own = rig.server.boundAddresses[0]
            rig.bot.send(rig.messageToAlice("m1", "later"))
            rig.server.send(rig.question("r1", to: own).element, from: AccountRig.peer)
            try await rig.saw { $0.event == .received && $0.id == "r1" }
            let mark = rig.server.log.count
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            try await settle(account)
            let again = rig.server.log.entries(from: mark).filter { $0.event == .delivered && $0.isResent }
            #expect(again.map(\.id) == ["m1", "r1"], "otherwise nothing is shown")
            #expect(rig.xml(ofID: "r1").count == 1)
            #expect(try account.store.notes("message") == ["m1: later", "m1: later"])
        }
    }

    @Test("S5 S9 a lost session brings a message that was not marked again, and one that was marked not")
    func lostSession() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen(as: "test", TestApp.Deferring().durable)
            try await settle(account)
            for id in ["m1", "m2"] { rig.bot.send(rig.messageToAlice(id, "later")) }
            try await eventually { try account.store.notes("receipt").count == 2 }
            // The first is held back by nothing but the second's place in front of it: the server hears of neither.
            let second = try receipt("m2", account.store)
            #expect(try await account.acknowledge(second))
            let first = try receipt("m1", account.store)
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("bound")
            try await eventually { try account.store.notes("message").count == 3 }
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: later", "m2: later", "m1: later"])
            #expect(try await !account.acknowledge(first), "its session is lost")
        }
    }

    @Test("S5 a message cannot be deferred once its handlers have run, nor without stream management")
    func notDeferrable() async throws {
        try await withRig({ $0.behavior.offersStreamManagement = false }) { rig in
            let account = try await rig.connected()
            try await account.listen(as: "test", TestApp.Deferring().durable)
            try await account.perform { _ in }
            rig.bot.send(rig.messageToAlice("m1", "later"))
            try await eventually { try account.store.unfinished == 1 }
            let reason = try account.store.texts("SELECT reason FROM handler WHERE state <> 0").first
            #expect(reason?.contains("cannot be deferred any more") == true)
        }
    }
}
