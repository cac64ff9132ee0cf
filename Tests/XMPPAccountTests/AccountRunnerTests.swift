import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// What an account's runner does with handlers that cannot end where they are called.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres))
struct AccountRunnerTests {
    struct Hiccup: Error {}

    /// Works at the second attempt.
    struct Flaky: Handler {
        static let id = "test.flaky"
        static let retry = RetryPolicy(firstDelay: .milliseconds(1), factor: 1)
        func run(_ call: borrowing Call<MessageReceived>) throws {
            try TestApp.note(
                "flaky", call.message.id ?? "", "\(call.message.body ?? "") at \(call.attempt)", in: call.step
            )
            if call.attempt == 1 { throw Hiccup() }
        }
    }

    /// Awaits, then ends with the answer and a stanza of its own.
    struct Slow: AsyncHandler {
        static let id = "test.slow"
        func run(_ call: AsyncCall<IQReply>) async throws {
            await Task.yield()
            try call.end { step in
                try TestApp.note("slow", call.iq.id, call.iq.type.rawValue, in: step)
                try call.account.send(
                    Message(to: call.iq.from, id: "after-\(call.iq.id)", body: "done"), in: step)
            }
        }
    }

    private func store(_ rig: AccountRig) throws -> HandlerStore {
        try HandlerStore(
            path: rig.databasePath,
            registry: HandlerRegistry([Flaky.self, Slow.self, TestApp.Answered.self, TestApp.Abandoned.self]),
            schemas: Account.coreSchemas + [TestApp.schema], synchronous: .normal)
    }

    @Test("H13 a listener that throws is called again with the same message, once")
    func retried() async throws {
        try await withRig { rig in
            let account = try await rig.connected(store: store(rig))
            try await account.listen(as: "flaky", Flaky().durable)
            rig.bot.send(rig.messageToAlice("m1", "first"))
            try await eventually { try account.store.notes("flaky").count == 1 }
            #expect(try account.store.notes("flaky") == ["m1: first at 2"])
            #expect(try account.store.unfinished == 0)
            // The standing handler itself has not failed.
            #expect(try account.store.number("SELECT sum(attempts) FROM handler") == 0)
        }
    }

    @Test("H13 a retry that another process makes has the message, too")
    func retriedElsewhere() async throws {
        try await withRig { rig in
            let first = try await rig.connected(store: store(rig))
            try await first.listen(as: "flaky", Flaky().durable)
            await first.close()
            // Called in a step of its own, and left before its time.
            let left = try first.store.step { step in
                let handler = try #require(
                    try step.first("SELECT handler FROM listener") {
                        HandlerID<MessageReceived>(rawValue: $0.integer(0))
                    })
                let message = Message(to: AccountRig.alice, id: "m1", body: "left behind")
                return try step.call(
                    handler, with: MessageReceived(restoring: Serializer().bytes(message.element), in: first))
            }
            guard case .retrying = left else {
                Issue.record("\(left)")
                return
            }
            let second = try await rig.connected(store: store(rig))
            #expect(try await second.drain(for: .seconds(100)))
            try await eventually { try second.store.notes("flaky") == ["m1: left behind at 2"] }
        }
    }

    @Test("H14 an async handler gets the answer and sends in its closing step")
    func asynchronous() async throws {
        try await withRig { rig in
            let account = try await rig.connected(store: store(rig))
            let iq = rig.question("q1")
            try await account.send(.iq(iq), then: Slow().durable)
            try await eventually { try account.store.notes("slow").count == 1 }
            try await eventually { rig.sent().contains("message after-q1") }
            #expect(try account.store.waitingHandlers == 0)
        }
    }

    @Test("H16 a timeout in an account's scope counts while the account is connected, and only then")
    func scope() async throws {
        try await withRig { rig in
            let account = try await rig.connected(store: store(rig))
            let waiting = try TestApp.Answered(name: "w").durable.orElse(TestApp.Abandoned(name: "w").durable)
            try account.store.step {
                try $0.bind(waiting, timeout: .milliseconds(20), in: account.scope)
            }
            try await eventually { try account.store.notes("abandoned") == ["w: timed-out"] }

            try await account.suspend()
            let before = try account.store.step { try $0.connectedTime(of: account.scope) }
            #expect(before >= .milliseconds(20))
            try await account.store.clockTicks()
            #expect(try account.store.step { try $0.connectedTime(of: account.scope) } == before)
        }
    }
}

extension HandlerStore {
    /// Returns once the monotonic clock shows another time.
    fileprivate func clockTicks() async throws {
        let start = time.monotonic()
        while time.monotonic() < start + .milliseconds(5) { try await Task.sleep(for: .milliseconds(1)) }
    }
}
