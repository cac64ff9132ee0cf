/// The rows of one scope, in a step of ``RunnerLoop``.
extension HandlerRunner {
    /// The smallest connected time that a look counts.
    private static let smallTick = Duration.seconds(1)

    /// What is due in a scope and can be taken here: what has expired, then what runs under a lease, of which few are
    /// taken at a time, then what runs in the step, longest due first.
    ///
    /// - Parameters:
    ///   - leasesTaken: The number of leases that this step takes for the runner.
    ///   - next: When the next row of each caller is due.
    func everythingDue(
        in scope: HandlerScope?, leasesTaken: Int, _ next: [Caller: Timestamp], _ transaction: Transaction
    ) throws -> [DueRows.Due] {
        let passed = loop.passedRows
        var due = try expired(in: scope, besides: passed, transaction)
        var inStep: [DueRows.Due] = []
        var leases = leasesLeft - leasesTaken
        for caller in Caller.open(to: store.role, leasing: true)
        where next[caller].map({ $0 <= transaction.now }) ?? false {
            let limit = caller.isLeased ? min(leases, RunnerLoop.batchLimit) : RunnerLoop.batchLimit
            let rows =
                limit > 0
                ? try transaction.dueRows.due(in: scope, caller: caller, limit: limit, besides: passed) : []
            if caller.isLeased { leases -= rows.count }
            if caller.isLeased { due += rows } else { inStep += rows }
        }
        return due + inStep.sorted { ($0.time, $0.id.rawValue) < ($1.time, $1.id.rawValue) }
    }

    /// Calls a due row.
    ///
    /// - Parameter isCareful: Whether all that belongs to it is stored at once, so that its errors are those of this row.
    /// - Returns: A lease when the handler is to run under one, else nil.
    func deliver(
        _ due: DueRows.Due, in scope: HandlerScope?, isCareful: Bool, _ transaction: Transaction
    ) throws -> Lease? {
        let hadDangling = transaction.connection.hasUnresolvedForeignKeys
        do {
            let lease = try transaction.dueRows.deliver(due, for: store, environment: environment(of: scope))
            if !hadDangling, transaction.connection.hasUnresolvedForeignKeys {
                throw FailedRow(dangling: due.id)
            }
            if isCareful { try transaction.storeChanges() }
            return lease
        } catch let error as HandlerError where error.code == .noSuchHandler {
            // It has ended itself.
            return nil
        } catch let error as HandlerError where error.cause is ForeignKeyViolation {
            throw FailedRow(dangling: due.id)
        } catch  where transaction.connection.isUsable && !(error is FailedRow) {
            throw FailedRow(due.id, error)
        }
    }

    private func environment(of scope: HandlerScope?) -> (any HandlerEnvironment)? {
        scope.flatMap { scope in state.withLock { $0.environments[scope] } }
    }

    /// Rows whose connected time is over.
    private func expired(
        in scope: HandlerScope?, besides passed: PassedRows, _ transaction: Transaction
    ) throws -> [DueRows.Due] {
        guard state.withLock({ $0.living.contains(scope) }),
            let next = try transaction.dueRows.nextConnectedDue(in: scope, besides: passed)
        else {
            return []
        }
        // Counted also when nothing expires, once in a while, or what passes would be forgotten.
        let uncounted = try transaction.connectedTime.uncounted(of: scope)
        var connected = try transaction.connectedTime.time(of: scope)
        if next <= connected || uncounted >= Self.smallTick {
            connected = try transaction.connectedTime.count(
                of: scope,
                atMost: loop.connectedTimeTick(left: next - connected) + ConnectedTime.slack)
        }
        return next <= connected
            ? try transaction.dueRows.dueByConnectedTime(
                in: scope, connected, limit: RunnerLoop.batchLimit, besides: passed) : []
    }

    /// Returns when something is due next in a scope.
    ///
    /// - Parameters:
    ///   - next: When the next row of each caller is due.
    ///   - leasesTaken: The number of leases that this step takes for the runner.
    ///   - isServed: Whether one of them is for this scope.
    ///   - isCourteous: Whether other machines call first what they have stored.
    func times(
        of scope: HandlerScope?, _ next: [Caller: Timestamp], leasesTaken: Int, isServed: Bool,
        _ isCourteous: Bool, _ transaction: Transaction
    ) throws -> DueTimes {
        var times = DueTimes()
        var isStarved = false
        for caller in Caller.open(to: store.role, leasing: true) {
            guard let due = next[caller] else { continue }
            if caller.isLeased, due <= transaction.now, leasesLeft <= leasesTaken {
                isStarved = true
            } else {
                times.wall = min(times.wall ?? due, due)
            }
        }
        if isCourteous { times.wall = look(at: times.wall, in: scope, now: transaction.now) }
        if isStarved { starve(scope, isServed: isServed) }
        if state.withLock({ $0.living.contains(scope) }),
            let next = try transaction.dueRows.nextConnectedDue(in: scope, besides: loop.passedRows)
        {
            let left = next - (try transaction.connectedTime.time(of: scope))
            times.monotonic =
                transaction.monotonic + min(max(.zero, left), loop.connectedTimeTick(left: left))
        }
        return times
    }

    /// Returns when something is due next in a scope in which nothing is to be done now; nil for another scope.
    ///
    /// - Parameter isCourteous: Whether other machines call first what they have stored.
    func restingTimes(
        of scope: HandlerScope?, _ isCourteous: Bool, _ transaction: Transaction
    ) throws -> DueTimes? {
        let passed = loop.passedRows
        let next = try transaction.dueRows.nextDue(in: scope, besides: passed)
        let wall = Caller.open(to: store.role, leasing: true).compactMap { next[$0] }.min()
        // Connected time is counted in the step.
        let look = isCourteous ? self.look(at: wall, in: scope, now: transaction.now) : wall
        guard look.map({ $0 > transaction.now }) ?? true,
            try !state.withLock({ $0.living.contains(scope) })
                || transaction.dueRows.nextConnectedDue(in: scope, besides: passed) == nil
        else { return nil }
        return DueTimes(wall: look)
    }

    /// When to look at a scope whose earliest row is due at a time: what other machines have stored is left to them for a while.
    private func look(at due: Timestamp?, in scope: HandlerScope?, now: Timestamp) -> Timestamp? {
        guard scope == nil, store.traits.isShared else { return due }
        let look = loop.ownTimes.withLock { $0.look(at: due, now: now) }
        // A clock that is turned by hand may not go on meanwhile.
        return store.hasOtherMachines && store.time.onTurn == nil ? look : due
    }

    private func starve(_ scope: HandlerScope?, isServed: Bool) {
        state.withLock { state in
            let known = state.starved.firstIndex { $0.scope == scope }.map {
                state.starved.remove(at: $0).turn
            }
            if isServed { state.turn += 1 }
            state.starved.append((scope, isServed ? state.turn : known ?? 0))
        }
    }

    /// Looks again at the scope whose async handlers have waited for a lease for the longest time, if one is left.
    func lookAtStarved() {
        let next = state.withLock { state -> HandlerScope?? in
            guard leaseLimit > state.leases.count,
                let next = state.starved.indices.min(by: { state.starved[$0].turn < state.starved[$1].turn })
            else { return nil }
            return .some(state.starved.remove(at: next).scope)
        }
        if let next { loop.mark([next]) }
    }
}
