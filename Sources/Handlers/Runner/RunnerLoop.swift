import Platform
import Synchronization

/// The loop that the runners of a store share. It knows when something is due in each scope, and looks at no other scope.
///
/// ```text
///   commit of this process ───▶ mark(scopes) ──╮
///   commit of another process ─▶ survey ───────┼──▶ look at the scopes that are due ──▶ COMMIT ──▶ when to look again
///   clock ─────────────────────────────────────╯
/// ```
/// It lives as long as any runner of the store, and runs while any of them is started.
final class RunnerLoop: DueListener {
    /// The wait after a failure of the store.
    private static let failurePause = Duration.seconds(1)
    /// The interval for checks of old endings and, where nothing reports that it was set, of the wall clock.
    static let longestWait = Duration.seconds(60)
    /// The interval for checks of old endings while nothing waits for a clock.
    private static let housekeepingWait = Duration.seconds(3600)

    struct State {
        /// The started runners, oldest first.
        var started: [HandlerRunner] = []
        /// Those that serve a scope, oldest first.
        var servers: [HandlerScope: [HandlerRunner]] = [:]
        /// The number of runners with which the connected time of a scope counts.
        var connected: [HandlerScope?: Int] = [:]
        /// Runners with a drain that waits for a pass.
        var drained: [HandlerRunner] = []
        /// Runners with failures that could not be stored.
        var unsettled: [HandlerRunner] = []
        /// Calls the turns while a runner is started.
        var running: (any RunningLoop)?
        /// Reports that the wall clock was set.
        var clockWatch: (any AnyObject & Sendable)?
        /// The number of times that the turns were started or ended.
        var generation = 0
        /// When a survey may be made again, by the monotonic clock.
        var nextSurvey = Duration.zero
        /// When handlers may be looked for again that older programs have parked, by the monotonic clock.
        var nextLookAtParked = Duration.zero
    }

    let state = Mutex(State())
    let timetable = Mutex(Timetable())
    /// The rows of the program as a whole that this process has stored, where other machines may call them, too.
    let ownTimes = Mutex(OwnTimes())
    private let passed = Mutex(PassedRows())
    /// Whether rows may wait that no step of this process has written.
    let needsSurvey = Atomic<Bool>(false)
    /// Whether handlers may have places in lanes that no process uses.
    let mayHavePlaces = Atomic<Bool>(false)
    /// Whether handlers that run here may have been ended.
    let areLeasesLost = Atomic<Bool>(false)
    /// Whether the wall clock was set since the last pass.
    let isClockSet = Atomic<Bool>(false)
    /// Ends the pause between two turns.
    let signal: WakeSignal
    /// One look at a time.
    private let looking = Mutex<Void>(())
    // Touched only while `looking` is held.
    private nonisolated(unsafe) var housekeeping = Housekeeping()
    /// The thread that looks.
    private let lookingThread = Atomic<UInt>(0)
    /// The longest rest while something waits for a clock, in milliseconds.
    let longestRest = Atomic<Int64>(RunnerLoop.longestWait.milliseconds)

    /// The slot in which the connected times of the scopes were started.
    private let connectedSlot: Atomic<Int>
    /// Whether other machines call what they have stored.
    private let isShared: Bool

    init(_ time: TimeSource, slot: Int, isShared: Bool = false) throws(HandlerError) {
        signal = try WakeSignal()
        self.isShared = isShared
        connectedSlot = Atomic(slot)
        // Weakly: a clock keeps what it calls for as long as it lives.
        time.onTurn? { [weak signal] in signal?.raise() }
    }

    // MARK: Runners

    /// Starts to call what is due for a runner.
    func start(_ runner: HandlerRunner) throws {
        try state.withLock { state throws(HandlerError) in
            guard !state.started.contains(where: { $0 === runner }) else { return }
            if state.running == nil {
                // A failed start, or a stop inside a step, has left one.
                if state.clockWatch == nil {
                    state.clockWatch = try runner.store.time.onSet? { [weak self] in self?.clockWasSet() }
                }
                state.generation += 1
                state.running = try runner.driver.start("handler runner", blocksSignals: false) {
                    [generation = state.generation] in Turns(self, generation)
                }
            }
            state.started.append(runner)
            for scope in runner.scopes { state.servers[scope, default: []].append(runner) }
        }
        mark(runner.scopes + [nil])
    }

