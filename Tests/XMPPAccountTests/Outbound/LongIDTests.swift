import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// What the library sends by itself repeats no text of others that the server does not take: a server passes on larger stanzas of other
/// servers than it takes from its own clients.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct LongIDTests {
    private static let ping = Element("ping", namespace: Namespaces.ping)

    private func withLimit(_ body: (AccountRig, Account, Kept<[String]>) async throws -> Void) async throws {
        try await withRig({
            $0.behavior.stanzaLimit = 20_000
            $0.behavior.announcesStanzaLimit = false
        }) { rig in
            let account = try await rig.connected()
            try await account.listen()
            let ignored = Kept<[String]>([])
            let events = account.events
            Task {
                for await case .ignored(_, let reason) in events { ignored.withLock { $0.append(reason) } }
            }
            try await body(rig, account, ignored)
            try await rig.expectAllCounted(account)
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1, "the stream ended")
        }
    }

    @Test(
        "X6 a request with an id of 300 kB is reported and not answered, and the messages around it are handled"
    )
    func pings() async throws {
        try await withLimit { rig, account, ignored in
            let to = try #require(rig.server.boundAddresses.first { $0.bare == AccountRig.alice })
            let id = String(repeating: "i", count: 300_000)
            for number in 0..<8 {
                rig.bot.send(IQ(type: .get, to: to, id: "\(number)\(id)", payload: Self.ping).element)
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
            }
            try await eventually { try account.store.notes("message") == (0..<8).map { "m\($0): hello" } }
            try await eventually { ignored.withLock { $0 } == Array(repeating: Account.longID, count: 8) }
            #expect(try account.store.number("SELECT count(*) FROM outbox WHERE kind = 3") == 0)
        }
    }

    @Test(
        "X6 an id of 1024 bytes is answered, one of 1025 is not: whatever is asked, and also where it cannot be read"
    )
    func longest() async throws {
        try await withLimit { rig, account, ignored in
            let to = try #require(rig.server.boundAddresses.first { $0.bare == AccountRig.alice })
            Damage.write(on: rig.server)
            try await account.answer("question", in: TestApp.namespace, with: TestApp.Served().durable)
            let (fits, long) = (String(repeating: "i", count: 1024), String(repeating: "i", count: 1025))
            let question = Element(
                "question", namespace: TestApp.namespace, attributes: ["want": "result"])
            let log = rig.server.log.entries.count
            for id in [fits, long] {
                for payload in [Self.ping, question, Element("unknown", namespace: TestApp.namespace)] {
                    rig.bot.send(IQ(type: .get, to: to, id: id, payload: payload).element)
                }
                let unreadable = Element(
                    "question", namespace: TestApp.namespace, children: [Damage.mark("xml")])
                rig.bot.send(IQ(type: .get, to: to, id: id, payload: unreadable).element)
            }
            try await account.caughtUp()
            let answers = Array(repeating: "iq \(fits)", count: 4)
            try await eventually { rig.sent(from: log) == answers }
            try await eventually {
                ignored.withLock { $0.count { $0 == Account.longID } } == 4
            }
            #expect(try account.store.notes("served").count == 1)
        }
    }

    @Test("X6 an answer that address and id of the asker make larger than every server takes is not sent")
    func escaped() async throws {
        try await withLimit { rig, account, ignored in
            let to = try #require(rig.server.boundAddresses.first { $0.bare == AccountRig.alice })
            // As an attribute, a quotation mark has six bytes.
            let from = try AccountRig.peer.bare.with(resource: String(repeating: "'", count: 1023))
            let log = rig.server.log.entries.count
            for id in [String(repeating: "'", count: 1024), "short"] {
                rig.server.send(
                    IQ(type: .get, to: to, id: id, payload: Self.ping).element, from: from)
            }
            try await account.caughtUp()
            try await eventually { rig.sent(from: log) == ["iq short"] }
            try await eventually { ignored.withLock { $0.count } == 1 }
            #expect(ignored.withLock { $0[0] }.contains("larger than 10000 bytes"))
        }
    }

    @Test(
        "X6 a request of the program has an id of 1024 bytes at most, and a listener a key that fits into an index"
    )
    func ownNames() async throws {
        try await withRig { rig in
            let account = try rig.account()
            let fits = String(repeating: "i", count: 1024)
            try await account.send(.iq(rig.question(fits)), then: TestApp.Answered(name: "q").durable)
            let error = await errorOf {
                try await account.send(
                    .iq(rig.question(fits + "i")), then: TestApp.Answered(name: "q").durable)
            }
            #expect((error as? AccountError)?.code == .invalidStanza)
            let key = String(repeating: "k", count: ForeignBounds.key - "message".utf8.count)
            try await account.listen(as: key, TestApp.Received().durable)
            let refusal = await errorOf {
                try await account.listen(as: key + "k", TestApp.Received().durable)
            }
            #expect((refusal as? HandlerError)?.code == .invalidKey)
            #expect(try account.store.number("SELECT count(*) FROM request") == 1)
            #expect(try account.store.number("SELECT count(*) FROM listener") == 1)
        }
    }
}
