import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

extension ErrorCode<CallError> {
    fileprivate static var declined: Self { Self(rawValue: "declined") }
}

/// Fails with an error that says what it is, and whether another attempt is worth it.
private struct Decline: Handler {
    static let id = "error.decline"
    static let retry = RetryPolicy(
        attempts: 3, firstDelay: .seconds(1), longestDelay: .seconds(60), finally: .orElse)
    enum Advice: String, Codable { case never, later, muchLater }
    var advice: Advice
    func run(_ call: borrowing Call<TimerFired>) throws {
        attempts.withLock { $0.append(call.step.now) }
        let retry: CallError.Retry =
            switch advice {
            case .never: .never
            case .later: .after(.seconds(30))
            case .muchLater: .after(.seconds(3600))
            }
        throw CallError(.declined, "card 4711 is stolen", retry: retry)
    }
}

private let hasMourned = Atomic(false)
private let attempts = Mutex<[Timestamp]>([])

/// Fails with an error without a code, and waits for a repair.
private struct Broken: Handler {
    static let id = "error.broken"
    static let retry = RetryPolicy.never
    func run(_ call: borrowing Call<TimerFired>) throws { throw Unreachable() }
}

/// Returns what cannot be stored.
private struct TooMuch: AsyncHandler {
    static let id = "error.too-much"
    static let retry = RetryPolicy(finally: .orElse)
    func run(_ call: AsyncCall<TimerFired>) async throws {
        try call.end(result: String(repeating: "x", count: 70_000))
    }
}

/// Writes the error with which another handler failed, when it is called for the second time.
private struct Mourn: Handler {
    static let id = "error.mourn"
    func run(_ call: borrowing Call<Invalidation>) throws {
        if !hasMourned.exchange(true, ordering: .relaxed) { throw Unreachable() }
        try call.step.note("\(call.handler): \(call.error.map { "\($0.code), \($0)" } ?? "none")")
    }
}

private struct Fails: Workflow {
    static let id = "error.fails"
    func run(_ flow: Flow) async throws -> Int {
        try await flow.compensate(with: Refund(order: 7).durable)
        throw CallError(.declined, "nobody answered")
    }
}

private struct Asks: Workflow {
    static let id = "error.asks"
    func run(_ flow: Flow) async throws -> [String] {
        var said: [String] = []
        do { try await flow.run(Decline(advice: .never).durable) } catch let error as CallError {
            said.append("\(error.code): \(error)")
        }
        do { said.append("\(try await flow.run(Fails().durable, as: Int.self))") } catch let error
            as CallError
            where error.code == .declined
        { said.append("\(error)") }
        let children = try await flow.all([Decline(advice: .never).durable, TooMuch().durable])
        return said + children.map { $0.error?.code.rawValue ?? "none" }
    }
}

@Suite(.ownThread, .serialized) struct CallErrorTests {
    private static let handlers: [any DurableHandler.Type] = [
        Decline.self, Broken.self, TooMuch.self, Mourn.self, Fails.self, Asks.self,
    ]

    @Test("H37 the error of a workflow is kept with its ending, and reaches all who wait for it")
    func workflow() async throws {
        let failures = Mutex<[HandlerFailure]>([])
        try await Bank.withShop(Self.handlers) { error in
            if let failure = error as? HandlerFailure { failures.withLock { $0.append(failure) } }
        } _: { test in
            let id = try test.store.step { try $0.start(Fails().durable) }
            try await test.runDue()
            #expect(try test.notes() == ["refund 7: declined, nobody answered"])
            let ending = try #require(try test.store.read { try $0.ending(of: id) })
            #expect(ending.error == CallError(.declined, "nobody answered"))
            #expect(
                "\(ending)"
                    == "the handler \(id) ('error.fails') ended with 'invalidated' (failed): nobody answered")
            await #expect(throws: CallError(.declined, "nobody answered")) {
                try await test.store.value(of: id, as: Int.self)
            }
            let failure = try #require(failures.withLock { $0 }.first)
            #expect(
                (failure.name, failure.error, failure.code, failure.isInvalidated) == (
                    "error.fails", "nobody answered", .declined, true
                ))
        }
    }

    @Test("H37 a workflow gets the errors of the handlers that it runs by their codes")
    func children() async throws {
        try await Bank.withShop(Self.handlers) { test in
            let id = try test.store.step { try $0.start(Asks().durable) }
            try await test.advance(by: .seconds(10))
            #expect(
                try await test.store.value(of: id, as: [String].self) == [
                    "declined: card 4711 is stolen", "nobody answered", "declined", "argument-not-encodable",
                ])
        }
    }

    @Test(
        "H37 an error says that its handler is not tried again, or when, as far as the policy allows",
        arguments: [
            (Decline.Advice.never, [0]), (.later, [0, 30, 60]), (.muchLater, [0, 60, 120]),
        ])
    private func retries(advice: Decline.Advice, seconds: [Int64]) async throws {
        attempts.withLock { $0 = [] }
        try await Bank.withShop(Self.handlers) { test in
            let start = test.clock.wall
            let id = try test.store.step { try $0.schedule(Decline(advice: advice).durable, after: .zero) }
            try await test.advance(by: .seconds(600))
            #expect(attempts.withLock { $0 }.map { ($0 - start).components.seconds } == seconds)
            #expect(try test.store.read { try $0.ending(of: id) }?.error?.code == .declined)
        }
    }

    @Test(
        "H37 the invalidation handler of a failed handler gets its error, also at a later attempt and after a restart"
    )
    func orElse() async throws {
        try await Bank.withShop(Self.handlers) { test in
            try test.store.step { step in
                _ = try step.schedule(TooMuch().durable.orElse(Mourn().durable), after: .zero)
            }
            try await test.runDue()
            #expect(try test.notes().isEmpty)
            try test.restart()
            try await test.advance(by: .seconds(10))
            let note = try #require(try test.notes().first)
            #expect(
                note.hasPrefix("error.too-much: argument-not-encodable, the result of a handler has 70"),
                "\(note)")
        }
    }

    @Test("H37 a quarantined handler that is discarded or invalidated keeps its error")
    func quarantined() async throws {
        try await Bank.withShop(Self.handlers) { test in
            let ids = try test.store.step { step in
                try (0..<2).map { _ in try step.schedule(Broken().durable, after: .zero) }
            }
            try await test.runDue()
            try test.store.step { step in
                try step.discard(ids[0])
                try step.invalidate(ids[1], reason: .cancelled)
            }
            for id in ids {
                let ending = try #require(try test.store.read { try $0.ending(of: id) })
                #expect(ending.error == CallError(.failed, "the bank cannot be reached"))
            }
        }
    }
}
