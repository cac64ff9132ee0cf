/// A pass over the scopes in which something is due, one action after the other.
extension RunnerMachine {
    /// The number of rows after which a step ends: a commit for each would be slow, and too many would hold up other steps.
    static let batchLimit = 64
    /// The wait after a failure of the store.
    private static let failurePause = Duration.seconds(1)
    /// The longest rest while nothing waits for a clock.
    private static let housekeepingWait = Duration.seconds(3600)
    /// The shortest time between two surveys of a store on a server, where other machines commit all the time.
    private static let surveyPause = Duration.milliseconds(50)
    /// The shortest time between two looks that call what older programs have parked: they may park it again.
    private static let parkedPause = Duration.seconds(1)

    struct Pass {
        /// The actions of a pass come in this order.
        fileprivate enum Stage {
            case settling, recovering, canceling, hastening, surveying, looking, finding, recalling, pruning,
                over
        }

        /// A drain that the pass serves, and how many async handlers had run before.
        struct Drain {
            let runner: RunnerID
            let asked: Int
            let leasesEnded: Int
        }

        /// The runner that makes it, which need not be started; nil for all that are.
        let runner: RunnerID?
        fileprivate let generation: Int
        let drains: [Drain]
        fileprivate var stage = Stage.settling
        /// Runners whose failures are to be stored.
        fileprivate var unsettled: [RunnerID] = []
        /// When the survey started, and what it found that older programs have parked.
        fileprivate var surveyed: (start: Duration, parked: [Repairs.ParkedCalls], waiting: Survey)?
        /// The scopes to look at; nil before they are known.
        fileprivate var ready: ArraySlice<HandlerScope?>?
        /// Those at which no look was possible.
        fileprivate var failed: [HandlerScope?] = []
        /// The most scopes of a look.
        fileprivate var limit = RunnerMachine.batchLimit
        /// When something is to be done again, beside what the timetable says.
        fileprivate var rest: Duration?
        fileprivate var failure: (any Error)?

        fileprivate mutating func limitRest(_ other: Duration?) {
            rest = [rest, other].compactMap(\.self).min()
        }

        fileprivate mutating func end(_ error: any Error) { (stage, failure) = (.over, error) }
    }

    /// What a look at all scopes found.
    struct Survey {
        /// When the first row of each scope is due.
        var wall: [(HandlerScope, Timestamp)] = []
        /// The scopes with rows that wait for connected time.
        var connected: [HandlerScope] = []
        var hasPlaces = false
        var parked: [Repairs.ParkedCalls] = []
    }

    /// What is to be done next in a pass. Each is followed by ``RunnerMachine/ended(_:_:_:_:)``.
    enum Action {
        /// Stores failures of handlers that could not be stored when they happened.
        case settle(RunnerID)
        /// Takes what this process had when others took it for dead, and what dead processes had.
        case recover
        /// Cancels the handlers of runners whose leases this process has lost.
        case cancelLost([RunnerID])
        /// Calls now what was put off while the wall clock was ahead.
        case hasten
        /// Finds the scopes with rows that wait; `includesParked` for what older programs have parked, too.
        case survey(includesParked: Bool)
        /// Calls what is due in scopes, in one step. `isCourteous` if other machines call first what they have stored.
        case look([HandlerScope?], isCourteous: Bool)
        /// Calls what older programs have parked.
        case callParked(Repairs.ParkedCalls)
        /// Looks whether handlers have places in lanes.
        case findPlaces
        /// Frees places that no process uses; `longest` is the longest time until the next time.
        case recallPlaces(longest: Duration)
        /// Removes endings after that one that are older than `keeping`, and signals that nobody took.
        case prune(after: AnyHandlerID, keeping: Duration)
        /// Nothing: the pass is over. The time until something is due; nil when nothing is.
        case rest(Duration?)
        /// Nothing: the pass is over, with this error.
        case fail(any Error)
    }

    /// The result of an action.
    enum Outcome {
        case done
        case surveyed(Survey)
        /// When to look again at the first of the scopes.
        case looked([DueTimes])
        /// Whether handlers have places.
        case found(Bool)
        /// When to do it again, and whether handlers have become due.
        case recalled(rest: Duration?, isChanged: Bool)
        /// After which ending it goes on; nil for done.
        case pruned(AnyHandlerID?)
        case failed(any Error)
    }

    // MARK: Start and end

    /// Starts a pass for all started runners.
    ///
    /// - Parameter turns: The result of ``startTurns()``.
    /// - Returns: Nil when the turns are over.
    mutating func startTurn(_ turns: Int) -> Pass? {
        guard turns == generation, !started.isEmpty else { return nil }
        let drains = drained.compactMap { id in
            runners[id].map { Pass.Drain(runner: id, asked: $0.asked, leasesEnded: $0.leasesEnded) }
        }
        var pass = Pass(runner: nil, generation: generation, drains: drains)
        (pass.unsettled, unsettled) = (unsettled, [])
        return pass
    }

