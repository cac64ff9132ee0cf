import HandlersTestKit
import Platform
import Synchronization
import TestThreads
import TestSupport
import Testing
import World

@testable import Handlers

/// Stores whose threads and processes are simulated: nothing happens but what the test calls.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct SimulatedPresenceTests {
    /// Keeps the loops, whose turns the test calls.
    private final class ByHand: LoopDriver {
        /// `@unchecked Sendable`: used on the test's thread alone.
        final class Running: RunningLoop, @unchecked Sendable {
            let loop: any DrivenLoop
            var pause: Pause?
            init(_ loop: any DrivenLoop) { self.loop = loop }
            func join() {}
            /// Whether the pause would end at once.
            var isWoken: Bool {
                pause?.entries.contains { PollEntry.waitReadable($0.descriptor, milliseconds: 0) } == true
            }
        }

        let loops = Mutex<[Running]>([])

        func start(
            _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
        ) throws(HandlerError) -> any RunningLoop {
            let running = Running(make())
            loops.withLock { $0.append(running) }
            return running
        }

        func turn() { for running in loops.withLock({ $0 }) { running.pause = running.loop.turn([]) } }
        var isWoken: Bool { loops.withLock { $0 }.contains { $0.isWoken } }
    }

    private struct Slow: AsyncHandler {
        static let id = "presence.slow"
        static let visits = Mutex<[CheckedContinuation<Void, any Error>]>([])
        func run(_ call: AsyncCall<TimerFired>) async throws {
            try await withCheckedThrowingContinuation { visit in Self.visits.withLock { $0.append(visit) } }
        }
    }

    @Test("Z1 Z4 a death in a simulated machine frees its lease; the other process runs the handler")
    func death() async throws {
        try await withFolder { folder in
            let machine = SimulatedMachine()
            let clock = VirtualClock()
            func open(_ driver: ByHand) throws -> (HandlerStore, HandlerRunner) {
                let store = try HandlerStore(
                    path: folder.file(), registry: HandlerRegistry([Slow.self]), schemas: [], role: .main,
                    synchronous: .normal, busyTimeout: .seconds(5), time: clock.timeSource, log: nil,
                    system: SystemServices(driver: driver, presence: machine.presence))
                let runner = try HandlerRunner(store)
                try runner.start()
                return (store, runner)
            }
            let (first, second) = (ByHand(), ByHand())
            let (store, runner) = try open(first)
            let (other, otherRunner) = try open(second)
            let id = try store.step { try $0.schedule(Slow().durable, after: .seconds(60)) }
            first.turn()
            second.turn()
            #expect(try store.step { try $0.status(of: id)?.state } == .pending)

            clock.advance(by: .seconds(60))
            first.turn()
            second.turn()
            while Slow.visits.withLock({ $0.count }) < 1 { await Task.yield() }
            #expect(try other.step { try $0.status(of: id)?.state } == .running)

            second.turn()
            #expect(!second.isWoken)
            machine.kill(slot: 0)
            #expect(second.isWoken, "a death wakes the runner")
            second.turn()
            clock.advance(by: .seconds(3600))
            second.turn()
            while Slow.visits.withLock({ $0.count }) < 2 { await Task.yield() }
            for visit in Slow.visits.withLock({ $0 }) { visit.resume() }
            while try other.keptEnding(of: id) == nil {
                second.turn()
                await Task.yield()
            }
            runner.close()
            otherRunner.close()
            // A driver keeps its loops, and they keep the store with its driver.
            for driver in [first, second] { driver.loops.withLock { $0 = [] } }
        }
    }
}
