/// Passes over the scopes in which something is due.
extension RunnerLoop {
    /// The number of rows after which a step ends: a commit for each would be slow, and too many would hold up other steps.
    static let batchLimit = 64
    /// The time after which a step ends, by the monotonic clock: other steps wait for it.
    private static let stepTime = Duration.milliseconds(10)
    /// The shortest time between two surveys of a store on a server, where other machines commit all the time.
    private static let surveyPause = Duration.milliseconds(50)
    /// The shortest time between two looks that call what older programs have parked: they may park it again.
    private static let parkedPause = Duration.seconds(1)

    /// Looks at every scope in which something is due.
    ///
    /// - Returns: The time until the next pass, 0 when more is due; nil when nothing is.
    func pass(in store: HandlerStore, while isWanted: () -> Bool) throws -> Duration? {
        while let runner = takeUnsettled() { try settle(runner) }
        try recoverOwnPlace(in: store)
        try store.recoverDead()
        if areLeasesLost.exchange(false, ordering: .relaxed) {
            for runner in state.withLock({ $0.started }) { try cancelLost(of: runner) }
        }
        let isClockSet = isClockSet.exchange(false, ordering: .relaxed)
        try withLooking { try $0.hasten(store, isClockSet: isClockSet) }
        let restOfSurvey = try survey(store)
        var ready = timetable.withLock {
            $0.takeReady(wall: store.time.wall(), monotonic: store.time.monotonic())
        }[...]
        defer { timetable.withLock { timetable in for scope in ready { timetable.mark(scope) } } }
        var (failed, failure): ([HandlerScope?], (any Error)?) = ([], nil)
        defer { timetable.withLock { timetable in for scope in failed { timetable.mark(scope) } } }
        var limit = Self.batchLimit
        while !ready.isEmpty, isWanted() {
            do {
                // A drain waits for all that is due, whoever has stored it.
                let isCourteous = state.withLock { $0.drained.isEmpty }
                ready = ready.dropFirst(
                    try look(at: ready.prefix(limit), in: store, isCourteous: isCourteous) { server(of: $0) }
                        .count)
            } catch let error as HandlerError where error.isStorageFailure {
                throw error
            } catch  where limit > 1 && ready.count > 1 {
                // Each alone, so that only the one that failed waits.
                limit = 1
            } catch {
                failed.append(ready.removeFirst())
                failure = error
                limit = Self.batchLimit
            }
        }
        if let failure { throw failure }
        let restOfPlaces = try recallPlaces(store) { self.server(of: $0) != nil }
        let isPruning = try withLooking { try $0.prune(store) { keepEndings } }
        let rest = timetable.withLock {
            $0.rest(wall: store.time.wall(), monotonic: store.time.monotonic())
        }
        // The search for old endings goes on.
        return Self.least(
            isPruning ? Self.least(rest, Self.longestWait) : rest, Self.least(restOfSurvey, restOfPlaces))
    }

    /// The longest time for which a started runner keeps endings; nil when none is started any more.
    private var keepEndings: Duration? { state.withLock { $0.started.map(\.keepEndings).max() } }

    private func takeUnsettled() -> HandlerRunner? {
        state.withLock { $0.unsettled.isEmpty ? nil : $0.unsettled.removeFirst() }
    }

    private func cancelLost(of runner: HandlerRunner) throws {
        do {
            try runner.cancelLost()
        } catch {
            areLeasesLost.store(true, ordering: .relaxed)
            throw error
        }
    }

    private func settle(_ runner: HandlerRunner) throws {
        do {
            try withLooking { _ in try runner.settle() }
        } catch {
            keepUnsettled(runner)
            throw error
        }
        runner.passes.announce()
    }

    /// Makes a pass for a runner that need not be started.
    ///
    /// - Returns: The time until the next pass, 0 when more is due; nil when nothing is.
    func pass(for runner: HandlerRunner) throws -> Duration? {
        let store = runner.store
        if runner.isFinishing { return nil }
        try withLooking { _ in try runner.settle() }
        try recoverOwnPlace(in: store)
        try store.recoverDead()
        try cancelLost(of: runner)
        try withLooking { try $0.hasten(store) }
        var rest: Duration?
        for scope in [nil] + runner.scopes.map(Optional.some) {
            if runner.isFinishing { break }
            for times in try look(at: [scope], in: store, by: { _ in runner }) {
                rest = Self.least(
                    rest, times.rest(wall: store.time.wall(), monotonic: store.time.monotonic()))
            }
        }
        try lookForPlaces(store)
        rest = Self.least(rest, try recallPlaces(store) { $0.map(runner.scopes.contains) ?? true })
        let isPruning = try withLooking { try $0.prune(store) { runner.keepEndings } }
        return isPruning ? Self.least(rest, Self.longestWait) : rest
    }