    /// Starts a pass for one runner alone.
    func startPass(of id: RunnerID) -> Pass {
        var pass = Pass(runner: id, generation: generation, drains: [])
        pass.unsettled = [id]
        return pass
    }

    /// Ends a pass of a turn.
    ///
    /// - Returns: How long to wait before the next turn.
    mutating func endTurn(_ pass: Pass, rest: Duration?) -> Duration {
        let isRested = rest != .zero && pass.failure == nil && !needsSurvey
        answerDrains(pass.drains, isRested: isRested, pass.failure)
        if pass.failure != nil { return Self.failurePause }
        let longest = rest == nil ? Self.housekeepingWait : longestRest
        return min(rest ?? longest, longest)
    }

    /// Whether nothing more is to be done in a pass: those are gone for whom it is made.
    private func isUnwanted(_ pass: Pass) -> Bool {
        guard let id = pass.runner else { return pass.generation != generation }
        return runners[id]?.isFinishing ?? true
    }

    // MARK: Actions

    mutating func next(_ pass: inout Pass, _ now: Now) -> Action {
        if isUnwanted(pass) { pass.stage = .over }
        while true {
            switch pass.stage {
            case .settling:
                if let id = pass.unsettled.first { return .settle(id) }
                pass.stage = .recovering
            case .recovering: return .recover
            case .canceling:
                pass.stage = .hastening
                let lost = takeLost(pass)
                if !lost.isEmpty { return .cancelLost(lost) }
            case .hastening:
                pass.stage = .surveying
                if takeHastening(pass, now) { return .hasten }
            case .surveying:
                if let action = survey(&pass, now) { return action }
                pass.stage = .looking
            case .looking:
                if let action = look(&pass, now) { return action }
                // A failure is reported only now: it kept no other scope from its rows.
                pass.stage = pass.failure == nil ? .finding : .over
            case .finding:
                pass.stage = .recalling
                if takesPlaces(pass) { return .findPlaces }
            case .recalling:
                pass.stage = .pruning
                if let action = recall(&pass, now) { return action }
            case .pruning:
                pass.stage = .over
                if let action = prune(pass, now) { return action }
            case .over: return end(&pass, now)
            }
        }
    }

    private mutating func takeLost(_ pass: Pass) -> [RunnerID] {
        if let id = pass.runner { return [id] }
        defer { areLeasesLost = false }
        return areLeasesLost ? started : []
    }

    private mutating func takeHastening(_ pass: Pass, _ now: Now) -> Bool {
        let isSet = pass.runner == nil && isClockSet
        if pass.runner == nil { isClockSet = false }
        let isTime = isSet || hastenedAt.map { now.monotonic - $0 >= Self.longestWait } ?? true
        guard traits.isMain, isTime else { return false }
        hastenedAt = now.monotonic
        return true
    }

    private mutating func survey(_ pass: inout Pass, _ now: Now) -> Action? {
        if pass.runner != nil { return nil }
        if let surveyed = pass.surveyed {
            if let parked = surveyed.parked.first {
                nextLookAtParked = surveyed.start + Self.parkedPause
                return .callParked(parked)
            }
            endSurvey(surveyed.start, surveyed.waiting, &pass, now)
            return nil
        }
        guard needsSurvey else { return nil }
        guard now.monotonic >= nextSurvey else {
            pass.limitRest(nextSurvey - now.monotonic)
            return nil
        }
        // Before it looks, so that it is made again for what comes meanwhile.
        needsSurvey = false
        pass.surveyed = (now.monotonic, [], Survey())
        return .survey(includesParked: now.monotonic >= nextLookAtParked)
    }

    /// At most a fifth of the time goes to surveys.
    private mutating func endSurvey(_ start: Duration, _ found: Survey, _ pass: inout Pass, _ now: Now) {
        timetable.mark(nil)
        for scope in found.connected { timetable.mark(scope) }
        for (scope, due) in found.wall { _ = timetable.add(scope, DueTimes(wall: due)) }
        let least = traits.isShared && !traits.hasTurnedClock ? Self.surveyPause : .zero
        nextSurvey = now.monotonic + max((now.monotonic - start) * 4, least)
    }

    private mutating func look(_ pass: inout Pass, _ now: Now) -> Action? {
        if pass.ready == nil {
            pass.ready =
                pass.runner.map { ([nil] + (runners[$0]?.scopes ?? []).map(Optional.some))[...] }
                ?? timetable.takeReady(wall: now.wall, monotonic: now.monotonic)[...]
            if pass.runner != nil { pass.limit = 1 }
        }
        guard let ready = pass.ready, !ready.isEmpty else { return nil }
        let scopes = ready.prefix(pass.limit)
        timetable.startLook(at: scopes)
        // A drain waits for all that is due, also for what others have stored.
        return .look(Array(scopes), isCourteous: pass.runner == nil && drained.isEmpty)
    }

