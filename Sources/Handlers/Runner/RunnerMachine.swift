/// Decides what the runners of a store do next: a value without a store, a clock or a thread.
///
/// ```text
///   runners, commits, leases ──▶ handle(_:) ──╮
///                                             ▼
///   turn ──▶ startTurn ──▶ next(_:_:) ──▶ Action ──▶ RunnerLoop performs it ──▶ ended(_:_:_:)
///                              ▲                                                    │
///                              ╰────────────────────────────────────────────────────╯
/// ```
/// It knows when something is due in each scope, and has no other scope looked at.
struct RunnerMachine {
    /// A runner of the store.
    struct RunnerID: Hashable { let number: Int }

    /// What it must know of the store.
    struct Traits {
        /// Whether the process is the main program: a worker has no time for what may be a long list.
        var isMain = true
        /// Whether other machines commit all the time, and call what they have stored.
        var isShared = false
        /// Whether a clock is turned by hand: it may not go on while something waits for it.
        var hasTurnedClock = false
    }

    struct Now {
        var wall: Timestamp
        var monotonic: Duration
    }

    /// A drain as a runner sees it.
    enum DrainAnswer {
        /// No pass that started after the drain has ended.
        case pending
        /// A pass left nothing to do, or something.
        case passed(isIdle: Bool)
        case failed(any Error)
    }

    enum Input {
        // Of the program.
        case started(RunnerID)
        /// Nothing more is called for the runner.
        case stopped(RunnerID)
        /// Nothing more is called for the runner, whose async handlers are waited for.
        case finishing(RunnerID)
        case attached(HandlerScope, RunnerID)
        case detached(HandlerScope, RunnerID)
        case drainEnded(RunnerID)
        /// How long a rest may be while handlers wait for a clock, at least ``longestWait``; nil for that.
        case rest(atMost: Duration?)
        /// A process that is awake anyway looks at the wall clock.
        case awake

        // Of handlers.
        case leaseTaken(RunnerID)
        /// An async handler has ended; `isUnsettled` if its failure could not be stored.
        case leaseEnded(RunnerID, isUnsettled: Bool)
        /// Async handlers of a scope found no lease left; `isServed` if others of the scope got one in the same step.
        case starved(HandlerScope?, RunnerID, isServed: Bool)

        // Of the store.
        /// Rows of these scopes may be due.
        case marked([HandlerScope?])
        /// A step has committed rows.
        case committed(NewDue)
        /// Handlers may have places in lanes that no process uses.
        case placesGiven
        /// Other processes have taken this one for dead, and may have its leases.
        case wasBuried
        /// The wall clock was set.
        case clockSet
    }

    struct Runner {
        /// The most async handlers that run at the same time.
        let leases: Int
        /// How long endings are kept.
        let keepEndings: Duration
        /// In the order in which they were attached.
        var scopes: [HandlerScope] = []
        var isFinishing = false
        /// Whether it calls what is due, so that connected time runs.
        var runs = false
        /// The scopes that are connected while it runs; nil means the program as a whole.
        var connected: Set<HandlerScope?> = []
        /// The number of async handlers that run.
        var leasesTaken = 0
        /// The number of async handlers that have run, whatever their outcome.
        var leasesEnded = 0
        /// Scopes with async handlers for which no lease was left, and the turn in which each got one last, 0 for none.
        var starved: [(scope: HandlerScope?, turn: Int)] = []
        /// The number of turns in which a scope got leases.
        var turn = 0
        /// The number of drains so far.
        var asked = 0
        /// The last of them that a pass has served.
        var answered = 0
        /// The outcome of the last pass that served one.
        var answer = DrainAnswer.pending
    }

    /// The interval for checks of old endings and, where nothing reports that it was set, of the wall clock.
    static let longestWait = Duration.seconds(60)

    let traits: Traits
    private var lastNumber = 0
    var runners: [RunnerID: Runner] = [:]
    /// The started runners, oldest first.
    private(set) var started: [RunnerID] = []
    /// Those that serve a scope, oldest first.
    private var servers: [HandlerScope: [RunnerID]] = [:]
    /// The number of runners with which the connected time of a scope runs.
    var connected: [HandlerScope?: Int] = [:]
    /// The number of times that turns were started or ended.
    private(set) var generation = 0

    var timetable = Timetable()
    /// The rows of the program as a whole that this process has stored, where other machines may call them, too.
    var ownTimes = OwnTimes()
    var passed = PassedRows()
    /// The runner of each drain that waits: few, of however many runners.
    private(set) var drained: [RunnerID] = []
    /// Started runners with failures that could not be stored.
    var unsettled: [RunnerID] = []
    /// Whether rows may wait that no step of this process has written.
    var needsSurvey = false
    /// Whether handlers may have places in lanes that no process uses.
    var mayHavePlaces = false
    /// Whether handlers that run here may have been ended.
    var areLeasesLost = false
    /// Whether the wall clock was set since the last pass.
    var isClockSet = false
    /// The longest rest while something waits for a clock.
    private(set) var longestRest = RunnerMachine.longestWait