    /// Calls nothing more for a runner. When this returns, no step for it goes on, unless it was called inside one.
    func stop(_ runner: HandlerRunner) {
        let running = state.withLock { state -> (any RunningLoop)? in
            state.drained.removeAll { $0 === runner }
            state.unsettled.removeAll { $0 === runner }
            guard let index = state.started.firstIndex(where: { $0 === runner }) else { return nil }
            state.started.remove(at: index)
            for scope in runner.scopes { Self.remove(runner, from: scope, &state) }
            guard state.started.isEmpty else { return nil }
            state.generation += 1
            defer { state.running = nil }
            return state.running
        }
        // It looks at the clock no longer; those that stay say so again.
        rest(atMost: nil)
        signal.raise()
        if runner.store.isInStep || lookingThread.load(ordering: .relaxed) == ThreadID.current.number {
            return
        }
        looking.withLock { _ in }
        running?.join()
        endClockWatch()
    }

    /// Ends the watch, whose thread may end with it. It is released without the lock.
    private func endClockWatch() {
        _ = state.withLock { state in
            defer { if state.started.isEmpty { state.clockWatch = nil } }
            return state.started.isEmpty ? state.clockWatch : nil
        }
    }

    /// Serves a scope for a started runner.
    func serve(_ scope: HandlerScope, for runner: HandlerRunner) {
        state.withLock { state in
            guard state.started.contains(where: { $0 === runner }) else { return }
            Self.remove(runner, from: scope, &state)
            state.servers[scope, default: []].append(runner)
        }
        mark([scope])
    }

    func stopServing(_ scope: HandlerScope, for runner: HandlerRunner) {
        state.withLock { Self.remove(runner, from: scope, &$0) }
    }

    private static func remove(_ runner: HandlerRunner, from scope: HandlerScope, _ state: inout State) {
        state.servers[scope]?.removeAll { $0 === runner }
        if state.servers[scope]?.isEmpty == true { state.servers[scope] = nil }
    }

    /// The runner that calls what is due in a scope.
    func server(of scope: HandlerScope?) -> HandlerRunner? {
        state.withLock { state in
            scope.map { state.servers[$0] ?? [] } ?? state.started
        }.first { !$0.isFinishing }
    }

    // MARK: Rows that may be due

    /// Requests a look at scopes.
    func mark(_ scopes: [HandlerScope?]) {
        timetable.withLock { timetable in for scope in scopes { timetable.mark(scope) } }
        signal.raise()
    }

    /// Adds the rows that a step has committed.
    func add(_ new: NewDue) {
        if new.isAnywhere { needsSurvey.store(true, ordering: .relaxed) }
        if new.placed > 0 { mayHavePlaces.store(true, ordering: .relaxed) }
        let isAsked = new.isAnywhere || new.isLeaseLost
        if isAsked { areLeasesLost.store(true, ordering: .relaxed) }
        // In a file the look that called a timer has found its next time, too.
        let repeated = isShared ? new.repeated : []
        if isShared {
            ownTimes.withLock { own in
                for time in repeated + [new.times[nil]?.wall].compactMap(\.self) { own.add(time) }
            }
        }
        let isEarlier = timetable.withLock { timetable in
            // Every one is added, whatever the others say.
            let isEarlier = new.times.reduce(isAsked) { timetable.add($1.key, $1.value) || $0 }
            return repeated.reduce(isEarlier) { timetable.add(nil, DueTimes(wall: $1)) || $0 }
        }
        if isEarlier { signal.raise() }
    }

    func lookAtPlaces() {
        mayHavePlaces.store(true, ordering: .relaxed)
        signal.raise()
    }

    /// Adds a runner with a failure to store. One that is not started stores it itself.
    func addUnsettled(_ runner: HandlerRunner) {
        keepUnsettled(runner)
        signal.raise()
    }

    /// Adds it for the next turn, which comes after a pause: the store has just failed.
    func keepUnsettled(_ runner: HandlerRunner) {
        state.withLock { state in
            if state.started.contains(where: { $0 === runner }) { state.unsettled.append(runner) }
        }
    }

    var passedRows: PassedRows { passed.withLock { $0 } }

    /// - Returns: False when it cannot be passed over.
    func pass(over handler: AnyHandlerID) -> Bool { passed.withLock { $0.pass(handler) } }

    // MARK: Connected time

    /// Counts a runner with which the connected time of a scope runs.
    ///
    /// - Returns: Whether it is the first.
    func connect(_ scope: HandlerScope?) -> Bool {
        state.withLock { state in
            state.connected[scope, default: 0] += 1
            return state.connected[scope] == 1
        }
    }

    /// Ends the count of a runner.
    ///
    /// - Returns: Whether it was the last.
    func disconnect(_ scope: HandlerScope?) -> Bool {
        state.withLock { state in
            state.connected[scope, default: 1] -= 1
            guard state.connected[scope] == 0 else { return false }
            state.connected[scope] = nil
            return true
        }
    }

