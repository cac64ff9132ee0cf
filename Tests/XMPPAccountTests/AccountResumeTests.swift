import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import TestServers
import XMPPTestKit

/// Stream management: what is acknowledged, resent and counted.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountResumeTests {
    /// The presence of a new session has been taken: the counts on both sides are known and nothing waits.
    private func settle(_ account: Account) async throws {
        try await account.caughtUp()
        try await eventually { try account.store.outboxCount == 0 }
    }

    @Test("S8 what the server did not acknowledge is sent again in order, the same bytes, only what it lacks")
    func resent() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await settle(account)
            // The first two arrive and are counted, but no acknowledgement comes back; the rest is never read.
            rig.server.freezeWrites()
            for id in ["m1", "m2"] { try await account.tell(id) }
            try await rig.saw { $0.event == .received && $0.id == "m2" }
            rig.server.pause([.reading])
            for id in ["m3", "m4", "m5"] { try await account.tell(id, "body & <\(id)>") }
            #expect(try account.store.outboxCount == 5)
            let before = try account.store.outboxXML()
            let mark = rig.server.log.count
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            try await settle(account)
            #expect(rig.sent(from: mark) == ["message m3", "message m4", "message m5"])
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
            for id in ["m3", "m4", "m5"] {
                #expect(rig.xml(ofID: id).count == 1)
                #expect(before.contains { $0 == rig.xml(ofID: id).first })
            }
            #expect(
                try account.store.notes("acknowledged")
                    == ["m1: m1", "m2: m2", "m3: m3", "m4: m4", "m5: m5"])
        }
    }

    @Test("S8 a request that the server had not taken is sent again after resuming and answered once")
    func requestResent() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await settle(account)
            rig.server.pause([.reading])
            try await account.ask(rig.question("q1"))
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            try await eventually { try account.store.waitingHandlers == 0 }
            #expect(try account.store.notes("ended") == ["q1: result answer from peer@localhost/bot"])
            #expect(rig.xml(ofID: "q1").count == 1)
        }
    }

    @Test("S8 what is sent while the session is being resumed comes behind what is sent again")
    func sendsDuringResume() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await settle(account)
            rig.server.pause([.reading])
            for id in ["m1", "m2"] { try await account.tell(id) }
            // The stream that is opened next, by the process that is first, is held in the midst of the login.
            let mark = rig.server.log.count
            let held = Kept(false)
            rig.server.setScript { element, info in
                guard element.name == "auth", !held.withLock({ $0 }) else { return .pass }
                held.withLock { $0 = true }
                rig.server.pause(of: .connection(info.connection))
                return .pass
            }
            rig.server.dropConnections()
            await events.until("suspended")
            async let connected: Void = account.connect()
            try await rig.saw(from: mark) { $0.event == .received && $0.name == "auth" }
            for id in ["m3", "m4"] { try await account.tell(id) }
            rig.server.unpause()
            try await connected
            try await account.tell("m5")
            try await settle(account)
            #expect(
                rig.sent(from: mark) == ["m1", "m2", "m3", "m4", "m5"].map { "message \($0)" })
        }
    }

    @Test("S8 a session that is resumed twice before an acknowledgement loses and repeats nothing")
    func resumedTwice() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await settle(account)
            rig.server.freezeWrites()
            try await account.tell("m1")
            try await rig.saw { $0.event == .received && $0.id == "m1" }
            rig.server.pause([.reading])
            try await account.tell("m2")
            rig.server.setAcknowledgements(.never)
            for id in ["m3", "m4"] {
                let mark = rig.server.log.count
                rig.server.dropConnections()
                await events.until("suspended")
                try await account.connect()
                await events.until("resumed")
                try await account.tell(id)
                try await rig.saw(from: mark) { $0.event == .received && $0.id == id }
            }
            rig.server.setAcknowledgements(.prompt)
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            try await settle(account)
            #expect(rig.sent() == ["presence ", "message m1", "message m2", "message m3", "message m4"])
            #expect(try account.store.notes("acknowledged").count == 4)
        }
    }

    @Test(
        "S2 B21 the session is resumed where the server wants it, or in the usual place when nobody is there",
        arguments: [true, false])
    func location(isAlive: Bool) async throws {
        try await withRig(reconnects: false) { rig in
            let home = try LoopbackProxy(to: rig.server.directTLSPort)
            let elsewhere = try LoopbackProxy(to: rig.server.directTLSPort)
            let place = isAlive ? elsewhere.port : try LoopbackPort().number
            rig.server.update { $0.resumptionLocation = "127.0.0.1:\(place)" }
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: home.port, security: .directTLS)
            }
            let events = EventReader(account)
            try await account.connect()
            try await settle(account)
            #expect(home.records.count == 1)
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            #expect(home.records.count == (isAlive ? 1 : 2))
            #expect(elsewhere.records.count == (isAlive ? 1 : 0))
            home.close()
            elsewhere.close()
        }
    }

    @Test("S8 stanzas of a dead process are sent again by the next one, once")
    func secondProcess() async throws {
        try await withRig { rig in
            let first = try await rig.connected()
            try await settle(first)
            rig.server.pause([.reading])
            for id in ["m1", "m2"] { try await first.tell(id) }
            // The store looks as after a kill: the session counts as live, and no farewell came.
            await first.close()
            try rig.store().change("UPDATE session SET open_number = number")
            rig.server.dropConnections()
            let second = try rig.account()
            try await second.tell("m3")
            try await second.connect()
            try await settle(second)
            #expect(rig.sent() == ["presence ", "message m1", "message m2", "message m3"])
        }
    }

    @Test("S4 the stream's last word before a dirty close is the committed count")
    func lastAcknowledgement() async throws {
        try await withRig {
            $0.behavior.requestsAcks = false
        } _: { rig in
            let account = try await rig.connected()
            try await account.listen()
            for number in 1...5 { rig.bot.send(rig.messageToAlice("m\(number)", "hello")) }
            try await eventually { try account.store.notes("message").count == 5 }
            try await account.suspend()
            let last = try await rig.saw { $0.event == .received && $0.name == "a" }
            #expect(last.h == 5)
            #expect(!rig.server.log.entries.contains { $0.event == .closedCleanly })
        }
    }

    @Test("S5 every count that goes out was committed before, in bursts and over resumptions")
    func committedCounts() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            let reader = try rig.store()
            let told = Kept<[(name: String, count: Int64, committed: Int64)]>([])
            rig.server.setScript { element, _ in
                guard ["a", "resume"].contains(element.name), let count = element["h"]?.string else {
                    return .pass
                }
                let committed = (try? reader.number("SELECT received FROM session")) ?? -1
                told.withLock { $0.append((element.name.string, Int64(count) ?? .max, committed)) }
                return .pass
            }
            for round in 0..<5 {
                for number in 0..<20 { rig.bot.send(rig.messageToAlice("m\(round)-\(number)", "hello")) }
                rig.server.dropConnections()
                await events.until("suspended")
                try await account.connect()
                await events.until("resumed")
                try await account.caughtUp()
            }
            let expected = (0..<5).flatMap { round in (0..<20).map { "m\(round)-\($0): hello" } }
            #expect(try account.store.notes("message") == expected)
            #expect(try account.store.number("SELECT received FROM session") == 100)
            let counts = told.withLock { $0 }
            #expect(counts.count { $0.name == "resume" } == 5 && counts.contains { $0.name == "a" })
            #expect(counts.allSatisfy { $0.count <= $0.committed }, "\(counts)")
        }
    }

    @Test("S12 the catch-up waits for the answer to its own question, not to an older one")
    func catchUp() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await settle(account)
            rig.server.setAcknowledgements(.never)
            try await account.tell("m1")
            try await rig.saw { $0.event == .received && $0.id == "m1" }
            let mark = rig.server.log.count
            async let caughtUp: Void = account.caughtUp()
            try await account.perform { _ in }
            // The older question is answered first; whatever comes behind that answer was sent before the newer one.
            rig.server.send(Self.answer(2), to: .everyone)
            try await eventually { try account.store.outboxCount == 0 }
            try await rig.saw(from: mark) { $0.event == .received && $0.name == "r" }
            rig.bot.send(rig.messageToAlice("x1", "hello"))
            rig.server.send(Self.answer(2), to: .everyone)
            try await caughtUp
            #expect(try account.store.notes("message") == ["x1: hello"])
        }
    }

    private static func answer(_ h: UInt32) -> Element {
        Element("a", namespace: Namespaces.sm, attributes: ["h": String(h)])
    }

    @Test("S3 a repeated acknowledgement changes nothing")
    func repeatedAcknowledgement() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.tell("m1")
            try await settle(account)
            for _ in 0..<3 { rig.server.send(Self.answer(2), to: .everyone) }
            try await account.caughtUp()
            #expect(try account.store.notes("acknowledged") == ["m1: m1"])
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
        }
    }

    @Test(
        "S11 a server that leaves <r/> unanswered counts as dead: suspended, then resumed on a new connection"
    )
    func deadPeer() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected { $0.acknowledgementTimeout = .seconds(30) }
            let events = EventReader(account)
            try await settle(account)
            rig.server.pause()
            try await account.tell("m1")
            // What it told is written, and asked about, before the next step.
            try await account.perform { _ in }
            clock.advance(by: .milliseconds(29_999))
            try await account.perform { _ in }
            clock.advance(by: .milliseconds(1))
            await events.until("suspended")
            async let resumed = events.until("resumed")
            try await rig.turnUntil { rig.server.log.entries.contains { $0.event == .resumed } }
            _ = await resumed
            #expect(events.seen == ["suspended timed-out", "resumed"])
            try await eventually { try account.store.notes("acknowledged") == ["m1: m1"] }
        }
    }

    @Test(
        "S1 a server without stream management is used without: messages go out and the outbox does not grow")
    func unmanaged() async throws {
        try await withRig {
            $0.behavior.offersStreamManagement = false
        } _: { rig in
            let account = try await rig.connected()
            try await account.listen()
            // More than one step takes to the socket.
            try await account.perform { step in
                for number in 0..<1300 {
                    try account.send(Message(to: AccountRig.peer, id: "m\(number)", body: "x"), in: step)
                }
            }
            try await rig.saw { $0.event == .received && $0.id == "m1299" }
            try await eventually { try account.store.outboxCount == 0 }
            #expect(rig.sent().count == 1301)
            try await account.ask(rig.question("q1"))
            try await eventually { try account.store.notes("ended").count == 1 }
            rig.bot.send(rig.messageToAlice("x1", "hello"))
            try await eventually { try account.store.notes("message") == ["x1: hello"] }
            let error = await errorOf { try await account.caughtUp() } as? AccountError
            #expect(error?.code == .protocolViolation)
        }
    }

    @Test(
        "S1 enabling refused leaves an unmanaged session; a handler that waits for an acknowledgement is not forgotten"
    )
    func enableRefused() async throws {
        try await withRig {
            $0.script = { element, _ in
                guard element.name == "enable" else { return .pass }
                let reason = Element("unexpected-request", namespace: Namespaces.stanzas)
                return .answer([Element("failed", namespace: Namespaces.sm, children: [reason])])
            }
        } _: { rig in
            let account = try await rig.connected()
            try await account.tell("m1")
            try await rig.saw { $0.event == .received && $0.id == "m1" }
            try await eventually { try account.store.outboxCount == 0 }
            try await eventually("the handler ended") { try account.store.waitingHandlers == 0 }
            #expect(try account.store.notes("acknowledged").isEmpty)
            #expect(try account.store.number("SELECT count(*) FROM ending WHERE outcome = 4") == 1)
        }
    }

    @Test("S2 a session that was enabled without resumption is not resumed")
    func notResumable() async throws {
        try await withRig(reconnects: false) {
            $0.behavior.offersResumption = false
        } _: { rig in
            let account = try rig.account()
            let events = EventReader(account)
            try await account.connect()
            try await account.ask(rig.question("q1", want: "silence"))
            try await account.caughtUp()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("bound")
            #expect(!rig.server.log.entries.contains { $0.name == "resume" })
            #expect(try account.store.notes("abandoned") == ["q1: bound"])
        }
    }

    @Test("S11 a long queue goes out without waiting for the server's answers")
    func longQueue() async throws {
        try await withRig { rig in
            rig.server.update { $0.acknowledgements = .never }
            let account = try await rig.connected()
            try await account.perform { step in
                for number in 0..<2000 {
                    try account.send(Message(to: AccountRig.peer, id: "m\(number)", body: "x"), in: step)
                }
            }
            try await rig.saw { $0.event == .received && $0.id == "m1999" }
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
        }
    }

    @Test("S12 events reach two listeners, each in order")
    func events() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try rig.account()
            let readers = [EventReader(account), EventReader(account)]
            try await account.connect()
            rig.server.dropConnections()
            await readers[0].until("suspended")
            try await account.connect()
            await readers[0].until("resumed")
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await readers[0].until("suspended")
            try await account.connect()
            await account.close()
            for reader in readers {
                await reader.untilClosed()
                #expect(
                    reader.seen == [
                        "bound", "suspended connection-failed", "resumed", "suspended connection-failed",
                        "sessionLost", "bound",
                    ])
            }
        }
    }
}

extension HandlerStore {
    /// What the outbox holds, in order.
    func outboxXML() throws -> [String] {
        try step { step in
            try step.all("SELECT xml FROM outbox ORDER BY seq") { (row) throws(HandlerError) in
                String(decoding: row.blob(0), as: UTF8.self)
            }
        }
    }
}
