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
public final class HandlerRunner: Sendable {
    /// What it holds; what it does is decided by the ``RunnerMachine``.
    struct State {
        var environments: [HandlerScope: any HandlerEnvironment] = [:]
        /// By the lease and not by its row: one that is over may be leased again before its task has gone.
        var leases: [ObjectIdentifier: Attempt] = [:]
        /// Async handlers that failed when the store did, too: their rows wait to be quarantined.
        var unsettled: [Unsettled] = []
        var isClosed = false
        /// While the store is suspended: whether the runner was started.
        var wasStarted: Bool?
    }

    let store: HandlerStore
    let state = Mutex(State())
    /// The loop of all runners of the store.
    let loop: RunnerLoop
    let id: RunnerMachine.RunnerID
    /// Reports finished passes.
    let passes = News()
    /// How long a canceled async handler may go on before it is waited for no longer.
    let grace: Duration
    let abandoned = Atomic(0)
    /// Runs the loop, if this runner starts first.
    let driver: any LoopDriver
    private let onFailure: @Sendable (any Error) -> Void

    /// Makes a runner, which does nothing until it is started or drained.
    ///
    /// - Parameters:
    ///   - store: The store whose handlers it calls.
    ///   - configuration: How it works.
    /// - Throws: ``HandlerError`` `resourcesExhausted` when the process has no file descriptor left.
    public init(_ store: HandlerStore, _ configuration: Configuration = .init()) throws(HandlerError) {
        self.store = store
        grace = max(.zero, configuration.grace)
        store.setWorkflowMemory(configuration.workflowMemory)
        onFailure = configuration.onFailure
        driver = configuration.driver ?? store.system.driver
        let loop = try store.listeners.dueListener { () throws(HandlerError) in
            try RunnerLoop(
                store.time, slot: store.slotNumber,
                .init(
                    isMain: store.role == .main, isShared: store.traits.isShared,
                    hasTurnedClock: store.time.onTurn != nil))
        }
        self.loop = loop
        id = loop.withMachine {
            $0.addRunner(
                leases: max(1, configuration.leases), keepEndings: max(.zero, configuration.keepEndings))
        }
        store.listeners.addRunner(
            self,
            RunnerHooks(
                serves: { [weak self] in self?.serves($0) ?? false }, failed: configuration.onFailure,
                suspend: { [weak self] in self?.suspend() }, resume: { [weak self] in try self?.resume() }))
    }

