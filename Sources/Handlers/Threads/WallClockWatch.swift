import Platform
import Synchronization

/// Notices that the machine's wall clock was set, or that the machine woke: for all stores of the process, by one descriptor on the
/// thread that they share.
///
/// ```text
///   clock is set, machine wakes ──▶ WallClockChange ──▶ turn ──▶ the action of each registration
/// ```
/// It runs while something is registered.
final class WallClockWatch: Sendable {
    static let process = WallClockWatch()

    private struct State {
        var actions: [Int: @Sendable () -> Void] = [:]
        var lastKey = 0
        var running: (loop: any RunningLoop, stop: LoopStop)?
    }

    private let state = Mutex(State())

    /// Runs the action of its registration until it is released.
    final class Registration: Sendable {
        private let watch: WallClockWatch
        private let key: Int

        fileprivate init(_ watch: WallClockWatch, _ key: Int) { (self.watch, self.key) = (watch, key) }

        deinit { watch.remove(key) }
    }

    /// Registers something to run after each change, on the shared thread; it should return soon.
    func add(_ action: @escaping @Sendable () -> Void) throws(HandlerError) -> Registration {
        try state.withLock { (state) throws(HandlerError) in
            if state.running == nil { state.running = try start() }
            state.lastKey += 1
            state.actions[state.lastKey] = action
            return Registration(self, state.lastKey)
        }
    }

    private func remove(_ key: Int) {
        let ended = state.withLock { state -> (loop: any RunningLoop, stop: LoopStop)? in
            state.actions[key] = nil
            guard state.actions.isEmpty else { return nil }
            defer { state.running = nil }
            return state.running
        }
        ended?.stop.raise()
        ended?.loop.join()
    }

    private func start() throws(HandlerError) -> (any RunningLoop, LoopStop) {
        let (change, stop) = (try Self.makeChange(), try LoopStop())
        let loop = try SharedThreads.process.startShared {
            Loop(change, stop) { [weak self] in self?.runActions() }
        }
        return (loop, stop)
    }

    private static func makeChange() throws(HandlerError) -> WallClockChange {
        do throws(Errno) { return try WallClockChange() } catch {
            throw HandlerError(
                .resourcesExhausted,
                "the wall clock cannot be watched (\(error)); raise the process's limit of open files, and let it call timerfd_create"
            )
        }
    }

    private func runActions() {
        // Outside the lock: an action may release the last reference to what holds a registration.
        for action in state.withLock({ Array($0.actions.values) }) { action() }
    }

    private final class Loop: DrivenLoop {
        private let change: WallClockChange
        private let stop: LoopStop
        private let changed: () -> Void

        init(_ change: WallClockChange, _ stop: LoopStop, _ changed: @escaping () -> Void) {
            (self.change, self.stop, self.changed) = (change, stop, changed)
        }

        func turn(_ found: [PollEntry]) -> Pause? {
            if stop.isRaised { return nil }
            if change.take() { changed() }
            return Pause([PollEntry(change.descriptor), PollEntry(stop.descriptor)])
        }
    }
}