    // By the monotonic clock:
    /// When a survey may be made again.
    var nextSurvey = Duration.zero
    /// When handlers may be looked for again that older programs have parked.
    var nextLookAtParked = Duration.zero
    /// When calls that a wrong wall clock had put off were last looked for.
    var hastenedAt: Duration?
    /// When places in lanes were last looked at, and when they are to be next.
    var (recalledAt, nextRecall): (Duration?, Duration?) = (nil, nil)
    /// When old endings were last removed.
    var prunedAt: Duration?
    /// The ending after which the search for old ones goes on; nil before it starts.
    var pruned: AnyHandlerID?

    init(_ traits: Traits = Traits()) { self.traits = traits }

    // MARK: Runners

    /// Adds a runner, which is not started.
    ///
    /// - Parameters:
    ///   - leases: The most async handlers that run at the same time, 1 or more.
    ///   - keepEndings: How long endings are kept.
    mutating func addRunner(leases: Int, keepEndings: Duration) -> RunnerID {
        lastNumber += 1
        let id = RunnerID(number: lastNumber)
        runners[id] = Runner(leases: leases, keepEndings: keepEndings)
        return id
    }

    /// - Returns: The scopes whose connected time is to be stopped.
    @discardableResult
    mutating func removeRunner(_ id: RunnerID) -> Set<HandlerScope?> {
        _ = handle(.stopped(id))
        defer { runners[id] = nil }
        return halt(id)
    }

    /// The turns start with the first started runner, and end with the last.
    ///
    /// - Returns: The generation for ``startTurn(_:)``.
    mutating func startTurns() -> Int {
        generation += 1
        return generation
    }

    /// The runner that calls what is due in a scope.
    func server(of scope: HandlerScope?) -> RunnerID? {
        (scope.map { servers[$0] ?? [] } ?? started).first { runners[$0]?.isFinishing == false }
    }

    func leasesLeft(of id: RunnerID) -> Int { runners[id].map { $0.leases - $0.leasesTaken } ?? 0 }

    // MARK: Inputs

    /// - Returns: Whether the rest between two turns ends.
    mutating func handle(_ input: Input) -> Bool {
        switch input {
        case .started(let id): return start(id)
        case .stopped(let id): return stop(id)
        case .finishing(let id): runners[id]?.isFinishing = true
        case .attached(let scope, let id): return attach(scope, id)
        case .detached(let scope, let id):
            runners[id]?.scopes.removeAll { $0 == scope }
            stopServing(scope, id)
        case .drainEnded(let id): endDrain(id)
        case .rest(let longest): return limitRest(longest)
        case .awake: return timetable.isWaiting
        case .leaseTaken(let id): runners[id]?.leasesTaken += 1
        case .leaseEnded(let id, let isUnsettled): return endLease(id, isUnsettled)
        case .starved(let scope, let id, let isServed): starve(scope, id, isServed)
        case .marked(let scopes):
            for scope in scopes { timetable.mark(scope) }
            return true
        case .committed(let new): return add(new)
        case .placesGiven:
            mayHavePlaces = true
            return true
        case .wasBuried: areLeasesLost = true
        case .clockSet:
            isClockSet = true
            return true
        }
        return false
    }

    private mutating func start(_ id: RunnerID) -> Bool {
        guard let runner = runners[id], !started.contains(id) else { return false }
        started.append(id)
        for scope in runner.scopes { servers[scope, default: []].append(id) }
        markEverything(of: id)
        return true
    }

    /// Raised also for a runner that was not started: another one may rest for longer from now on.
    private mutating func stop(_ id: RunnerID) -> Bool {
        // It looks at the clock no longer; those that stay say so again.
        longestRest = Self.longestWait
        drained.removeAll { $0 == id }
        unsettled.removeAll { $0 == id }
        guard let index = started.firstIndex(of: id) else { return true }
        started.remove(at: index)
        for scope in runners[id]?.scopes ?? [] { stopServing(scope, id) }
        if started.isEmpty { generation += 1 }
        return true
    }

    private mutating func attach(_ scope: HandlerScope, _ id: RunnerID) -> Bool {
        guard runners[id] != nil else { return false }
        if runners[id]?.scopes.contains(scope) == false { runners[id]?.scopes.append(scope) }
        guard started.contains(id) else { return false }
        stopServing(scope, id)
        servers[scope, default: []].append(id)
        timetable.mark(scope)
        return true
    }

    private mutating func stopServing(_ scope: HandlerScope, _ id: RunnerID) {
        servers[scope]?.removeAll { $0 == id }
        if servers[scope]?.isEmpty == true { servers[scope] = nil }
    }

