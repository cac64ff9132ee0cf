import Foundation
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// Lets a test stand between the start and the end of an async handler.
private final class Bench: Sendable {
    struct Visit: Sendable {
        let call: AsyncCall<Order>
        let go: CheckedContinuation<Void, any Error>
    }
    private let visits: AsyncStream<Visit>
    private let arrive: AsyncStream<Visit>.Continuation
    init() { (visits, arrive) = AsyncStream.makeStream() }
    func enter(_ call: AsyncCall<Order>) async throws {
        try await withCheckedThrowingContinuation { arrive.yield(Visit(call: call, go: $0)) }
    }
    func next() async -> Visit {
        var iterator = visits.makeAsyncIterator()
        // The stream never ends.
        return await iterator.next()!
    }
}

private struct Order: RestorableContext {
    let bench: Bench
    var environment: (any HandlerEnvironment)? { Place(bench: bench) }
    init(_ bench: Bench) { self.bench = bench }
    static let storage = ContextStorage<Order>(encode: { _ in [] }, decode: Order.init(restoring:in:))
    init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        guard let place = environment as? Place else { throw Failure() }
        bench = place.bench
    }
}

private struct Place: HandlerEnvironment {
    let bench: Bench
    var scope: HandlerScope { HandlerScope("bench") }
}