    deinit {
        store.listeners.removeRunner(self)
        loop.withMachine { [id] in _ = $0.removeRunner(id) }
    }

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
        try NameBounds.check(environment.scope.rawValue, of: "a scope")
        state.withLock { $0.environments[environment.scope] = environment }
        loop.handle(.attached(environment.scope, id))
        if isConnected { try startConnectedTime(of: environment.scope) }
    }

    /// Serves the handlers of a scope no longer.
    ///
    /// - Parameter scope: The scope whose rows wait for another process from now on.
    /// - Throws: ``HandlerError`` with the codes of the store; then it stays attached.
    public func detach(_ scope: HandlerScope) throws {
        try stopConnectedTime(of: scope)
        state.withLock { _ = $0.environments.removeValue(forKey: scope) }
        loop.handle(.detached(scope, id))
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

    /// Starts the connected time of a scope with its connection, as ``setConnected(_:in:)`` does, in the step that stores the
    /// connection.
    ///
    /// - Parameter storing: Runs that step, in which it calls what it is given. When it throws, the time has not started.
    package func setConnected<R>(
        in scope: HandlerScope, storing: ((borrowing Step) throws -> Void) throws -> R
    ) throws -> R {
        let isStarting = connect(scope)
        do {
            if isStarting { try store.recoverDead() }
            let result = try storing { if isStarting { try $0.transaction.connectedTime.start(of: scope) } }
            loop.handle(.marked([scope]))
            return result
        } catch {
            _ = disconnect(scope)
            throw error
        }
    }

    /// Stops the connected time of a scope with its connection, as ``setConnected(_:in:)`` does, in the step that stores the end
    /// of the connection.
    ///
    /// - Parameter storing: Runs that step, in which it calls what it is given. When it throws, the time stops in a step of its own.
    package func setDisconnected(
        in scope: HandlerScope, storing: ((borrowing Step) throws -> Void) throws -> Void
    ) throws {
        guard disconnect(scope) else { return try storing { _ in } }
        do {
            try storing { try $0.transaction.connectedTime.stop(of: scope) }
        } catch {
            try? store.step { try $0.transaction.connectedTime.stop(of: scope) }
            throw error
        }
    }

    /// Starts the connected time of scopes in this process.
    private func startConnectedTime(ofEach scopes: Set<HandlerScope?>) throws {
        if scopes.isEmpty { return }
        // First, so that the time since a death is not taken for time in which anything ran.
        try store.recoverDead()
        let hasPlaces = try store.step { step in
            for scope in scopes { try step.transaction.connectedTime.start(of: scope) }
            return try step.transaction.lanes.hasPlaces()
        }
        // An earlier process may have left places to handlers that no process calls.
        if hasPlaces { loop.lookAtPlaces() }
    }

    private func startConnectedTime(of scope: HandlerScope?) throws {
        if connect(scope) { try startConnectedTime(ofEach: [scope]) }
        loop.handle(.marked([scope]))
    }

    private func stopConnectedTime(of scope: HandlerScope?) throws {
        if disconnect(scope) { try store.step { try $0.transaction.connectedTime.stop(of: scope) } }
    }

    /// Counts a scope as connected. Returns whether its time is to be started.
    private func connect(_ scope: HandlerScope?) -> Bool {
        loop.withMachine { [id] in $0.connect(scope, id) }
    }

    /// Counts a scope as connected no longer. Returns whether its time is to be stopped.
    private func disconnect(_ scope: HandlerScope?) -> Bool {
        loop.withMachine { [id] in $0.disconnect(scope, id) }
    }

    /// The program as a whole is served by every runner.
    func serves(_ scope: HandlerScope?) -> Bool {
        scope.map { scope in state.withLock { $0.environments[scope] != nil } } ?? true
    }

    /// The number of async handlers that went on after they were canceled and that are waited for no longer, since the runner was made.
    public var abandonedHandlers: Int { abandoned.load(ordering: .relaxed) }

    // MARK: Running

    /// Runs on a thread until ``close()``; all runners of a store share it. Does nothing when it runs already.
    ///
    /// - Throws: ``HandlerError`` when the store fails, the process has no thread left, or the runner was closed.
    public func start() throws {
        try launch()
        try store.watchChanges()
        guard !isClosed else { return }
        try loop.start(self)
        // Closed meanwhile.
        if isClosed { loop.stop(self) }
    }

    /// Calls everything that is due now by wall clock or connected time. Starts async handlers without waiting for them.
    ///
    /// - Returns: The time until something is due by either of them; nil when nothing is.
    /// - Throws: ``HandlerError`` when the store fails.
    @discardableResult
    public func runDue() throws -> Duration? {
        try launch()
        var rest: Duration?
        repeat { rest = try loop.pass(for: self) } while rest == .zero && !isClosed
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

    /// Waits for a pass that started after this call and found nothing left to do.
    private func drained() async throws -> Bool {
        let drain = loop.withMachine { [id] in $0.startDrain(id) }
        loop.signal.raise()
        defer { loop.handle(.drainEnded(id)) }
        while !isClosed && !isSuspended {
            // Counted before it looks, so that no pass in between is missed.
            let seen = passes.count
            switch loop.withMachine({ [id] in $0.answer(to: drain, of: id) }) {
            case .passed(isIdle: true): return true
            case .failed(let error): throw error
            case .passed, .pending: try await passes.wait(beyond: seen)
            }
        }
        return false
    }

    /// Stops the thread, returns leases of handlers that were not called, and stops connected time.
    ///
    /// Async handlers that run at this moment are canceled; they cannot end any more, and another process, or another
    /// runner, runs them again. When this returns, no step of this runner goes on, unless it was called inside one.
    public func close() {
        state.withLock { $0.isClosed = true }
        loop.stop(self)
        let living = loop.withMachine { [id] in $0.removeRunner(id) }
        let old = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state
        }
        store.listeners.removeRunner(self)
        passes.announce()
        giveBack(Array(old.leases.values), old.unsettled, living)
    }

    private func launch() throws {
        guard !isClosed else { throw HandlerError(.runnerClosed, "the runner was closed; make a new one") }
        guard let scopes = loop.withMachine({ [id] in $0.launch(id) }) else { return }
        do {
            try startConnectedTime(ofEach: scopes)
        } catch {
            loop.withMachine { [id] in _ = $0.halt(id) }
            throw error
        }
    }

    /// Limits the rest while handlers wait for the clock: a process that wakes regularly anyway calls
    /// ``look()`` then, so that it need not wake for this as well.
    ///
    /// - Parameter longest: At least ``RunnerMachine/longestWait``; nil for that.
    package func rest(atMost longest: Duration?) { loop.handle(.rest(atMost: longest)) }

    /// Looks at the wall clock, if something waits for that.
    package func look() { loop.handle(.awake) }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    func failed(_ error: any Error) { onFailure(error) }
}
