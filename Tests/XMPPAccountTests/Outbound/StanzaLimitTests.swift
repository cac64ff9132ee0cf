import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
import XMPPTestKit

/// What is larger than the server takes ends its stream: it is told to the caller, and holds nothing up.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct StanzaLimitTests {
    private static let large = String(repeating: "x", count: 30_000)
    private static let limit = 20_000

    @Test("X6 what is larger than the server announced is refused when it is sent, and nothing is left of it")
    func announced() async throws {
        try await withRig({ $0.behavior.stanzaLimit = Self.limit }) { rig in
            let account = try await rig.connected()
            // The presence that starts the session stands in the outbox until then.
            try await account.caughtUp()
            let message = Message(to: AccountRig.peer, id: "m1", body: Self.large)
            let request = IQ(
                type: .set, to: AccountRig.peer, id: "q1",
                payload: Element("question", namespace: TestApp.namespace, text: Self.large))
            for attempt in [
                { try await account.send(message, acknowledged: TestApp.Acknowledged(name: "a").durable) },
                {
                    try await account.send(.iq(request), then: TestApp.Answered(name: "q").durable); return ""
                },
            ] as [@Sendable () async throws -> String] {
                let error = try #require(await errorOf { _ = try await attempt() } as? AccountError)
                #expect(
                    error.code == .stanzaTooLarge && error.message.contains("\(Self.limit) bytes at most"))
            }
            #expect(try account.store.number("SELECT count(*) FROM outbox") == 0)
            #expect(try account.store.number("SELECT count(*) FROM request") == 0)
            try await account.send(
                Message(to: AccountRig.peer, id: "m2", body: String(Self.large.prefix(15_000))),
                acknowledged: TestApp.Acknowledged(name: "b").durable)
            try await eventually { try account.store.notes("acknowledged") == ["b: m2"] }
            #expect(rig.server.log.entries.filter { $0.id == "m1" }.isEmpty)
        }
    }

    @Test(
        "X6 what was stored before the server announced its limit is taken out; what stands behind it is sent"
    )
    func storedBefore() async throws {
        try await withRig({ $0.behavior.stanzaLimit = Self.limit }) { rig in
            let account = try rig.account()
            let events = EventReader(account)
            try await send(account, rig)
            try await account.connect()
            await events.until("refused large")
            try await end(account, rig)
            #expect(rig.server.log.entries.filter { $0.id == "large" && $0.event == .received }.isEmpty)
        }
    }

    @Test(
        "X6 behind which the stream ends for a violation of the server's policy, that is taken out, though the server announced no limit",
        arguments: [true, false])
    func unannounced(resumes: Bool) async throws {
        try await withRig({
            $0.behavior.stanzaLimit = Self.limit
            $0.behavior.announcesStanzaLimit = false
            $0.behavior.offersResumption = resumes
        }) { rig in
            let account = try rig.account()
            let events = EventReader(account)
            try await send(account, rig)
            try await account.connect()
            await events.until("refused large")
            try await end(account, rig)
            let tries = rig.server.log.entries.filter { $0.id == "large" && $0.event == .received }
            #expect(tries.count == 1)
        }
    }

    @Test("X6 a stream that ends for nothing that the size explains takes a large message along some times")
    func weights() {
        func weight(_ condition: OpenName<StreamError>) -> Int {
            StanzaLimit.weight(of: AccountError(.streamError, "", cause: StreamError(condition)))
        }
        #expect(weight(.policyViolation) == StanzaLimit.refusals)
        #expect(weight(.invalidXML) == 4 && weight(.undefinedCondition) == 4)
        #expect(weight(.conflict) == 1)
        #expect(StanzaLimit.weight(of: AccountError(.connectionFailed, "")) == 1)
    }

    @Test(
        "X6 a large message that the server takes is not counted against, however often the stream ends later"
    )
    func taken() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            for round in 0..<14 {
                try await account.send(
                    Message(to: AccountRig.peer, id: "m\(round)", body: Self.large),
                    acknowledged: TestApp.Acknowledged(name: "a").durable)
                try await account.caughtUp()
                rig.server.dropConnections()
                await events.until("suspended")
                try await account.connect()
            }
            try await account.caughtUp()
            #expect(try account.store.notes("acknowledged") == (0..<14).map { "a: m\($0)" })
        }
    }

    // MARK: One that is too large, between two that are not

    private func send(_ account: Account, _ rig: AccountRig) async throws {
        func message(_ id: String, _ body: String) async throws {
            try await account.send(
                Message(to: AccountRig.peer, id: id, body: body),
                acknowledged: TestApp.Acknowledged(name: id).durable
                    .orElse(TestApp.Abandoned(name: id).durable))
        }
        try await message("before", "hello")
        try await message("large", Self.large)
        try await message("after", "hello")
    }

    private func end(_ account: Account, _ rig: AccountRig) async throws {
        try await eventually { try account.store.notes("acknowledged").contains("after: after") }
        #expect(Set(try account.store.notes("acknowledged")) == ["before: before", "after: after"])
        #expect(try account.store.notes("abandoned") == ["large: stanza-too-large"])
        #expect(try account.store.number("SELECT count(*) FROM outbox") == 0)
    }
}
