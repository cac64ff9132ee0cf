/// One look at everything that may be due.
extension HandlerRunner {
    /// Calls what is due in every scope that is served here.
    ///
    /// - Returns: The milliseconds until it should be done again; 0 when something is due that could not be taken yet.
    func pass() throws -> Int64? {
        try passing.withLock { passing in
            try store.recoverDead()
            let environments = state.withLock { $0.environments }
            var rest = try pass(nil, nil)
            for (scope, environment) in environments { rest = least(rest, try pass(scope, environment)) }
            try watchOthers()
            try prune(&passing)
            return rest
        }
    }

    private func pass(_ scope: HandlerScope?, _ environment: (any HandlerEnvironment)?) throws -> Int64? {
        var isMore = true
        while isMore, !isClosed {
            isMore = try batch(scope, environment) { try self.expired(in: scope, $0) }
        }
        for lane in Lane.allCases where Lane.open(to: store.role, leasing: true).contains(lane) {
            isMore = true
            while isMore, !isClosed {
                let limit = lane.isLeased ? min(leasesLeft, Self.batchLimit) : Self.batchLimit
                guard limit > 0 else { break }
                isMore = try batch(scope, environment) { try $0.due(in: scope, lane: lane, limit: limit) }
            }
        }
        return try store.step { try self.rest(of: scope, $0.transaction) }
    }

    /// Rows whose live time is over.
    private func expired(in scope: HandlerScope?, _ transaction: Transaction) throws -> [Transaction.DueRow] {
        guard state.withLock({ $0.living.contains(scope) }), let next = try transaction.nextLiveDue(in: scope)
        else {
            return []
        }
        guard next <= (try transaction.liveTime(of: scope)) else { return [] }
        let live = try transaction.countLiveTime(of: scope)
        return try transaction.dueByLiveTime(in: scope, live, limit: Self.batchLimit)
    }

    /// One step with as many rows as belong into one.
    ///
    /// - Returns: Whether there may be more.
    private func batch(
        _ scope: HandlerScope?, _ environment: (any HandlerEnvironment)?,
        _ rows: (Transaction) throws -> [Transaction.DueRow]
    ) throws -> Bool {
        var leases: [Lease] = []
        let count = try store.step { step in
            let rows = try rows(step.transaction)
            for row in rows {
                do {
                    let lease = try step.transaction.deliver(row, for: store, environment: environment)
                    if let lease { leases.append(lease) }
                } catch let error as HandlerError where error.code == .noSuchHandler {
                    // A handler before it in this step has ended it.
                }
            }
            return rows.count
        }
        // Only now: nothing runs under a lease that is not committed.
        for lease in leases { run(lease) }
        return count > 0
    }

    private func rest(of scope: HandlerScope?, _ transaction: Transaction) throws -> Int64? {
        var rest: Int64?
        for lane in Lane.open(to: store.role, leasing: leasesLeft > 0) {
            rest = least(
                rest, try transaction.nextDue(in: scope, lane: lane).map { max(0, $0 - transaction.now) })
        }
        if state.withLock({ $0.living.contains(scope) }), let next = try transaction.nextLiveDue(in: scope) {
            var live = try transaction.liveTime(of: scope)
            if next > live { live = try countIfOverdue(scope, live, transaction) }
            rest = least(rest, min(max(0, next - live), Transaction.liveTimeTick))
        }
        return rest
    }

    /// Counts live time once in a while even when nothing expires, or what passes would be forgotten.
    private func countIfOverdue(
        _ scope: HandlerScope?, _ live: Int64, _ transaction: Transaction
    ) throws -> Int64 {
        try transaction.uncountedLiveTime(of: scope) >= Transaction.liveTimeTick
            ? transaction.countLiveTime(of: scope) : live
    }

    private func least(_ a: Int64?, _ b: Int64?) -> Int64? {
        guard let a, let b else { return a ?? b }
        return min(a, b)
    }

    // MARK: Async handlers

    private func run(_ lease: Lease) {
        guard case .leased(let body)? = store.registry.definition(named: lease.stored.name)?.body else {
            return
        }
        state.withLock { state in
            let task = Task { [self] in
                do {
                    try Failpoint.afterLease.hit()
                    try await lease.run(body)
                } catch {
                    failed(error)
                }
                self.state.withLock { state in
                    // Its retry may be running already, under a lease of its own.
                    if state.leases[lease.handler]?.lease === lease { state.leases[lease.handler] = nil }
                    state.leasesEnded += 1
                }
                signal.raise()
            }
            state.leases[lease.handler] = (lease, task)
        }
    }

    /// Has this runner woken when a process dies that runs async handlers.
    private func watchOthers() throws {
        let seats = try store.seatsWithLeases()
        // Those no longer needed are let go outside the lock, for that waits for their callback, which takes it.
        let (known, _) = state.withLock { state in
            let old = state.watches
            state.watches = old.filter { seats.contains($0.key) && !state.ended.contains($0.key) }
            state.ended = []
            return (Set(state.watches.keys), old)
        }
        for seat in seats where !known.contains(seat) {
            let watch = try store.slot.watch(seat) { [weak self] in
                self?.state.withLock { _ = $0.ended.insert(seat) }
                self?.signal.raise()
            }
            state.withLock { $0.watches[seat] = watch }
        }
    }

    // MARK: Tombstones

    /// Forgets old endings, a few in each pass.
    private func prune(_ passing: inout Passing) throws {
        let now = store.time.milliseconds()
        if passing.pruned == nil, let last = passing.prunedAt, now - last < Self.longestWait { return }
        passing.prunedAt = now
        let start = passing.pruned ?? HandlerID(rawValue: 0)
        let before = store.time.wallMilliseconds() - keepEndings
        passing.pruned = try store.step {
            try $0.transaction.pruneEndings(before: before, after: start, limit: Self.pruneLimit)
        }
    }
}