    private mutating func markEverything(of id: RunnerID) {
        for scope in runners[id]?.scopes ?? [] { timetable.mark(scope) }
        timetable.mark(nil)
    }

    private mutating func limitRest(_ longest: Duration?) -> Bool {
        let old = longestRest
        longestRest = max(Self.longestWait, longest ?? .zero)
        return old > longestRest && timetable.isWaiting
    }

    private mutating func endLease(_ id: RunnerID, _ isUnsettled: Bool) -> Bool {
        guard runners[id] != nil else { return false }
        runners[id]?.leasesTaken -= 1
        runners[id]?.leasesEnded += 1
        // One that is not started stores it itself.
        if isUnsettled, started.contains(id) { unsettled.append(id) }
        let isStarved = markStarved(of: id)
        return isUnsettled || isStarved || !drained.isEmpty
    }

    private mutating func starve(_ scope: HandlerScope?, _ id: RunnerID, _ isServed: Bool) {
        guard var runner = runners[id] else { return }
        let known = runner.starved.firstIndex { $0.scope == scope }.map { runner.starved.remove(at: $0).turn }
        if isServed { runner.turn += 1 }
        runner.starved.append((scope, isServed ? runner.turn : known ?? 0))
        runners[id] = runner
    }

    /// Has the scope looked at whose async handlers have waited for a lease for the longest time, if one is left.
    ///
    /// - Returns: Whether there is such a scope.
    mutating func markStarved(of id: RunnerID) -> Bool {
        guard let runner = runners[id], runner.leases > runner.leasesTaken,
            let next = runner.starved.indices.min(by: { runner.starved[$0].turn < runner.starved[$1].turn })
        else { return false }
        timetable.mark(runner.starved[next].scope)
        runners[id]?.starved.remove(at: next)
        return true
    }

    private mutating func add(_ new: NewDue) -> Bool {
        if new.isAnywhere { needsSurvey = true }
        if new.placed > 0 { mayHavePlaces = true }
        let isAsked = new.isAnywhere || new.isLeaseLost
        if isAsked { areLeasesLost = true }
        // In a file the look that called a timer has found its next time, too.
        let repeated = traits.isShared ? new.repeated : []
        if traits.isShared {
            for time in repeated + [new.times[nil]?.wall].compactMap(\.self) { ownTimes.add(time) }
        }
        var isEarlier = isAsked
        // Every one is added, whatever the others say.
        for (scope, times) in new.times { isEarlier = timetable.add(scope, times) || isEarlier }
        for time in repeated { isEarlier = timetable.add(nil, DueTimes(wall: time)) || isEarlier }
        return isEarlier
    }

    // MARK: Drains

    /// Has everything looked at for a drain; ``Input/drainEnded(_:)`` ends it.
    ///
    /// - Returns: Its number for ``answer(to:of:)``.
    mutating func startDrain(_ id: RunnerID) -> Int {
        markEverything(of: id)
        drained.append(id)
        runners[id]?.asked += 1
        return runners[id]?.asked ?? 0
    }

    private mutating func endDrain(_ id: RunnerID) {
        if let index = drained.firstIndex(of: id) { drained.remove(at: index) }
    }

    func answer(to drain: Int, of id: RunnerID) -> DrainAnswer {
        guard let runner = runners[id], runner.answered >= drain else { return .pending }
        return runner.answer
    }

    mutating func answerDrains(_ drains: [Pass.Drain], isRested: Bool, _ failure: (any Error)?) {
        for drain in drains {
            guard var runner = runners[drain.runner] else { continue }
            runner.answered = drain.asked
            // One that ended during the pass may have left something due, such as a retry, that the pass did not see.
            let isIdle = isRested && runner.leasesTaken == 0 && runner.leasesEnded == drain.leasesEnded
            runner.answer = failure.map { .failed($0) } ?? .passed(isIdle: isIdle)
            runners[drain.runner] = runner
        }
    }

    // MARK: Looks

    /// Returns when this process looks at a scope whose earliest row is due at a time: what other machines have stored is left to
    /// them for a while.
    ///
    /// - Parameter hasOthers: Whether other machines may have the database open.
    mutating func time(ofLookAt due: Timestamp?, in scope: HandlerScope?, now: Timestamp, hasOthers: Bool)
        -> Timestamp?
    {
        guard scope == nil, traits.isShared else { return due }
        let look = ownTimes.look(at: due, now: now)
        return hasOthers && !traits.hasTurnedClock ? look : due
    }

    /// Returns the interval for counting connected time: longer while the next deadline is far, so that an idle process can
    /// rest.
    func connectedTimeTick(left: Duration) -> Duration {
        left / 2 > longestRest ? longestRest : ConnectedTime.tick
    }
}
