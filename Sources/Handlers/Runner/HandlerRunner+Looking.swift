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
    ) throws -> [Transaction.Due] {
        var due = try expired(in: scope, transaction)
        var inStep: [Transaction.Due] = []
        var leases = leasesLeft - leasesTaken
        for caller in Caller.open(to: store.role, leasing: true)
        where next[caller].map({ $0 <= transaction.now }) ?? false {
            let limit = caller.isLeased ? min(leases, RunnerLoop.batchLimit) : RunnerLoop.batchLimit
            let rows = limit > 0 ? try transaction.due(in: scope, caller: caller, limit: limit) : []
            if caller.isLeased { leases -= rows.count }
            if caller.isLeased { due += rows } else { inStep += rows }
        }
        return due + inStep.sorted { ($0.time, $0.id.rawValue) < ($1.time, $1.id.rawValue) }
    }

    /// Calls a due row.
    ///
    /// - Returns: A lease when the handler is to run under one, else nil.
    func deliver(_ due: Transaction.Due, in scope: HandlerScope?, _ transaction: Transaction) throws -> Lease?
    {
        let hadDangling = transaction.connection.hasUnresolvedForeignKeys
        do {
            let lease = try transaction.deliver(due, for: store, environment: environment(of: scope))
            if !hadDangling, transaction.connection.hasUnresolvedForeignKeys {
                throw DanglingRow(handler: due.id)
            }
            return lease
        } catch let error as HandlerError where error.code == .noSuchHandler {
            // It has ended itself.
            return nil
        } catch let error as HandlerError where error.cause is ForeignKeyViolation {
            throw DanglingRow(handler: due.id)
        }
    }

    private func environment(of scope: HandlerScope?) -> (any HandlerEnvironment)? {
        scope.flatMap { scope in state.withLock { $0.environments[scope] } }
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
            connected = try transaction.countConnectedTime(
                of: scope,
                atMost: loop.connectedTimeTick(left: next - connected) + Transaction.connectedTimeSlack)
        }
        return next <= connected
            ? try transaction.dueByConnectedTime(in: scope, connected, limit: RunnerLoop.batchLimit) : []
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
            let next = try transaction.nextConnectedDue(in: scope)
        {
            let left = next - (try transaction.connectedTime(of: scope))
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
        let next = try transaction.nextDue(in: scope)
        let wall = Caller.open(to: store.role, leasing: true).compactMap { next[$0] }.min()
        // Connected time is counted in the step.
        let look = isCourteous ? self.look(at: wall, in: scope, now: transaction.now) : wall
        guard look.map({ $0 > transaction.now }) ?? true,
            try !state.withLock({ $0.living.contains(scope) })
                || transaction.nextConnectedDue(in: scope) == nil
        else { return nil }
        return DueTimes(wall: look)
    }

    /// When to look at a scope whose earliest row is due at a time: what other machines have stored is left to them for a while.
    private func look(at due: Timestamp?, in scope: HandlerScope?, now: Timestamp) -> Timestamp? {
        guard scope == nil, store.isOnServer else { return due }
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

/// A due row without which a row of another table leads nowhere: its ending could not be committed, and nothing after it.
struct DanglingRow: Error {
    let handler: AnyHandlerID
    let reason =
        "another row refers to this handler, so that it cannot end by itself; end it where that row is deleted, or delete that row"
}