    /// Starts the connected times again, and ends what ran under a lease, when other processes have taken this one for dead.
    func recoverOwnPlace(in store: HandlerStore) throws {
        let old = connectedSlot.load(ordering: .relaxed)
        guard store.isFenced || store.slotNumber != old else { return }
        areLeasesLost.store(true, ordering: .relaxed)
        let scopes = state.withLock { Array($0.connected.keys) }
        let new = try store.step { step in
            for scope in scopes { try step.transaction.connectedTime.start(of: scope) }
            return store.slotNumber
        }
        connectedSlot.store(new, ordering: .relaxed)
    }

    // MARK: Waiting

    /// Makes a pass for a drain; ``endDrain(of:)`` ends it.
    func startDrain(of runner: HandlerRunner) {
        // Before and after: a pass that answers the drain shall have looked everywhere for it.
        mark(runner.scopes + [nil])
        state.withLock { $0.drained.append(runner) }
        mark(runner.scopes + [nil])
    }

    func endDrain(of runner: HandlerRunner) {
        state.withLock { state in
            if let index = state.drained.firstIndex(where: { $0 === runner }) {
                state.drained.remove(at: index)
            }
        }
    }

    /// Makes a pass for drains that wait: an async handler has ended.
    func wakeDrains() { if state.withLock({ !$0.drained.isEmpty }) { signal.raise() } }

    /// Limits the rest while handlers wait for a clock; see ``HandlerRunner/rest(atMost:)``.
    func rest(atMost longest: Duration?) {
        let new = max(Self.longestWait, longest ?? .zero).milliseconds
        if longestRest.exchange(new, ordering: .relaxed) > new { look() }
    }

    /// Returns the interval for counting connected time: longer while the next deadline is far, so that an idle process can
    /// rest.
    func connectedTimeTick(left: Duration) -> Duration {
        let longest = Duration.milliseconds(longestRest.load(ordering: .relaxed))
        return left / 2 > longest ? longest : ConnectedTime.tick
    }

    /// Looks at the wall clock, if something waits for that.
    func look() { if timetable.withLock({ $0.isWaiting }) { signal.raise() } }

    /// Looks at everything that follows the wall clock.
    private func clockWasSet() {
        isClockSet.store(true, ordering: .relaxed)
        signal.raise()
    }

    // MARK: Turns

    /// The turns from the first started runner to the end of the last.
    private final class Turns: DrivenLoop {
        private let loop: RunnerLoop
        private let generation: Int

        init(_ loop: RunnerLoop, _ generation: Int) { (self.loop, self.generation) = (loop, generation) }

        func turn(_ found: [PollEntry]) -> Pause? { loop.turn(generation) }
    }

    private func turn(_ generation: Int) -> Pause? {
        // First: what is raised from here on, by stop() too, ends the next pause.
        signal.clear()
        let (oldest, drained) = state.withLock { state in
            (state.generation == generation ? state.started.first : nil, state.drained)
        }
        guard let oldest else { return nil }
        let asked = drained.map { ($0, $0.drainState) }
        let result = Result {
            try pass(in: oldest.store) { self.state.withLock { $0.generation == generation } }
        }
        var (rest, failure): (Duration?, (any Error)?) = (nil, nil)
        switch result {
        case .success(let value): rest = value
        case .failure(let error):
            oldest.failed(error)
            (rest, failure) = (Self.failurePause, error)
        }
        let isRested = rest != .zero && !needsSurvey.load(ordering: .relaxed)
        for (runner, before) in asked { runner.passed(before, isRested: isRested, failure) }
        return pause(atMost: rest, isFailed: failure != nil, oldest.store.time)
    }

    private func pause(atMost rest: Duration?, isFailed: Bool, _ time: TimeSource) -> Pause {
        let longest =
            rest == nil
            ? Self.housekeepingWait : .milliseconds(longestRest.load(ordering: .relaxed))
        let rest = min(rest ?? longest, longest)
        // A clock that is turned by hand says when it was; its time does not pass while this waits.
        let isTurned = time.onTurn != nil && rest > .zero && !isFailed
        // Rounded up: without a pause the turns would come again and again until the time is over.
        let milliseconds = (rest + .nanoseconds(999_999)).milliseconds
        return Pause([PollEntry(signal.fileDescriptor)], milliseconds: isTurned ? nil : milliseconds)
    }

    /// Runs `body` while nothing else looks.
    func withLooking<R>(_ body: (inout Housekeeping) throws -> R) throws -> R {
        var result: Result<R, any Error>?
        looking.withLock { _ in
            lookingThread.store(ThreadID.current.number, ordering: .relaxed)
            result = Result { try body(&housekeeping) }
            lookingThread.store(0, ordering: .relaxed)
        }
        // The closure above always runs and always assigns.
        return try result!.get()
    }
}