    /// Frees places in lanes that no process uses, at most once in ``Lanes/placePatience``.
    ///
    /// - Parameter isServed: Whether this process calls handlers of a scope.
    /// - Returns: When to do it again; nil for not.
    private func recallPlaces(_ store: HandlerStore, _ isServed: (HandlerScope?) -> Bool) throws -> Duration?
    {
        let isAsked = mayHavePlaces.exchange(false, ordering: .relaxed)
        let callers = Caller.open(to: store.role, leasing: true).map(\.rawValue)
        let longest = Duration.milliseconds(longestRest.load(ordering: .relaxed))
        return try withLooking {
            try $0.recallPlaces(store, isAsked: isAsked, longest: longest) {
                isServed($0) && callers.contains($1)
            }
        }
    }

    /// Looks whether other processes have given places, for runners that make no survey.
    private func lookForPlaces(_ store: HandlerStore) throws {
        guard state.withLock({ $0.started.isEmpty }), needsSurvey.exchange(false, ordering: .relaxed) else {
            return
        }
        // A runner that starts at this moment needs the survey.
        defer { if state.withLock({ !$0.started.isEmpty }) { needsSurvey.store(true, ordering: .relaxed) } }
        do {
            let hasPlaces = try withLooking { _ in try store.look { try $0.lanes.hasPlaces() } }
            if hasPlaces { mayHavePlaces.store(true, ordering: .relaxed) }
        } catch {
            needsSurvey.store(true, ordering: .relaxed)
            throw error
        }
    }

    private static func least(_ a: Duration?, _ b: Duration?) -> Duration? {
        guard let a, let b else { return a ?? b }
        return min(a, b)
    }

    /// Finds the scopes with rows that wait for a clock, if others may have written some. At most a fifth of the time goes to that.
    ///
    /// - Returns: How long a survey that is needed has to wait; nil when none is.
    private func survey(_ store: HandlerStore) throws -> Duration? {
        guard needsSurvey.load(ordering: .relaxed) else { return nil }
        let start = store.time.monotonic()
        let wait = state.withLock { $0.nextSurvey } - start
        if wait > .zero { return wait }
        // Before it looks, so that it is made again for what comes meanwhile.
        needsSurvey.store(false, ordering: .relaxed)
        let restOfParked = state.withLock { $0.nextLookAtParked } - start
        do {
            let (waiting, hasPlaces, parked) = try withLooking { _ in
                try store.look { transaction in
                    (
                        try transaction.dueRows.waitingScopes(Caller.open(to: store.role, leasing: true)),
                        try transaction.lanes.hasPlaces(),
                        restOfParked > .zero ? [] : try transaction.repairs.parkedByOlder()
                    )
                }
            }
            if hasPlaces { mayHavePlaces.store(true, ordering: .relaxed) }
            for parked in parked where server(of: parked.scope) != nil {
                state.withLock { $0.nextLookAtParked = start + Self.parkedPause }
                try look(at: [parked.scope], in: store, requeueing: parked) { server(of: $0) }
            }
            timetable.withLock { timetable in
                timetable.mark(nil)
                for scope in waiting.connected { timetable.mark(scope) }
                for (scope, due) in waiting.wall { _ = timetable.add(scope, .init(wall: due)) }
            }
        } catch {
            needsSurvey.store(true, ordering: .relaxed)
            throw error
        }
        let end = store.time.monotonic()
        // A clock that is turned by hand may not go on meanwhile.
        let least = store.traits.isShared && store.time.onTurn == nil ? Self.surveyPause : .zero
        let pause = max((end - start) * 4, least)
        state.withLock { $0.nextSurvey = end + pause }
        guard restOfParked > .zero else { return nil }
        needsSurvey.store(true, ordering: .relaxed)
        return restOfParked
    }

    /// Makes one step with as many rows as belong into one, and sets when to look at the scopes again.
    ///
    /// A row with which the step cannot commit is quarantined, and the others are looked at without it.
    ///
    /// - Parameters:
    ///   - scopes: The scopes, in the order in which they are served.
    ///   - parked: Handlers that are called again in this step; nil for none.
    ///   - isCourteous: Whether other machines call first what they have stored; see ``OwnTimes``.
    ///   - server: Returns the runner of a scope; nil for none.
    /// - Returns: The times of the scopes at which it has looked, which are the first of `scopes`.
    @discardableResult
    func look(
        at scopes: ArraySlice<HandlerScope?>, in store: HandlerStore,
        requeueing parked: Repairs.ParkedCalls? = nil, isCourteous: Bool = false,
        by server: (HandlerScope?) -> HandlerRunner?
    ) throws -> [DueTimes] {
        var tries: [AnyHandlerID: Int] = [:]
        var isCareful = false
        while true {
            do {
                return try lookOnce(
                    at: scopes, in: store, requeueing: parked, isCourteous: isCourteous, isCareful: isCareful,
                    by: server)
            } catch let failed as FailedRow {
                tries[failed.handler, default: 0] += 1
                if tries[failed.handler] == failed.mostTries { try quarantine(failed, in: store) }
            } catch  where !isCareful && (error as? HandlerError)?.isStorageFailure != true {
                // Once more, so that it is learned which row that was.
                isCareful = true
            }
        }
    }

