import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Requests of others that handlers answer, and requests of ours that somebody awaits.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountAnswerTests {
    /// A peer that notes the answers to its questions.
    private struct Asker {
        let bot: ScriptedServer.Bot
        let answers: Kept<[Element]>
        let to: JID

        init(_ rig: AccountRig) throws {
            let answers = Kept<[Element]>([])
            self.answers = answers
            bot = rig.server.addBot(jid: try JID("asker@localhost/bot")) { stanza, _ in
                answers.withLock { $0.append(stanza) }
            }
            to = try #require(rig.server.boundAddresses.last)
        }

        func ask(_ id: String, want: String? = nil, type: IQ.Kind = .get, name: String = "question") {
            let payload = Element(name, namespace: TestApp.namespace, attributes: ["want": want])
            bot.send(IQ(type: type, to: to, id: id, payload: payload).element)
        }

        /// The answers so far: id, type and what they carry.
        var heard: [String] {
            answers.withLock { $0 }.map { element in
                let error = element.child("error", Namespaces.client).flatMap { StanzaError($0) }
                let what = error?.condition.rawValue ?? element.firstElement?.name ?? "-"
                return "\(element["id"] ?? "-") \(element["type"] ?? "-") \(what)"
            }
        }
    }

    private func withAsker(
        clock: VirtualClock? = nil, with handler: Durable<IQRequest>? = nil,
        _ body: (AccountRig, Account, Asker) async throws -> Void
    ) async throws {
        try await withRig(clock: clock, reconnects: false) { rig in
            let account = try await rig.connected()
            try await account.answer(
                "question", in: TestApp.namespace, with: handler ?? TestApp.Served().durable)
            try await account.caughtUp()
            try await body(rig, account, try Asker(rig))
        }
    }

    @Test("Q4 a handler answers requests by their payload, each once, with a result or an error")
    func answers() async throws {
        try await withAsker { rig, account, asker in
            asker.ask("a1", want: "result")
            asker.ask("a2", want: "error", type: .set)
            asker.ask("a3", name: "other")
            try await eventually { asker.heard.count == 3 }
            #expect(
                asker.heard == [
                    "a1 result answer", "a2 error item-not-found", "a3 error service-unavailable",
                ])
            #expect(try account.store.notes("served") == ["a1", "a2"].map { "\($0): asker@localhost/bot" })
            #expect(try account.store.number("SELECT count(*) FROM inbound_request") == 0)
        }
    }

    @Test("Q4 a handler that throws answers internal-server-error, once; one that answers twice does too")
    func throwing() async throws {
        try await withAsker { rig, account, asker in
            asker.ask("a1", want: "throw")
            asker.ask("a2", want: "twice")
            asker.ask("a3", want: "result")
            try await eventually { asker.heard.count == 3 }
            try await account.caughtUp()
            #expect(
                asker.heard == [
                    "a1 error internal-server-error", "a2 error internal-server-error", "a3 result answer",
                ])
            #expect(try account.store.unfinished == 2)
            // Called again by hand, it has nobody to answer any more.
            #expect(try account.store.number("SELECT count(*) FROM inbound_request") == 0)
        }
    }

    @Test("Q4 a request that nobody has answered in time is answered with internal-server-error, once")
    func unanswered() async throws {
        let clock = VirtualClock()
        try await withAsker(clock: clock) { rig, account, asker in
            asker.ask("a1")
            try await eventually { try account.store.notes("served").count == 1 }
            asker.ask("a1")
            try await eventually { asker.heard == ["a1 error conflict"] }
            // In short turns, so that no question to the server is open for longer than the server may take.
            for _ in 0..<59 {
                try await account.caughtUp()
                clock.advance(by: .milliseconds(1000))
            }
            try await account.caughtUp()
            #expect(asker.heard.count == 1)
            clock.advance(by: .milliseconds(2000))
            try await eventually { asker.heard.count == 2 }
            #expect(asker.heard.last == "a1 error internal-server-error")
            for _ in 0..<30 {
                try await account.caughtUp()
                clock.advance(by: .seconds(5))
            }
            #expect(asker.heard.count == 2)
        }
    }

    @Test("Q4 a request may be answered later, by an async handler, and over a resumption")
    func later() async throws {
        try await withAsker(with: TestApp.ServedLater().durable) { rig, account, asker in
            asker.ask("a1")
            try await eventually { asker.heard == ["a1 result -"] }
            // Taken in by one process and answered by the next one.
            account.runner.close()
            asker.ask("a2")
            try await eventually { try account.store.number("SELECT count(*) FROM inbound_request") == 1 }
            await account.close()
            let second = try await rig.connected()
            try await eventually { asker.heard == ["a1 result -", "a2 result -"] }
            #expect(try second.store.notes("served") == ["a1: later", "a2: later"])
        }
    }

    @Test("Q4 a request whose session is lost is not answered in another one")
    func lost() async throws {
        try await withAsker { rig, account, asker in
            asker.ask("a1")
            try await eventually { try account.store.notes("served").count == 1 }
            let events = EventReader(account)
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("bound")
            #expect(try account.store.number("SELECT count(*) FROM inbound_request") == 0)
            #expect(!asker.heard.contains { $0.contains("result") })
        }
    }

    // MARK: Awaited requests

    @Test("Q5 an awaited request returns the result, or throws the error or the time-out")
    func awaited() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected()
            let answer = try await account.request(.iq(rig.question("q1")))
            #expect(answer.payload?.name == "answer")
            let error = await errorOf {
                _ = try await account.request(.iq(rig.question("q2", want: "error")))
            }
            #expect((error as? StanzaError)?.condition == .itemNotFound)
            async let late = errorOf {
                _ = try await account.request(
                    .iq(rig.question("q3", want: "nothing")), timeout: .milliseconds(500))
            }
            try await rig.saw { $0.event == .received && $0.id == "q3" }
            try await rig.turnUntil { try account.store.waitingHandlers == 0 }
            #expect((await late as? AccountError)?.code == .timedOut)
            #expect(try account.store.number("SELECT count(*) FROM request") == 0)
        }
    }

    @Test("Q5 an awaited request ends with its session, with its task and with its account")
    func givenUp() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.caughtUp()
            func wait(_ id: String) -> Task<(any Error)?, Never> {
                Task {
                    await errorOf { _ = try await account.request(.iq(rig.question(id, want: "nothing"))) }
                }
            }
            let cancelled = wait("q1")
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            cancelled.cancel()
            #expect(await cancelled.value is CancellationError)
            try await account.perform { _ in }
            #expect(try account.store.waitingHandlers == 0)
            let lost = wait("q2")
            try await rig.saw { $0.event == .received && $0.id == "q2" }
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            #expect((await lost.value as? AccountError)?.code == .sessionLost)
            let closed = wait("q3")
            try await rig.saw { $0.event == .received && $0.id == "q3" }
            await account.close()
            #expect((await closed.value as? AccountError)?.code == .closed)
            // The next process ends it all the same.
            #expect(try rig.store().waitingHandlers == 1)
            let second = try await rig.connected()
            try await second.logOut()
            #expect(try second.store.waitingHandlers == 0)
            #expect(await errorOf { _ = try await account.request(.iq(rig.question("q4"))) } is AccountError)
        }
    }

    @Test("Q3 a request whose time is over is invalidated when that was asked for, once")
    func timeoutPolicy() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected()
            try await account.send(
                .iq(rig.question("q1", want: "nothing")), then: TestApp.Answered(name: "q1").durable,
                orElse: TestApp.Abandoned(name: "q1").durable, timeout: .seconds(1),
                timeoutPolicy: .invalidate)
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            try await rig.turnUntil { try account.store.waitingHandlers == 0 }
            #expect(try account.store.notes("abandoned") == ["q1: timed-out"])
            #expect(try account.store.notes("ended") == [])
        }
    }
}