    /// Whether places are to be looked for: runners that are not started make no survey.
    private mutating func takesPlaces(_ pass: Pass) -> Bool {
        guard pass.runner != nil, started.isEmpty else { return false }
        defer { needsSurvey = false }
        return needsSurvey
    }

    /// Frees places in lanes at most once in ``Lanes/placePatience``.
    private mutating func recall(_ pass: inout Pass, _ now: Now) -> Action? {
        if mayHavePlaces {
            mayHavePlaces = false
            let earliest = recalledAt.map { $0 + Lanes.placePatience } ?? now.monotonic
            nextRecall = min(nextRecall ?? earliest, earliest)
        }
        guard let next = nextRecall else { return nil }
        if next <= now.monotonic { return .recallPlaces(longest: longestRest) }
        pass.limitRest(next - now.monotonic)
        return nil
    }

    private mutating func prune(_ pass: Pass, _ now: Now) -> Action? {
        if pruned == nil, let last = prunedAt, now.monotonic - last < Self.longestWait { return nil }
        // The longest of them.
        let ids = pass.runner.map { [$0] } ?? started
        guard let keeping = ids.compactMap({ runners[$0]?.keepEndings }).max() else { return nil }
        prunedAt = now.monotonic
        return .prune(after: pruned ?? AnyHandlerID(rawValue: 0), keeping: keeping)
    }

    private mutating func end(_ pass: inout Pass, _ now: Now) -> Action {
        for scope in pass.failed { timetable.mark(scope) }
        if pass.runner == nil {
            for scope in pass.ready ?? [] { timetable.mark(scope) }
            for id in pass.unsettled where started.contains(id) { unsettled.append(id) }
        }
        (pass.failed, pass.ready, pass.unsettled) = ([], [], [])
        if let failure = pass.failure { return .fail(failure) }
        if pass.runner == nil { pass.limitRest(timetable.rest(wall: now.wall, monotonic: now.monotonic)) }
        return .rest(pass.rest)
    }

    // MARK: Outcomes

    mutating func ended(_ action: Action, _ outcome: Outcome, _ pass: inout Pass, _ now: Now) {
        if case .failed(let error) = outcome { return failed(action, error, &pass) }
        switch (action, outcome) {
        case (.settle, _): pass.unsettled.removeFirst()
        case (.recover, _): pass.stage = .canceling
        case (.survey, .surveyed(let found)): surveyed(found, &pass)
        case (.callParked, _): pass.surveyed?.parked.removeFirst()
        case (.look(let scopes, _), .looked(let times)): looked(scopes, times, &pass, now)
        case (.findPlaces, .found(let hasPlaces)):
            if hasPlaces { mayHavePlaces = true }
            // A runner that was started meanwhile needs the survey.
            if !started.isEmpty { needsSurvey = true }
        case (.recallPlaces, .recalled(let rest, let isChanged)):
            recalledAt = now.monotonic
            nextRecall = rest.map { now.monotonic + $0 }
            pass.limitRest(isChanged ? .zero : rest)
        case (.prune, .pruned(let last)):
            pruned = last
            // The search for old endings goes on.
            if last != nil { pass.limitRest(Self.longestWait) }
        default: break
        }
    }

    private mutating func surveyed(_ found: Survey, _ pass: inout Pass) {
        if found.hasPlaces { mayHavePlaces = true }
        pass.surveyed?.waiting = found
        pass.surveyed?.parked = found.parked.filter { server(of: $0.scope) != nil }
        // What older programs parked is looked for in the next one.
        if let start = pass.surveyed?.start, start < nextLookAtParked {
            needsSurvey = true
            pass.limitRest(nextLookAtParked - start)
        }
    }

    private mutating func looked(
        _ scopes: [HandlerScope?], _ times: [DueTimes], _ pass: inout Pass, _ now: Now
    ) {
        timetable.endLook(zip(scopes, times))
        pass.ready = pass.ready?.dropFirst(times.count)
        if pass.runner != nil {
            for times in times { pass.limitRest(times.rest(wall: now.wall, monotonic: now.monotonic)) }
        }
        for scope in scopes.prefix(times.count) {
            if let id = pass.runner ?? server(of: scope) { _ = markStarved(of: id) }
        }
    }

    private mutating func failed(_ action: Action, _ error: any Error, _ pass: inout Pass) {
        switch action {
        case .cancelLost: areLeasesLost = true
        case .hasten: hastenedAt = nil
        case .survey, .callParked, .findPlaces: needsSurvey = true
        case .look(let scopes, _):
            timetable.endLook([])
            let isOfStore = (error as? HandlerError)?.isStorageFailure == true
            if pass.runner != nil || isOfStore { break }
            // Each alone, so that only the one that failed waits.
            if pass.limit > 1, (pass.ready?.count ?? 0) > 1 { return pass.limit = 1 }
            pass.failed.append(contentsOf: scopes.prefix(1))
            pass.ready = pass.ready?.dropFirst()
            (pass.failure, pass.limit) = (error, Self.batchLimit)
            return
        default: break
        }
        pass.end(error)
    }
}
