import HandlersTestKit
import Platform
import Synchronization
import TestThreads
import Testing

@testable import Handlers

/// Stores whose threads and processes are simulated: nothing happens but what the test calls.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct SimulatedPresenceTests {
    /// The processes that have one database open.
    private final class Machine: Sendable {
        struct Slot {
            let aliveByte: Int64
            var isAlive = true
            var isDirty = true
            var runningCall: RunningCall?
            var changed: (@Sendable () -> Void)?
            var deaths: [Int64: @Sendable () -> Void] = [:]
        }

        struct State {
            var slots: [Slot] = []
            var notifications: UInt32 = 0
        }

        let state = Mutex(State())

        /// Kills a process; the others are notified by the kernel.
        func kill(_ slot: Int) {
            let watches = state.withLock { state in
                state.slots[slot].isAlive = false
                let aliveByte = state.slots[slot].aliveByte
                return state.slots.filter(\.isAlive).compactMap { $0.deaths[aliveByte] }
            }
            for watch in watches { watch() }
        }
    }

    private final class Watch: ProcessWatch {
        func cancel() {}
    }

    private final class Presence: ProcessPresence {
        let machine: Machine
        let number: Int
        let narrowedFile: String? = nil
        let fileNumber: Int64? = 1

        init(_ machine: Machine) {
            self.machine = machine
            number = machine.state.withLock { state in
                state.slots.append(Machine.Slot(aliveByte: Int64(state.slots.count + 1)))
                return state.slots.count - 1
            }
        }

        private func change(_ body: (inout Machine.Slot) -> Void) {
            machine.state.withLock { body(&$0.slots[number]) }
        }

        func record(_ runningCall: RunningCall) { change { $0.runningCall = runningCall } }
        func clearRunningCall() { change { $0.runningCall = nil } }
        func leave() { change { ($0.isAlive, $0.isDirty, $0.runningCall) = (false, false, nil) } }

        func notifyOthers() {
            let others = machine.state.withLock { state in
                state.notifications &+= 1
                return state.slots.indices.filter { $0 != number }.compactMap { state.slots[$0].changed }
            }
            for changed in others { changed() }
        }

        var countOfOthers: UInt32 { machine.state.withLock { $0.notifications } }

        func recoverDead<E>(_ body: (Int, RunningCall?) throws(E) -> Void) throws(E) {
            let slots = machine.state.withLock { $0.slots }
            for (slot, found) in slots.enumerated() where !found.isAlive && found.isDirty {
                try body(slot, found.runningCall)
                machine.state.withLock { $0.slots[slot].isDirty = false }
            }
        }

        func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E) {
            if machine.state.withLock({ !$0.slots[slot].isAlive && !$0.slots[slot].isDirty }) { try body() }
        }

        func isSeenOtherwise(than inode: Int64) -> Bool { false }
        var aliveBytes: [Int64] {
            machine.state.withLock { state in
                state.slots.enumerated().filter { $0.offset != number && $0.element.isAlive }
                    .map(\.element.aliveByte)
            }
        }

        func watch(
            aliveByte: Int64, ended: @escaping @Sendable () -> Void
        ) throws(HandlerError) -> any ProcessWatch {
            change { $0.deaths[aliveByte] = ended }
            return Watch()
        }

        func watchChanges(
            _ changed: @escaping @Sendable () -> Void
        ) throws(HandlerError) -> any ProcessWatch {
            change { $0.changed = changed }
            return Watch()
        }
    }

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
        try await withReleasedFolder { folder in
            let machine = Machine()
            let clock = VirtualClock()
            func open(_ driver: ByHand) throws -> (HandlerStore, HandlerRunner) {
                let store = try HandlerStore(
                    path: folder.file(), registry: HandlerRegistry([Slow.self]), schemas: [], role: .main,
                    synchronous: .normal, busyTimeout: 5000, time: clock.timeSource, log: nil,
                    system: SystemServices(driver: driver, presence: { _, _ in Presence(machine) }))
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
            machine.kill(0)
            #expect(second.isWoken, "a death wakes the runner")
            second.turn()
            clock.advance(by: .seconds(3600))
            second.turn()
            while Slow.visits.withLock({ $0.count }) < 2 { await Task.yield() }
            for visit in Slow.visits.withLock({ $0 }) { visit.resume() }
            while try other.ending(of: id) == nil {
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
