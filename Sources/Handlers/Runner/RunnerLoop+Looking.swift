/// Looks at scopes, each in one step.
extension RunnerLoop {
    /// The time after which a step ends, by the monotonic clock: other steps wait for it.
    private static let stepTime = Duration.milliseconds(10)

    /// Makes one step with as many rows as belong into one, and sets when to look at the scopes again.
    ///
    /// A row with which the step cannot commit is quarantined, and the others are looked at without it.
    ///
    /// - Parameters:
    ///   - scopes: The scopes, in the order in which they are served.
    ///   - parked: Handlers that are called again in this step; nil for none.
    ///   - isCourteous: Whether other machines call first what they have stored; see ``OwnTimes``.
    ///   - runner: The one that makes the pass; nil for all that are started.
    /// - Returns: The times of the scopes at which it has looked, which are the first of `scopes`.
    func look(
        at scopes: [HandlerScope?], in store: HandlerStore,
        requeueing parked: Repairs.ParkedCalls? = nil, isCourteous: Bool = false,
        for runner: HandlerRunner?
    ) throws -> [DueTimes] {
        var tries: [AnyHandlerID: Int] = [:]
        var isCareful = false
        while true {
            do {
                return try lookOnce(
                    at: scopes, in: store, requeueing: parked, isCourteous: isCourteous, isCareful: isCareful,
                    for: runner)
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
            guard withMachine({ $0.passed.pass(failed.handler) }) else { throw error }
            store.log?.write(.error, .handlers) {
                "the handler \(failed.handler) cannot be quarantined either (\(plainReason(error))); it is passed over until the store is opened again: \(failed.reason.words)"
            }
        }
    }

    private func lookOnce(
        at scopes: [HandlerScope?], in store: HandlerStore,
        requeueing parked: Repairs.ParkedCalls?, isCourteous: Bool, isCareful: Bool,
        for runner: HandlerRunner?
    ) throws -> [DueTimes] {
        let passed = withMachine { $0.passed }
        let resting =
            parked == nil ? try restingTimes(of: scopes, in: store, isCourteous, passed, for: runner) : [:]
        if resting.count == scopes.count { return scopes.compactMap { resting[$0] } }
        let (looks, leases) = try store.step { step in
            var found: [DueTimes] = []
            var leases: [(runner: HandlerRunner, lease: Lease)] = []
            var count = 0
            let end = store.time.monotonic() + Self.stepTime
            if let parked { try step.transaction.repairs.requeue(parked, limit: RunnerMachine.batchLimit) }
            for scope in scopes {
                if let times = resting[scope] {
                    found.append(times)
                    continue
                }
                guard let runner = server(of: scope, for: runner) else {
                    // Its rows wait for a process that serves it.
                    found.append(DueTimes())
                    continue
                }
                let before = leases.count
                var followers: Int
                var next = try step.transaction.dueRows.nextDue(in: scope, besides: passed)
                repeat {
                    followers = step.transaction.newDue.followers
                    let taken = leases.count { $0.runner === runner }
                    let everythingDue = try runner.everythingDue(
                        in: scope, leasesTaken: taken, next, besides: passed, step.transaction)
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
                        next = try step.transaction.dueRows.nextDue(in: scope, besides: passed)
                    }
                    // A handler that has ended in this step gave its place in a lane to the next one, or its result to a workflow; that
                    // one is due now.
                } while step.transaction.newDue.followers > followers && count < RunnerMachine.batchLimit
                    && store.time.monotonic() < end
                let taken = leases.count { $0.runner === runner }
                found.append(
                    try runner.times(
                        of: scope, next, leasesTaken: taken, isServed: leases.count > before, isCourteous,
                        besides: passed, step.transaction))
                if count >= RunnerMachine.batchLimit || store.time.monotonic() >= end { break }
            }
            return (found, leases)
        }
        // Only now: nothing runs under a lease that is not committed.
        for (runner, lease) in leases { runner.run(lease) }
        return looks
    }

    /// The times of scopes in which nothing is to be done now, found without a step where other machines would wait for that.
    private func restingTimes(
        of scopes: [HandlerScope?], in store: HandlerStore, _ isCourteous: Bool, _ passed: PassedRows,
        for runner: HandlerRunner?
    ) throws -> [HandlerScope?: DueTimes] {
        guard store.traits.stepsAreCostly else { return [:] }
        return try store.look { transaction in
            var times: [HandlerScope?: DueTimes] = [:]
            for scope in scopes {
                times[scope] =
                    try server(of: scope, for: runner).map {
                        try $0.restingTimes(of: scope, isCourteous, besides: passed, transaction)
                    } ?? DueTimes()
            }
            return times
        }
    }
}
