/// One look at everything that may be due.
extension HandlerRunner {
    /// The time for which one step takes rows, by the monotonic clock: other steps wait for it.
    private static let stepTime = Duration.milliseconds(10)
    /// The smallest connected time that a pass counts.
    private static let smallTick = Duration.seconds(1)

    /// Calls some of what is due in every scope that is served here.
    ///
    /// - Returns: The time until the next pass, 0 when more is due; nil when nothing is.
    func pass() throws -> Duration? {
        try passing.withLock { passing in
            try settle()
            if state.withLock({ $0.isFinishing }) { return nil }
            try store.recoverDead()
            try hasten(&passing)
            var rest = try pass(nil, nil)
            for (scope, environment) in state.withLock({ $0.environments }) {
                rest = least(rest, try pass(scope, environment))
            }
            try prune(&passing)
            // The search for old endings goes on.
            return passing.pruned == nil ? rest : least(rest, Self.longestWait)
        }
    }

    /// One step with as many rows as belong into one.
    private func pass(_ scope: HandlerScope?, _ environment: (any HandlerEnvironment)?) throws -> Duration? {
        if state.withLock({ $0.isClosed || $0.isFinishing }) { return nil }
        var leases: [Lease] = []
        let rest = try store.step { step in
            let transaction = step.transaction
            let end = store.time.monotonic() + Self.stepTime
            for due in try everythingDue(in: scope, transaction) {
                do {
                    let lease = try transaction.deliver(due, for: store, environment: environment)
                    if let lease { leases.append(lease) }
                } catch let error as HandlerError where error.code == .noSuchHandler {
                    // It has ended itself.
                }
                if store.time.monotonic() >= end { break }
            }
            return try self.rest(of: scope, leasing: leasesLeft > leases.count, transaction)
        }
        // Only now: nothing runs under a lease that is not committed.
        for lease in leases { run(lease) }
        return rest
    }

    /// What is due in a scope and can be taken here: what has expired, then what runs under a lease, of which few are
    /// taken at a time, then what runs in the step, longest due first.
    private func everythingDue(in scope: HandlerScope?, _ transaction: Transaction) throws -> [Transaction
        .Due]
    {
        var due = try expired(in: scope, transaction)
        var inStep: [Transaction.Due] = []
        for lane in Lane.open(to: store.role, leasing: true) {
            let limit = lane.isLeased ? min(leasesLeft, Self.batchLimit) : Self.batchLimit
            let rows = limit > 0 ? try transaction.due(in: scope, lane: lane, limit: limit) : []
            if lane.isLeased { due += rows } else { inStep += rows }
        }
        return due + inStep.sorted { ($0.time, $0.id.rawValue) < ($1.time, $1.id.rawValue) }
    }

    /// Rows whose connected time is over.
    private func expired(in scope: HandlerScope?, _ transaction: Transaction) throws -> [Transaction.Due] {
        guard state.withLock({ $0.living.contains(scope) }),
            let next = try transaction.nextConnectedDue(in: scope)
        else {
            return []
        }
        // Counted also when nothing expires, once in a while, or what passes would be forgotten.
        let uncounted = try transaction.uncountedConnectedTime(of: scope)
        var connected = try transaction.connectedTime(of: scope)
        if next <= connected || uncounted >= Self.smallTick {
            let tick = connectedTimeTick(left: next - connected)
            connected = try transaction.countConnectedTime(
                of: scope, atMost: tick + Transaction.connectedTimeSlack)
        }
        return next <= connected
            ? try transaction.dueByConnectedTime(in: scope, connected, limit: Self.batchLimit) : []
    }

    private func rest(
        of scope: HandlerScope?, leasing: Bool, _ transaction: Transaction
    ) throws -> Duration? {
        var rest: Duration?
        for lane in Lane.open(to: store.role, leasing: leasing) {
            rest = least(
                rest, try transaction.nextDue(in: scope, lane: lane).map { max(.zero, $0 - transaction.now) })
        }
        if state.withLock({ $0.living.contains(scope) }),
            let next = try transaction.nextConnectedDue(in: scope)
        {
            let connected = try transaction.connectedTime(of: scope)
            rest = least(rest, min(max(.zero, next - connected), connectedTimeTick(left: next - connected)))
        }
        return rest
    }

    /// Returns the interval for counting connected time: longer while the next deadline is far, so that an idle process can
    /// rest.
    private func connectedTimeTick(left: Duration) -> Duration {
        let longest = state.withLock { $0.longestRest }
        return left / 2 > longest ? longest : Transaction.connectedTimeTick
    }

    private func least(_ a: Duration?, _ b: Duration?) -> Duration? {
        guard let a, let b else { return a ?? b }
        return min(a, b)
    }

    // MARK: Clocks that were set back

    /// Calls now what was put off while the wall clock was ahead; timers go by that clock, and wait.
    private func hasten(_ passing: inout Passing) throws {
        let now = store.time.monotonic()
        // A worker has no time for what may be a long list.
        guard store.role == .main, passing.hastenedAt.map({ now - $0 >= Self.longestWait }) ?? true else {
            return
        }
        passing.hastenedAt = now
        let longest = store.registry.longestRetryDelay
        try store.step { try $0.transaction.hasten(beyond: longest, limit: Self.pruneLimit) }
    }

    // MARK: Tombstones

    /// Forgets old endings, a few in each pass.
    private func prune(_ passing: inout Passing) throws {
        let now = store.time.monotonic()
        if passing.pruned == nil, let last = passing.prunedAt, now - last < Self.longestWait { return }
        passing.prunedAt = now
        let start = passing.pruned ?? AnyHandlerID(rawValue: 0)
        let before = store.time.wall() - keepEndings
        passing.pruned = try store.step {
            try $0.transaction.pruneEndings(before: before, after: start, limit: Self.pruneLimit)
        }
    }
}
