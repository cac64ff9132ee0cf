package import Platform
import Synchronization

/// Calls the handlers of a store whose time has come: timers, deadlines, retries, and those that could not run where
/// they were called, such as every ``AsyncHandler``.
///
/// ```text
///   due row ──▶ step: call it, expire it, or lease it ──▶ COMMIT ──▶ async handlers run ──▶ closing step
///      ▲                                                                    │
///      └── retry, next period ◀── set aside ◀───────────────────────────────┘ throws, or its process dies
/// ```
/// A program has one for each store, a worker too. Several processes may run one at the same time: each row is called
/// by one of them.
///
/// ```swift
/// let runner = try HandlerRunner(store)
/// try runner.start()                          // in a program that stays
/// try await runner.drain(for: .seconds(25))   // in a worker that has half a minute
/// ```
public final class HandlerRunner: Sendable, DrivenLoop {
    /// The maximum number of rows in one step: a commit for each would be slow, and too many would hold up other steps.
    static let batchLimit = 64
    /// The number of endings that one step checks when it removes old ones.
    static let pruneLimit = 500
    /// The wait after a failure of the store.
    static let failurePause = Duration.seconds(1)
    /// The interval for checks of old endings and of the wall clock, which may have been set.
    static let longestWait = Duration.seconds(60)
    /// The interval for checks of old endings while nothing waits for the clock.
    static let housekeepingWait = Duration.seconds(3600)

    struct State {
        var environments: [HandlerScope: any HandlerEnvironment] = [:]
        /// By the lease and not by its row: one that is over may be leased again before its task has gone.
        var leases: [ObjectIdentifier: (lease: Lease, task: Task<Void, Never>)] = [:]
        /// The number of async handlers that have run here, whatever their outcome.
        var leasesEnded = 0
        /// Async handlers that failed when the store did, too: their rows wait to be quarantined.
        var unsettled: [Unsettled] = []
        /// The scopes whose connected time counts while this runner runs; nil means the program as a whole.
        var living: Set<HandlerScope?> = []
        var isRunning = false
        /// The loop that calls it, once it was started.
        var loop: (any RunningLoop)?
        /// The number of drains that requested a pass, and the last of them that a pass has served.
        var asked = 0
        var answered = 0
        /// Whether the last pass left nothing to do.
        var isIdle = false
        /// The error of the last pass.
        var failure: (any Error)?
        /// The maximum rest while handlers wait for the clock.
        var longestRest = longestWait
        /// Whether something does.
        var isWaitingForClock = false
        /// Whether nothing more is called, because the runner is about to be closed.
        var isFinishing = false
        var isClosed = false
    }

    let store: HandlerStore
    let state = Mutex(State())
    /// One pass at a time.
    let passing = Mutex(Passing())
    let signal: WakeSignal
    /// Reports finished passes.
    let passes = News()
    private let leaseLimit: Int
    let keepEndings: Duration
    private let onFailure: @Sendable (any Error) -> Void

    /// The state that passes keep from one to the next.
    struct Passing {
        /// After which ending the search for old ones goes on; nil before it begins.
        var pruned: AnyHandlerID?
        /// When old endings were last removed, by the monotonic clock.
        var prunedAt: Duration?
        /// When calls that a wrong wall clock had put off were last looked for, by the monotonic clock.
        var hastenedAt: Duration?
    }

    /// Makes a runner, which does nothing until it is started or drained.
    ///
    /// - Parameters:
    ///   - store: The store whose handlers it calls.
    ///   - configuration: How it works.
    /// - Throws: ``HandlerError`` `resourcesExhausted` when the process has no file descriptor left.
    public init(_ store: HandlerStore, _ configuration: Configuration = .init()) throws(HandlerError) {
        self.store = store
        leaseLimit = max(1, configuration.leases)
        keepEndings = max(.zero, configuration.keepEndings)
        onFailure = configuration.onFailure
        signal = try WakeSignal()
        // Weakly: a clock keeps what it calls for as long as it lives.
        let wake: @Sendable () -> Void = { [weak signal] in signal?.raise() }
        store.listeners.addRunner(
            self,
            RunnerHooks(
                wake: wake, serves: { [weak self] in self?.serves($0) ?? false },
                failed: configuration.onFailure))
        store.time.onTurn?(wake)
    }

