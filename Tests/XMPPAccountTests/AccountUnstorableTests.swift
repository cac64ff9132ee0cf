import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Stanzas that the store refuses each time: each is counted, reported and answered, and the stream goes on.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountUnstorableTests {
    /// Why stanzas were ignored, by id.
    private func ignored(_ account: Account) -> Kept<[String]> {
        let kept = Kept<[String]>([])
        let events = account.events
        Task {
            for await case .ignored(let root, let reason) in events {
                kept.withLock { $0.append("\(root["id"] ?? "-"): \(reason)") }
            }
        }
        return kept
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
            let ignored = ignored(account)
            let mark = Array("poison".utf8)
            account.store.refuseRows { sql, values in
                sql.hasPrefix("INSERT INTO handler(")
                    && values.contains {
                        if case .blob(let bytes) = $0 { bytes.contains(mark) } else { false }
                    }
            }
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
            let ignored = ignored(account)
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
