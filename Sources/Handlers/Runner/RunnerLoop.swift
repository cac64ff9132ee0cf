import Platform
import Synchronization

/// The loop of the runners that a store shares: it performs what its ``RunnerMachine`` decides.
///
/// ```text
///   commit of this process ────▶ machine ──╮
///   commit of another process ─▶ machine ──┼──▶ turn ──▶ actions ──▶ COMMIT ──▶ when to look again
///   clock ─────────────────────────────────╯
/// ```
/// It lives as long as any runner of the store, and runs while any of them is started.
final class RunnerLoop: DueListener {
    struct State {
        var machine: RunnerMachine
        /// The started runners.
        var started: [RunnerMachine.RunnerID: HandlerRunner] = [:]
        /// Calls the turns while a runner is started.
        var running: (any RunningLoop)?
        /// Reports that the wall clock was set.
        var clockWatch: (any AnyObject & Sendable)?
    }

    let state: Mutex<State>
    /// Ends the pause between two turns.
    let signal: WakeSignal
    /// One action at a time.
    private let looking = Mutex<Void>(())
    /// The thread of the action.
    private let lookingThread = Atomic<UInt>(0)
    /// The slot in which the connected times of the scopes were started. Touched only while `looking` is held.
    nonisolated(unsafe) var connectedSlot: Int

    init(_ time: TimeSource, slot: Int, _ traits: RunnerMachine.Traits) throws(HandlerError) {
        signal = try WakeSignal()
        state = Mutex(State(machine: RunnerMachine(traits)))
        connectedSlot = slot
        // Weakly: a clock keeps what it calls for as long as it lives.
        time.onTurn? { [weak signal] in signal?.raise() }
    }

    func withMachine<R>(_ body: (inout RunnerMachine) throws -> sending R) rethrows -> sending R {
        try state.withLock { try body(&$0.machine) }
    }

    func handle(_ input: RunnerMachine.Input) {
        if withMachine({ $0.handle(input) }) { signal.raise() }
    }

    func add(_ new: NewDue) { handle(.committed(new)) }

    func lookAtPlaces() { handle(.placesGiven) }

    // MARK: Runners

    /// Starts to call what is due for a runner.
    func start(_ runner: HandlerRunner) throws {
        try state.withLock { state throws(HandlerError) in
            guard state.started[runner.id] == nil else { return }
            if state.running == nil {
                // A failed start, or a stop inside a step, has left one.
                if state.clockWatch == nil {
                    state.clockWatch = try runner.store.time.onSet? { [weak self] in self?.handle(.clockSet) }
                }
                let turns = state.machine.startTurns()
                state.running = try runner.driver.start("handler runner", blocksSignals: false) {
                    Turns(self, turns)
                }
            }
            state.started[runner.id] = runner
            _ = state.machine.handle(.started(runner.id))
        }
        signal.raise()
    }

    /// Calls nothing more for a runner. When this returns, no step for it goes on, unless it was called inside one.
    func stop(_ runner: HandlerRunner) {
        let running = state.withLock { state -> (any RunningLoop)? in
            let isLast = state.started.removeValue(forKey: runner.id) != nil && state.started.isEmpty
            _ = state.machine.handle(.stopped(runner.id))
            defer { if isLast { state.running = nil } }
            return isLast ? state.running : nil
        }
        signal.raise()
        if runner.store.isInStep || lookingThread.load(ordering: .relaxed) == ThreadID.current.number {
            return
        }
        looking.withLock { _ in }
        running?.join()
        endClockWatch()
    }

    /// Ends the watch, whose thread may end with it.
    private func endClockWatch() {
        let watch = state.withLock { state -> (any AnyObject & Sendable)? in
            guard state.started.isEmpty else { return nil }
            defer { state.clockWatch = nil }
            return state.clockWatch
        }
        // It is released here and not with the lock held: it waits for its thread, which may wait for the lock.
        withExtendedLifetime(watch) {}
    }

    // MARK: Turns

    /// The turns from the first started runner to the end of the last.
    private final class Turns: DrivenLoop {
        private let loop: RunnerLoop
        private let turns: Int

        init(_ loop: RunnerLoop, _ turns: Int) { (self.loop, self.turns) = (loop, turns) }

        func turn(_ found: [PollEntry]) -> Pause? { loop.turn(turns) }
    }

    private func turn(_ turns: Int) -> Pause? {
        // First: what is raised from here on, by stop() too, ends the next pause.
        signal.clear()
        let (begun, oldest) = state.withLock { state in
            (state.machine.startTurn(turns), state.machine.started.first.flatMap { state.started[$0] })
        }
        guard var pass = begun, let oldest else { return nil }
        var (rest, isFailed): (Duration?, Bool) = (nil, false)
        do {
            rest = try run(&pass, in: oldest.store, for: nil)
        } catch {
            oldest.failed(error)
            isFailed = true
        }
        let (wait, served) = state.withLock { [pass] state in
            (state.machine.endTurn(pass, rest: rest), pass.drains.compactMap { state.started[$0.runner] })
        }
        for runner in served { runner.passes.announce() }
        let time = oldest.store.time
        // A clock that is turned by hand says when it was; its time does not pass while this waits.
        let isTurned = time.onTurn != nil && wait > .zero && !isFailed
        // Rounded up: without a pause the turns would come again and again until the time is over.
        let milliseconds = (wait + .nanoseconds(999_999)).milliseconds
        return Pause([PollEntry(signal.fileDescriptor)], milliseconds: isTurned ? nil : milliseconds)
    }

    /// Makes a pass for a runner that need not be started.
    ///
    /// - Returns: The time until the next pass, 0 when more is due; nil when nothing is.
    func pass(for runner: HandlerRunner) throws -> Duration? {
        var pass = withMachine { $0.startPass(of: runner.id) }
        return try run(&pass, in: runner.store, for: runner)
    }

    /// Performs the actions of a pass.
    ///
    /// - Parameter runner: The one that makes it; nil for all that are started.
    /// - Returns: The time until the next pass, 0 when more is due; nil when nothing is.
    private func run(
        _ pass: inout RunnerMachine.Pass, in store: HandlerStore, for runner: HandlerRunner?
    ) throws -> Duration? {
        while true {
            if let end = withLooking({ perform(&pass, in: store, for: runner) }) { return try end.get() }
        }
    }

    /// Performs the next action.
    ///
    /// - Returns: The end of the pass; nil when it goes on.
    private func perform(
        _ pass: inout RunnerMachine.Pass, in store: HandlerStore, for runner: HandlerRunner?
    ) -> Result<Duration?, any Error>? {
        let action = state.withLock { $0.machine.next(&pass, now(of: store)) }
        switch action {
        case .rest(let rest): return .success(rest)
        case .fail(let error): return .failure(error)
        default: break
        }
        let outcome: RunnerMachine.Outcome
        do {
            outcome = try perform(action, in: store, for: runner)
        } catch {
            outcome = .failed(error)
        }
        state.withLock { $0.machine.ended(action, outcome, &pass, now(of: store)) }
        return nil
    }

    private func now(of store: HandlerStore) -> RunnerMachine.Now {
        .init(wall: store.time.wall(), monotonic: store.time.monotonic())
    }

    /// Runs `body` while nothing else looks.
    func withLooking<R>(_ body: () throws -> R) rethrows -> R {
        try looking.withLock { _ in
            lookingThread.store(ThreadID.current.number, ordering: .relaxed)
            defer { lookingThread.store(0, ordering: .relaxed) }
            return try body()
        }
    }
}