    private func quarantine(_ failed: FailedRow, in store: HandlerStore) throws {
        do {
            try store.step { try $0.transaction.calls.quarantine(failed.handler, failed.reason) }
        } catch let error as HandlerError where error.code == .noSuchHandler {
            // Another process has ended it meanwhile.
        } catch let error where (error as? HandlerError)?.isStorageFailure != true {
            guard pass(over: failed.handler) else { throw error }
            store.log?.write(.error, .handlers) {
                "the handler \(failed.handler) cannot be quarantined either (\(plainReason(error))); it is passed over until the store is opened again: \(failed.reason.words)"
            }
        }
    }

    private func lookOnce(
        at scopes: ArraySlice<HandlerScope?>, in store: HandlerStore,
        requeueing parked: Repairs.ParkedCalls?, isCourteous: Bool, isCareful: Bool,
        by server: (HandlerScope?) -> HandlerRunner?
    ) throws -> [DueTimes] {
        let (looks, leases) = try withLooking {
            _ -> ([DueTimes], [(runner: HandlerRunner, lease: Lease)]) in
            timetable.withLock { $0.startLook(at: scopes) }
            var looks: [DueTimes] = []
            defer { timetable.withLock { $0.endLook(zip(scopes, looks)) } }
            let resting =
                parked == nil ? try restingTimes(of: scopes, in: store, isCourteous, by: server) : [:]
            if resting.count == scopes.count {
                looks = scopes.compactMap { resting[$0] }
                return (looks, [])
            }
            let result = try store.step { step in
                var found: [DueTimes] = []
                var leases: [(runner: HandlerRunner, lease: Lease)] = []
                var count = 0
                let end = store.time.monotonic() + Self.stepTime
                if let parked { try step.transaction.repairs.requeue(parked, limit: Self.batchLimit) }
                for scope in scopes {
                    if let times = resting[scope] {
                        found.append(times)
                        continue
                    }
                    guard let runner = server(scope) else {
                        // Its rows wait for a process that serves it.
                        found.append(DueTimes())
                        continue
                    }
                    let before = leases.count
                    var placed: Int
                    var next = try step.transaction.dueRows.nextDue(in: scope, besides: passedRows)
                    repeat {
                        placed = step.transaction.newDue.placed
                        let taken = leases.count { $0.runner === runner }
                        let everythingDue = try runner.everythingDue(
                            in: scope, leasesTaken: taken, next, step.transaction)
                        for due in everythingDue {
                            count += 1
                            if let lease = try runner.deliver(
                                due, in: scope, isCareful: isCareful, step.transaction)
                            {
                                leases.append((runner, lease))
                            }
                            if store.time.monotonic() >= end { break }
                        }
                        if !everythingDue.isEmpty {
                            next = try step.transaction.dueRows.nextDue(in: scope, besides: passedRows)
                        }
                        // A handler that has ended in this step gave its place in a lane to the next one, which is due now.
                    } while step.transaction.newDue.placed > placed && count < Self.batchLimit
                        && store.time.monotonic() < end
                    let taken = leases.count { $0.runner === runner }
                    found.append(
                        try runner.times(
                            of: scope, next, leasesTaken: taken, isServed: leases.count > before, isCourteous,
                            step.transaction))
                    if count >= Self.batchLimit || store.time.monotonic() >= end { break }
                }
                return (found, leases)
            }
            looks = result.0
            return result
        }
        // Only now: nothing runs under a lease that is not committed.
        for (runner, lease) in leases { runner.run(lease) }
        for scope in scopes.prefix(looks.count) { server(scope)?.lookAtStarved() }
        return looks
    }

    /// The times of scopes in which nothing is to be done now, found without a step where other machines would wait for that.
    private func restingTimes(
        of scopes: ArraySlice<HandlerScope?>, in store: HandlerStore, _ isCourteous: Bool,
        by server: (HandlerScope?) -> HandlerRunner?
    ) throws -> [HandlerScope?: DueTimes] {
        guard store.traits.stepsAreCostly else { return [:] }
        return try store.look { transaction in
            var times: [HandlerScope?: DueTimes] = [:]
            for scope in scopes {
                times[scope] =
                    try server(scope).map {
                        try $0.restingTimes(of: scope, isCourteous, transaction)
                    } ?? DueTimes()
            }
            return times
        }
    }
}
