import Handlers
import Platform

/// Runs the turns of a process's loops in the order that the world's schedule chooses.
///
/// `@unchecked Sendable`: one thread uses it.
final class WorldDriver: LoopDriver, @unchecked Sendable {
    /// A loop between two turns.
    final class Run: RunningLoop, @unchecked Sendable {
        let name: String
        /// Makes the loop at its first turn. It is nil afterwards, because it keeps objects that keep this driver.
        private var make: (@Sendable () -> any DrivenLoop)?
        private var loop: (any DrivenLoop)?
        private var pause: Pause?
        /// The end of the pause, in nanoseconds; nil for no limit.
        private(set) var deadline: Int64?
        private(set) var isOver = false
        /// Whether a turn is running.
        private(set) var isTurning = false
        private unowned let driver: WorldDriver

        init(_ name: String, _ driver: WorldDriver, _ make: @escaping @Sendable () -> any DrivenLoop) {
            (self.name, self.driver, self.make) = (name, driver, make)
        }

        /// Whether a turn can start.
        func isReady(_ now: Int64) -> Bool {
            if isOver || isTurning { return false }
            guard var pause else { return true }
            if let deadline, deadline <= now { return true }
            find(&pause)
            return pause.entries.contains(where: \.isReady)
        }

        private func find(_ pause: inout Pause) {
            var hasSystems = false
            for index in pause.entries.indices {
                let entry = pause.entries[index]
                if entry.descriptor >= SimulatedStream.firstDescriptor {
                    pause.entries[index].set(found: driver.events(entry.descriptor))
                } else if entry.descriptor >= 0 {
                    hasSystems = true
                }
            }
            guard hasSystems else { return }
            for index in pause.entries.indices
            where pause.entries[index].descriptor < SimulatedStream.firstDescriptor {
                var one = [pause.entries[index]]
                _ = try? PollEntry.wait(&one, milliseconds: 0)
                pause.entries[index] = one[0]
            }
        }

        /// Runs one turn.
        func turn(_ now: Int64) {
            var found = pause
            if found != nil { find(&found!) }
            isTurning = true
            if let make {
                loop = make()
                self.make = nil
            }
            pause = loop?.turn(found?.entries ?? [])
            isTurning = false
            deadline = pause?.milliseconds.map { driver.now() + max(0, $0) * 1_000_000 }
            if pause == nil {
                isOver = true
                loop = nil
            }
        }

        func join() {
            if isTurning { return }
            driver.join(self)
        }
    }

    private(set) var runs: [Run] = []
    private let now: () -> Int64
    private let events: (Int32) -> PollEvents
    /// Runs the world until a loop is over.
    private let wait: (Run) -> Void

    init(
        now: @escaping () -> Int64, events: @escaping (Int32) -> PollEvents, wait: @escaping (Run) -> Void
    ) {
        (self.now, self.events, self.wait) = (now, events, wait)
    }

    func start(
        _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop {
        runs.removeAll(where: \.isOver)
        let run = Run(name, self, make)
        runs.append(run)
        return run
    }

    private func join(_ run: Run) { if !run.isOver { wait(run) } }

    /// The earliest deadline of the loops' pauses.
    var nextDeadline: Int64? { runs.filter { !$0.isOver }.compactMap(\.deadline).min() }
}
