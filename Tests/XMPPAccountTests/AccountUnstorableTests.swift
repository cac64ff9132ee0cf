import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Stanzas that the store refuses each time: each is counted, reported and answered, and the stream goes on.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountUnstorableTests {
    /// Whether a statement stores the call of a handler for a stanza whose id starts with `poison`.
    private static func isPoisonedCall(_ sql: String, _ values: [SQLValue]) -> Bool {
        sql.hasPrefix("INSERT INTO handler(")
            && values.contains {
                if case .blob(let bytes) = $0 { bytes.contains(Array("poison".utf8)) } else { false }
            }
    }

    private func expectUnbroken(_ rig: AccountRig, _ account: Account) async throws {
        try await account.caughtUp()
        #expect(rig.server.log.entries.count { $0.event == .resumed } == 0)
        #expect(rig.server.log.entries.count { $0.event == .bound } == 1)
        try await rig.expectAllCounted(account)
    }

    @Test("R1 a message whose call cannot be stored is counted and reported, and those behind it are handled")
    func message() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            let ignored = account.ignored()
            account.store.refuseRows(Self.isPoisonedCall)
            for number in 1...8 {
                rig.bot.send(rig.messageToAlice("poison\(number)", "throw"))
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
            }
            let expected = (1...8).map { "m\($0): hello" }
            try await eventually { try account.store.notes("message") == expected }
            try await eventually { ignored.withLock { $0.count } == 8 }
            #expect(ignored.withLock { $0[0] }.hasPrefix("poison1: it could not be stored"))
            try await expectUnbroken(rig, account)
        }
    }

    @Test("R1 what shares a step with a stanza that cannot be stored happens once")
    func shared() async throws {
        // A busy machine may do in several steps what came together.
        for _ in 1...10 where try await share() { return }
        Issue.record("no step was shared in ten tries")
    }

    /// - Returns: Whether the stanza that cannot be stored shared a step with others.
    private func share() async throws -> Bool {
        let replies = Kept(0)
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen(as: "slow", TestApp.Received().durable)
            try await account.listen(as: "asking", TestApp.AskBack().durable)
            try await account.caughtUp()
            let ignored = account.ignored()
            account.store.refuseRows { sql, values in
                if sql.hasPrefix("INSERT INTO outbox"), values.contains(.text("reply-good")) {
                    replies.withLock { $0 += 1 }
                }
                return Self.isPoisonedCall(sql, values)
            }
            // While a handler holds up the loop, stanzas and a command gather.
            let key = "shared-\(TestEngine.isPostgres)"
            TestApp.told.withLock { $0[key] = "0" }
            TestApp.waiting.withLock { _ = $0.remove(key) }
            rig.bot.send(rig.messageToAlice("m", "slow \(key) 1"))
            try await eventually { TestApp.waiting.withLock { $0.contains(key) } }
            rig.bot.send(rig.messageToAlice("good", "hello"))
            rig.bot.send(rig.messageToAlice("poison", "throw"))
            rig.bot.send(rig.messageToAlice("last", "hello"))
            // What comes after them has left the server after them.
            let isBehind = Kept(false)
            let marker = try JID("marker@localhost/bot")
            _ = rig.server.addBot(jid: marker) { _, _ in isBehind.withLock { $0 = true } }
            rig.bot.send(Message(to: marker, body: "behind").element)
            try await eventually { isBehind.withLock { $0 } }
            let results = Kept<[String]>([])
            let command = StepCommand { step in
                try TestApp.note("own", "command", "1", in: step)
                _ = try account.send(Message(to: AccountRig.peer, id: "own", body: "hello"), in: step)
            } finish: { result in
                results.withLock { $0.append("\(result)") }
            }
            #expect(account.mailbox.post(.step(command)))
            TestApp.told.withLock { $0[key] = "1" }
            try await eventually { try account.store.notes("ended").count == 3 }
            try await account.caughtUp()
            try await rig.saw { $0.event == .received && $0.id == "own" }
            for id in ["own", "reply-good", "reply-last", "back-good", "back-last"] {
                #expect(rig.sent().filter { $0.hasSuffix(" \(id)") }.count == 1, "\(id)")
            }
            #expect(rig.sent().filter { $0.hasSuffix("-poison") } == [])
            #expect(try account.store.notes("own") == ["command: 1"])
            #expect(results.withLock { $0 } == ["success()"])
            #expect(
                try account.store.notes("ended").map { $0.split(separator: ":")[0] } == [
                    "back-m", "back-good", "back-last",
                ])
            #expect(ignored.withLock { $0.count } == 1)
            try await expectUnbroken(rig, account)
        }
        return replies.withLock { $0 } > 1
    }

    /// A module that keeps messages in another store, which cannot be reached.
    private struct Elsewhere: AccountModule {
        static let name = "elsewhere"
        func register(in hooks: inout ModuleHooks) {
            hooks.receiveMessage = { received, _ in
                guard received.message.id?.string.hasPrefix("poison") == true else { return false }
                throw HandlerError(.databaseUnavailable, "the other store cannot be reached")
            }
        }
    }

    @Test("R1 a module that fails because of another store fails alone: the stream goes on")
    func otherStore() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Elsewhere()] }
            try await account.listen()
            let failures = Kept<[String]>([])
            let events = account.events
            Task {
                for await case .moduleFailed(let module, let error) in events {
                    failures.withLock { $0.append("\(module): \(error)") }
                }
            }
            for number in 1...3 {
                rig.bot.send(rig.messageToAlice("poison\(number)", "hello"))
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
            }
            try await eventually { try account.store.notes("message").count == 6 }
            try await eventually { failures.withLock { $0.count } == 3 }
            #expect(failures.withLock { $0[0] } == "elsewhere: the other store cannot be reached")
            try await expectUnbroken(rig, account)
        }
    }

    @Test("R1 a request that cannot be stored is refused with an error, and what is behind it is handled")
    func request() async throws {
        try await withRig { rig in
            let answers = Kept<[String]>([])
            let asker = rig.server.addBot(jid: try JID("asker@localhost/bot")) { stanza, _ in
                let error = stanza.child("error", Namespaces.client).flatMap { StanzaError($0) }
                answers.withLock { $0.append("\(stanza["id"] ?? "-") \(error?.condition.rawValue ?? "-")") }
            }
            let account = try await rig.connected()
            let to = try #require(rig.server.boundAddresses.last)
            try await account.answer("question", in: TestApp.namespace, with: TestApp.Served().durable)
            try await account.listen()
            let ignored = account.ignored()
            account.store.refuseRows { sql, _ in sql.hasPrefix("INSERT INTO inbound_request") }
            for number in 1...3 {
                let payload = Element(
                    "question", namespace: TestApp.namespace, attributes: ["want": "result"])
                asker.send(IQ(type: .get, to: to, id: "q\(number)", payload: payload).element)
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
            }
            try await eventually { try account.store.notes("message").count == 3 }
            try await eventually { answers.withLock { $0.count } == 3 }
            #expect(answers.withLock { $0 } == (1...3).map { "q\($0) internal-server-error" })
            try await eventually { ignored.withLock { $0.count } == 3 }
            try await expectUnbroken(rig, account)
        }
    }

    @Test("R1 a command that the store refuses fails alone: the stream and other commands go on")
    func commands() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            account.store.refuseRows { sql, values in
                sql.hasPrefix("INSERT INTO note") && values.contains(.text("poison"))
            }
            // The listener fails, and its call can be stored.
            rig.bot.send(rig.messageToAlice("poison", "hello"))
            let error = await errorOf {
                try await account.perform { step in try TestApp.note("own", "poison", "1", in: step) }
            }
            #expect((error as? HandlerError)?.code == .sql)
            try await account.perform { step in try TestApp.note("own", "fine", "1", in: step) }
            #expect(try account.store.notes("own").count == 1)
            try await expectUnbroken(rig, account)
        }
    }
}

extension [UInt8] {
    fileprivate func contains(_ part: [UInt8]) -> Bool {
        guard count >= part.count else { return false }
        return (0...count - part.count).contains { self[$0..<$0 + part.count].elementsEqual(part) }
    }
}