    deinit { store.listeners.removeRunner(self) }

    // MARK: What it serves

    /// Serves the handlers of a scope in this process: their contexts are made with `environment`.
    ///
    /// Rows of a scope that nothing serves wait for a process in which something does.
    ///
    /// - Parameters:
    ///   - environment: The object that serves ``HandlerEnvironment/scope``; it replaces an earlier one.
    ///   - isConnected: Whether the scope's connected time runs while this runner does. An account, which lives while it is
    ///     connected, passes false and calls ``setConnected(_:in:)``.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func attach(_ environment: any HandlerEnvironment, isConnected: Bool = true) throws {
        state.withLock { $0.environments[environment.scope] = environment }
        if isConnected { try startConnectedTime(of: environment.scope) }
        signal.raise()
    }

    /// Serves the handlers of a scope no longer.
    ///
    /// - Parameter scope: The scope whose rows wait for another process from now on.
    /// - Throws: ``HandlerError`` with the codes of the store; then it stays attached.
    public func detach(_ scope: HandlerScope) throws {
        try stopConnectedTime(of: scope)
        state.withLock { _ = $0.environments.removeValue(forKey: scope) }
    }

    /// Starts or stops the connected time of a scope, with its connection. Before the runner runs, a start waits for it.
    ///
    /// - Parameters:
    ///   - isConnected: Whether the scope is connected from now on.
    ///   - scope: The scope; nil for the program as a whole.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func setConnected(_ isConnected: Bool, in scope: HandlerScope?) throws {
        try isConnected ? startConnectedTime(of: scope) : stopConnectedTime(of: scope)
    }

    private func startConnectedTime(of scope: HandlerScope?) throws {
        guard state.withLock({ $0.living.insert(scope).inserted && $0.isRunning }) else { return }
        try store.startConnectedTime(of: [scope])
        signal.raise()
    }

    private func stopConnectedTime(of scope: HandlerScope?) throws {
        guard state.withLock({ $0.living.remove(scope) != nil && $0.isRunning }) else { return }
        try store.step { try $0.transaction.stopConnectedTime(of: scope) }
    }

    /// The program as a whole is served by every runner.
    private func serves(_ scope: HandlerScope?) -> Bool {
        scope.map { scope in state.withLock { $0.environments[scope] != nil } } ?? true
    }

    // MARK: Running

    /// Runs on a thread of its own until ``close()``. Does nothing when it does so already.
    ///
    /// - Throws: ``HandlerError`` when the store fails, the process has no thread left, or the runner was closed.
    public func start() throws {
        try launch()
        try store.watchChanges()
        try state.withLock { state throws(HandlerError) in
            guard state.loop == nil, !state.isClosed else { return }
            state.loop = try store.system.driver.start("handler runner", blocksSignals: false) { [self] in
                self
            }
        }
    }

    /// Calls everything that is due now by wall clock or connected time. Starts async handlers without waiting for them.
    ///
    /// - Returns: The time until something is due by either of them; nil when nothing is.
    /// - Throws: ``HandlerError`` when the store fails.
    @discardableResult
    public func runDue() throws -> Duration? {
        try launch()
        var rest: Duration?
        repeat { rest = try pass() } while rest == .zero && !isClosed
        return rest
    }

    /// Works until nothing is due and no async handler runs. It ends earlier when the time is over.
    ///
    /// What a short-lived worker does. Timers whose time has not come are left to the next process. The runner goes on
    /// afterwards, until ``close()``.
    ///
    /// - Parameter time: How long at most, by the machine's clock.
    /// - Returns: Whether everything was done. What was not is left to the next process.
    /// - Throws: ``HandlerError`` when the store fails or the runner was closed; `CancellationError`.
    public func drain(for time: Duration) async throws -> Bool {
        try start()
        do {
            return try await wait(atMost: time) { try await self.drained() }
        } catch is CancellationError {
            try Task.checkCancellation()
            return false
        }
    }

    /// Waits for a pass that began after this call and found nothing left to do.
    private func drained() async throws -> Bool {
        let pass = state.withLock { state in
            state.asked += 1
            return state.asked
        }
        signal.raise()
        while true {
            // Counted before it looks, so that no pass in between is missed.
            let seen = passes.count
            let now = state.withLock { (answered: $0.answered, isIdle: $0.isIdle, failure: $0.failure) }
            if isClosed { return false }
            if now.answered >= pass {
                if let failure = now.failure { throw failure }
                if now.isIdle { return true }
            }
            try await passes.wait(beyond: seen)
        }
    }

    /// Stops the thread, returns leases of handlers that were not called, and stops connected time.
    ///
    /// Async handlers that run at this moment are canceled; they cannot end any more, and another process, or another
    /// runner, runs them again. When this returns, no step of this runner goes on, unless it was called inside one.
    public func close() {
        let old = state.withLock { state in
            defer {
                state = State()
                state.isClosed = true
            }
            return state
        }
        store.listeners.removeRunner(self)
        signal.raise()
        passes.announce()
        for (_, task) in old.leases.values { task.cancel() }
        if !store.isInStep {
            passing.withLock { _ in }
            old.loop?.join()
        }
        let leases = old.leases.values.map(\.lease) + old.unsettled.map(\.lease)
        let living = old.isRunning ? old.living : []
        if leases.isEmpty && living.isEmpty { return }
        do {
            try store.step { step in
                for lease in leases { try step.transaction.giveBack(lease) }
                for scope in living { try step.transaction.stopConnectedTime(of: scope) }
            }
        } catch {
            // The store gives the rows back when it goes, and another process when this one has died.
            onFailure(error)
        }
    }

    private func launch() throws {
        let living = try state.withLock { state throws(HandlerError) -> Set<HandlerScope?> in
            guard !state.isClosed else {
                throw HandlerError(.runnerClosed, "the runner was closed; make a new one")
            }
            if state.isRunning { return [] }
            state.isRunning = true
            state.living.insert(nil)
            return state.living
        }
        guard !living.isEmpty else { return }
        do {
            try store.startConnectedTime(of: living)
        } catch {
            state.withLock { $0.isRunning = false }
            throw error
        }
    }

    /// Makes one pass over due handlers.
    package func turn(_ found: [PollEntry]) -> Pause? {
        // First: what is raised from here on, by close() too, ends the next pause.
        signal.clear()
        if isClosed { return nil }
        let (asked, ended) = state.withLock { ($0.asked, $0.leasesEnded) }
        let result = Result { try pass() }
        let rest: Duration?
        switch result {
        case .success(let value): rest = value
        case .failure(let error):
            onFailure(error)
            rest = Self.failurePause
        }
        state.withLock { state in
            state.answered = asked
            // One that ended during the pass may have left something due, such as a retry, that the pass did not see.
            state.isIdle = rest != .zero && state.leases.isEmpty && state.leasesEnded == ended
            state.failure = if case .failure(let error) = result { error } else { nil }
        }
        passes.announce()
        return pause(atMost: rest, isFailed: state.withLock { $0.failure != nil })
    }

    /// Limits the rest while handlers wait for the clock: a process that wakes regularly anyway calls
    /// ``look()`` then, so that it need not wake for this as well.
    ///
    /// - Parameter longest: At least ``longestWait``; nil for that.
    package func rest(atMost longest: Duration?) {
        let isTooLong = state.withLock { state in
            let before = state.longestRest
            state.longestRest = max(Self.longestWait, longest ?? .zero)
            return state.longestRest < before && state.isWaitingForClock
        }
        if isTooLong { signal.raise() }
    }

    /// Looks at the wall clock, if something waits for that.
    package func look() { if state.withLock({ $0.isWaitingForClock }) { signal.raise() } }

    private func pause(atMost rest: Duration?, isFailed: Bool) -> Pause {
        let longest = state.withLock { state in
            state.isWaitingForClock = rest != nil
            return rest == nil ? Self.housekeepingWait : state.longestRest
        }
        let rest = min(rest ?? longest, longest)
        // A clock that is turned by hand says when it was; its time does not pass while this waits.
        let isTurned = store.time.onTurn != nil && rest > .zero && !isFailed
        return Pause([PollEntry(signal.fileDescriptor)], milliseconds: isTurned ? nil : rest.milliseconds)
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    func failed(_ error: any Error) { onFailure(error) }

    /// Reports that an async handler ended.
    func leaseEnded() { passes.announce() }

    var leasesLeft: Int { state.withLock { leaseLimit - $0.leases.count } }
}