private struct Slow: AsyncHandler {
    static let id = "lease.slow"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
    func run(_ call: AsyncCall<Order>) async throws { try await call.bench.enter(call) }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct LeaseTests {
    private func withBench(
        _ body: (HandlerStore, HandlerRunner, Bench, HandlerID<Order>) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Slow.self, Gone.self])
            let bench = Bench()
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            try runner.attach(Place(bench: bench))
            try runner.start()
            let id = try store.bind(Slow().durable, orElse: Gone(name: "s").durable)
            #expect(try store.step { try $0.end(id, .result, with: Order(bench)) } == .queued)
            try await body(store, runner, bench, id)
        }
    }

    @Test(
        "H14 a closing step commits effects and ending together; a second one is refused and writes nothing")
    func endsOnce() async throws {
        try await withBench { store, _, bench, id in
            let visit = await bench.next()
            #expect(try store.step { try $0.status(of: id)?.state } == .running)
            #expect(throws: Failure.self) {
                try visit.call.end { step in
                    try step.note("undone")
                    throw Failure()
                }
            }
            try visit.call.end { try $0.note("done") }
            let again = error { try visit.call.end { try $0.note("again") } }
            #expect(again?.code == .leaseLost)
            visit.go.resume(throwing: Failure())
            #expect(try store.notes() == ["done"])
            #expect(try store.keptEnding(of: id)?.outcome == .result)
        }
    }

    @Test("H14 a handler that was invalidated while it ran cannot end any more")
    func invalidated() async throws {
        try await withBench { store, _, bench, id in
            let visit = await bench.next()
            let disposition = try store.step { try $0.invalidate(id, reason: .cancelled) }
            #expect(disposition == .ended)
            let late = error { try visit.call.end { try $0.note("late") } }
            #expect(late?.code == .leaseLost)
            visit.go.resume()
            #expect(try store.notes() == ["s gone: lease.slow cancelled"])
        }
    }

    @Test(
        "H14 each attempt is counted before it runs and has the same idempotency key; the last failure is the end"
    )
    func attempts() async throws {
        try await withBench { store, runner, bench, id in
            var keys: Set<String> = []
            for attempt in 1...3 {
                let visit = await bench.next()
                #expect(visit.call.attempt == attempt)
                #expect(try store.step { try $0.status(of: id)?.attempts } == attempt)
                keys.insert(visit.call.idempotencyKey)
                visit.go.resume(throwing: Failure())
            }
            #expect(keys.count == 1 && keys.first?.contains("-\(id)-") == true)
            let isDrained = try await runner.drain(for: .seconds(60))
            #expect(isDrained)
            #expect(try store.step { try $0.status(of: id)?.state } == .quarantined)
        }
    }

    @Test("H30 a runner that closes finishing waits for what runs, and calls nothing new")
    func finishing() async throws {
        try await withBench { store, runner, bench, id in
            let visit = await bench.next()
            let closing = Task { await runner.close(finishing: .seconds(60)) }
            let own = runner.id
            while runner.loop.withMachine({ $0.runners[own]?.isFinishing }) == false { await Task.yield() }
            let late = try store.bind(Slow().durable)
            #expect(try store.step { try $0.end(late, .result, with: Order(bench)) } == .queued)
            let timer = try store.step {
                try $0.bind(Gone(name: "late").durable, timeout: nil, deadline: Timestamp(milliseconds: 0))
            }
            #expect(try runner.runDue() == nil)
            try visit.call.end { try $0.note("done") }
            visit.go.resume()
            #expect(await closing.value)
            #expect(try store.notes() == ["done"])
            #expect(try store.keptEnding(of: id)?.outcome == .result)
            for left in [AnyHandlerID(late), AnyHandlerID(timer)] {
                let status = try #require(try store.step { try $0.status(of: left) })
                #expect(status.state == .pending && status.attempts == 0)
            }
            #expect(code { try runner.start() } == .runnerClosed)
        }
    }

    @Test("H30 a runner that closes finishing cancels what runs for longer, and gives it back")
    func finishingTooLate() async throws {
        try await withBench { store, runner, bench, id in
            let visit = await bench.next()
            let isDone = await runner.close(finishing: .milliseconds(1))
            #expect(!isDone)
            let status = try #require(try store.step { try $0.status(of: id) })
            #expect(status.state == .pending && status.attempts == 0)
            let late = error { try visit.call.end { _ in } }
            #expect(late?.code == .leaseLost)
            visit.go.resume()
        }
    }

    /// Lets the store fail where a handler's failure is stored.
    private func refuseFailures(_ store: HandlerStore) {
        store.refuseRows(with: .storageFailed) { _, values in values.contains(.text("failed")) }
    }

    @Test(
        "H30 a runner without a thread that closes finishing quarantines what failed while the store did, without waiting",
        .sqliteOnly
    )
    func finishingUnsettled() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Slow.self, Gone.self])
            let bench = Bench()
            for isMended in [true, false] {
                let runner = try HandlerRunner(store)
                try runner.attach(Place(bench: bench))
                let id = try store.bind(Slow().durable)
                #expect(try store.step { try $0.end(id, .result, with: Order(bench)) } == .queued)
                try runner.runDue()
                let visit = await bench.next()
                refuseFailures(store)
                visit.go.resume(throwing: Failure(description: "failed"))
                while runner.state.withLock({ $0.unsettled.isEmpty }) { await Task.yield() }
                if isMended { store.refuseRows(nil) }
                // Time enough to fail this test by its limit.
                #expect(await runner.close(finishing: .seconds(3600)) == isMended)
                let status = try #require(try store.step { try $0.status(of: id) })
                #expect(status.state == .pending && status.attempts == (isMended ? 1 : 0))
                if isMended { try store.step { _ = try $0.execute("DELETE FROM handler") } }
            }
        }
    }

    @Test(
        "H30 what failed while the store did is tried again after a second, and not at once again and again",
        .sqliteOnly)
    func unsettledPause() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Slow.self, Gone.self])
            let bench = Bench()
            let failures = Kept<[ContinuousClock.Instant]>([])
            let runner = try HandlerRunner(
                store, .init { _ in failures.withLock { $0.append(.now) } })
            defer { runner.close() }
            try runner.attach(Place(bench: bench))
            let id = try store.bind(Slow().durable)
            #expect(try store.step { try $0.end(id, .result, with: Order(bench)) } == .queued)
            try runner.start()
            let visit = await bench.next()
            refuseFailures(store)
            visit.go.resume(throwing: Failure(description: "failed"))
            // The first ones may be those of the handler and of the attempt to store that.
            try await eventually("the runner has tried again and again") {
                failures.withLock { $0.count >= 5 }
            }
            let times = failures.withLock { $0 }
            #expect(times[4] - times[0] >= .seconds(1), "\(times)")
            store.refuseRows(nil)
            try await eventually("it is stored") {
                try store.step { try $0.status(of: id) }?.attempts == 1
            }
        }
    }

    @Test(
        "H14 closing the runner gives a handler back uncounted; the one who ran it cannot end it, the next one does"
    )
    func givenBack() async throws {
        try await withBench { store, runner, bench, id in
            let visit = await bench.next()
            runner.close()
            let status = try #require(try store.step { try $0.status(of: id) })
            #expect(status.state == .pending && status.attempts == 0)
            let next = try HandlerRunner(store)
            defer { next.close() }
            try next.attach(Place(bench: bench))
            try next.start()
            let second = await bench.next()
            #expect(second.call.attempt == 1)
            #expect(error { try visit.call.end { try $0.note("stale") } }?.code == .leaseLost)
            visit.go.resume()
            try second.call.end { try $0.note("fresh") }
            second.go.resume()
            #expect(try store.notes() == ["fresh"])
        }
    }
}
