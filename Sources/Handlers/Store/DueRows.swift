/// A row whose time has come, as it is when its turn comes.
struct DueRow {
    let id: AnyHandlerID
    let name: Name
    /// Its time of the wall clock.
    let due: Timestamp?
    let caller: Int64
    let period: Duration?
    let call: [UInt8]?
    let input: [UInt8]?
    let relations: Relations
    let scope: HandlerScope?
    /// The number of its leases, or of the calls of a workflow.
    let epoch: Int64
}

/// Due rows: timers, retries, deadlines, and handlers that could not run where they were called.
struct DueRows: TransactionTable {
    let transaction: Transaction

    /// A row whose time has come, as it was found.
    struct Due {
        enum Time: Comparable {
            case wall(Timestamp)
            case connected(Duration)
        }
        let id: AnyHandlerID
        let time: Time
    }

    /// The rows of a scope that are due, longest due first.
    ///
    /// - Parameter passed: Rows that are passed over.
    /// - Complexity: In the number returned, not in the number that waits.
    func due(
        in scope: HandlerScope?, caller: Caller, limit: Int, besides passed: PassedRows = PassedRows()
    ) throws(HandlerError) -> [Due] {
        try connection.all(
            passed.excluded(
                scope == nil
                    ? """
                    SELECT id, due FROM handler WHERE scope IS NULL AND lane = ? AND due <= ?
                    ORDER BY scope, lane, due, id LIMIT ?
                    """
                    : """
                    SELECT id, due FROM handler WHERE scope = ? AND lane = ? AND due <= ? ORDER BY due, id LIMIT ?
                    """), scope.values + [caller.rawValue, now, limit]
        ) { Due(id: AnyHandlerID(rawValue: $0.integer(0)), time: .wall($0.timestamp(1))) }
    }

    /// The rows of a scope whose connected time has run out, longest first.
    func dueByConnectedTime(
        in scope: HandlerScope?, _ connected: Duration, limit: Int, besides passed: PassedRows = PassedRows()
    ) throws(HandlerError) -> [Due] {
        try connection.all(
            passed.excluded(
                scope == nil
                    ? """
                    SELECT id, connected_due FROM handler WHERE scope IS NULL AND connected_due <= ?
                    ORDER BY scope, connected_due, id LIMIT ?
                    """
                    : """
                    SELECT id, connected_due FROM handler WHERE scope = ? AND connected_due <= ?
                    ORDER BY connected_due, id LIMIT ?
                    """), scope.values + [connected.milliseconds, limit]
        ) { Due(id: AnyHandlerID(rawValue: $0.integer(0)), time: .connected($0.duration(1))) }
    }

    /// Reads a row again: one before it in this step may have ended it, called it or set another time.
    private func row(of due: Due) throws(HandlerError) -> DueRow? {
        let (isStillDue, time): (String, Int64) =
            switch due.time {
            case .wall: ("due <= ?", now.milliseconds)
            case .connected(let time): ("connected_due <= ?", time.milliseconds)
            }
        return try connection.first(
            "SELECT name, due, lane, period, call, input, relations, scope, epoch FROM handler WHERE id = ? AND \(isStillDue)",
            [due.id, time]
        ) { row in
            DueRow(
                id: due.id, name: row.foreignText(0), due: row.optionalTimestamp(1), caller: row.integer(2),
                period: row.optionalDuration(3), call: row.isNull(4) ? nil : row.blob(4),
                input: row.isNull(5) ? nil : row.blob(5), relations: Relations(rawValue: row.integer(6)),
                scope: row.optionalText(7).map { HandlerScope($0) }, epoch: row.integer(8))
        }
    }

    /// When the next row of a scope is due for each caller that has one, in wall time.
    func nextDue(
        in scope: HandlerScope?, besides passed: PassedRows = PassedRows()
    ) throws(HandlerError) -> [Caller: Timestamp] {
        let callers = Caller.allCases
        return try connection.first(
            passed.excluded(scope == nil ? Self.selectNextDueOfProgram : Self.selectNextDue),
            scope.values + callers.map(\.rawValue)
        ) { row in
            var next: [Caller: Timestamp] = [:]
            for (column, caller) in callers.enumerated() { next[caller] = row.optionalTimestamp(column) }
            return next
        } ?? [:]
    }

    /// One statement for all four callers, as each takes a round trip where the database is on another machine.
    static let selectNextDue = """
        SELECT
            (SELECT due FROM handler WHERE scope = ?1 AND lane = ?2 AND due IS NOT NULL ORDER BY due LIMIT 1),
            (SELECT due FROM handler WHERE scope = ?1 AND lane = ?3 AND due IS NOT NULL ORDER BY due LIMIT 1),
            (SELECT due FROM handler WHERE scope = ?1 AND lane = ?4 AND due IS NOT NULL ORDER BY due LIMIT 1),
            (SELECT due FROM handler WHERE scope = ?1 AND lane = ?5 AND due IS NOT NULL ORDER BY due LIMIT 1)
        """

    /// The same for the program as a whole.
    static let selectNextDueOfProgram = """
        SELECT
            (SELECT due FROM handler WHERE scope IS NULL AND lane = ?1 AND due IS NOT NULL
                ORDER BY scope, lane, due LIMIT 1),
            (SELECT due FROM handler WHERE scope IS NULL AND lane = ?2 AND due IS NOT NULL
                ORDER BY scope, lane, due LIMIT 1),
            (SELECT due FROM handler WHERE scope IS NULL AND lane = ?3 AND due IS NOT NULL
                ORDER BY scope, lane, due LIMIT 1),
            (SELECT due FROM handler WHERE scope IS NULL AND lane = ?4 AND due IS NOT NULL
                ORDER BY scope, lane, due LIMIT 1)
        """

    /// When the next row of a scope is due, in its connected time.
    func nextConnectedDue(
        in scope: HandlerScope?, besides passed: PassedRows = PassedRows()
    ) throws(HandlerError) -> Duration? {
        try connection.first(
            passed.excluded(
                scope == nil ? Self.selectNextConnectedDueOfProgram : Self.selectNextConnectedDue),
            scope.values
        ) { $0.duration(0) }
    }

    static let selectNextConnectedDue = """
        SELECT connected_due FROM handler WHERE scope = ? AND connected_due IS NOT NULL ORDER BY connected_due LIMIT 1
        """
    static let selectNextConnectedDueOfProgram = """
        SELECT connected_due FROM handler WHERE scope IS NULL AND connected_due IS NOT NULL
        ORDER BY scope, connected_due LIMIT 1
        """

    /// The scopes with rows that wait for a clock, beside the program as a whole.
    ///
    /// - Parameter callers: The callers of the rows that matter.
    /// - Returns: By the wall clock the earliest time of each scope; by connected time the scopes alone.
    /// - Complexity: In the number of these scopes.
    func waitingScopes(_ callers: [Caller]) throws(HandlerError) -> (
        wall: [(HandlerScope, Timestamp)], connected: [HandlerScope]
    ) {
        var wall: [(HandlerScope, Timestamp)] = []
        var last: (scope: String, caller: Int64) = ("", -1)
        while let next = try connection.first(
            Self.nextWaiting, [last.scope, last.caller],
            { (scope: $0.text(0), caller: $0.integer(1), due: $0.timestamp(2)) })
        {
            if callers.contains(where: { $0.rawValue == next.caller }) {
                wall.append((HandlerScope(next.scope), next.due))
            }
            last = (next.scope, next.caller)
        }
        var connected: [HandlerScope] = []
        while let next = try connection.first(
            "SELECT scope FROM handler WHERE scope > ? AND connected_due IS NOT NULL ORDER BY scope LIMIT 1",
            [connected.last?.rawValue ?? ""], { HandlerScope($0.text(0)) })
        { connected.append(next) }
        return (wall, connected)
    }

    /// The earliest row of the next scope and caller in the index of due rows.
    static let nextWaiting = """
        SELECT scope, lane, due FROM handler WHERE (scope, lane) > (?, ?) AND due IS NOT NULL
        ORDER BY scope, lane, due LIMIT 1
        """

    /// Calls a due row, or ends a row that was not called in time.
    ///
    /// - Returns: A lease when the handler is to run under one, else nil.
    func deliver(_ due: Due, for store: HandlerStore, environment: (any HandlerEnvironment)?) throws
        -> Lease?
    {
        guard let row = try row(of: due) else { return nil }
        try Failpoint.beforeDue.hit()
        guard let bytes = row.call else {
            try expire(row, environment)
            return nil
        }
        let call: StoredCall
        do {
            call = try StoredCall(bytes, of: row.id)
        } catch {
            try calls.quarantine(row.id, StoredReason(error))
            return nil
        }
        if let reason = call.reason {
            _ = try invalidations.invalidate(
                row.id, call.outcome, reason: reason, error: call.error,
                overrides: call.overrides ?? Record(), environment: environment)
            return nil
        }
        guard try mayCall(row.id, row.relations) else { return nil }
        count(.called(now - (row.due ?? now)), row.name)
        let definition = registry.definition(named: row.name)
        for feature in HandlerFeatures.all {
            if try feature.init(transaction: transaction).deliver(row, definition, call, environment) {
                return nil
            }
        }
        if let period = row.period {
            try fire(row, every: period, call, environment)
            return nil
        }
        if let definition, definition.isAsync {
            guard try isForItsCaller(row, Caller(definition)) else { return nil }
            return try leases.claim(row, call, for: store, environment: environment)
        }
        _ = try calls.end(
            row.id, call.outcome, overrides: call.overrides ?? Record(),
            context: .kept { try self.context(of: row, $0, environment) })
        return nil
    }

    /// Returns whether all features let a due handler be called: first whether its time is over, then whether it has its turn.
    private func mayCall(_ id: AnyHandlerID, _ relations: Relations) throws(HandlerError) -> Bool {
        if relations.isEmpty { return true }
        for feature in HandlerFeatures.all.reversed() where !feature.relations.isDisjoint(with: relations) {
            guard try feature.init(transaction: transaction).mayCall(id) else { return false }
        }
        return true
    }

    /// Puts an async handler where it belongs, if another program or a retry left it elsewhere: there the number of
    /// leases, and who may have one, is minded.
    private func isForItsCaller(_ row: DueRow, _ caller: Caller) throws(HandlerError) -> Bool {
        if row.caller == caller.rawValue { return true }
        try handlers.set(caller, of: row.id)
        // It may have a place in a lane, which is looked after if nobody calls it.
        transaction.newDue.add(try handlers.scope(of: row.id), wall: now)
        return false
    }

    /// Ends a handler that was not called in time.
    private func expire(_ row: DueRow, _ environment: (any HandlerEnvironment)?) throws {
        try Failpoint.beforeTimeout.hit()
        _ = try invalidations.invalidate(
            row.id, .timeout, reason: .timedOut, overrides: Record(), environment: environment)
    }

    /// Calls a periodic timer once for all its times that have passed, and sets the next.
    private func fire(
        _ row: DueRow, every period: Duration, _ call: StoredCall, _ environment: (any HandlerEnvironment)?
    ) throws {
        let due = row.due ?? now
        let period = max(.milliseconds(1), period)
        let missed = (now - due).milliseconds / period.milliseconds
        _ = try calls.callStanding(
            row.id, overrides: call.overrides ?? Record(),
            context: .given(TimerFired(dueAt: due, missed: missed, environment: environment)))
        // The call may have paused or resumed it.
        if try handlers.relations(of: row.id)?.contains(.paused) ?? true {
            return try handlers.setDue(row.id, nil)
        }
        let next = due + period * (missed + 1)
        try handlers.setDue(row.id, next)
        transaction.newDue.addRepeated(row.scope, next)
    }

    /// Makes calls due now that wait for nothing but another attempt, or for a runner, and yet would wait for longer than
    /// anything does: the clock was ahead when they were put off, and was set back since. A handler that waits for a token of its lane's
    /// rate is left to ``Lanes/recallPlaces(longest:_:)``.
    func hasten(beyond longest: Duration, limit: Int) throws(HandlerError) {
        try transaction.storeChanges()
        let count = try connection.execute(
            "UPDATE handler SET due = ?3 WHERE id IN (\(Self.putOff))",
            [now + longest, limit, now])
        if count > 0 { transaction.newDue.isAnywhere = true }
    }

    /// The conditions are those of the index, word for word: SQLite takes it for no others.
    static let putOff = """
        SELECT id FROM handler
        WHERE due IS NOT NULL AND due > ?1 AND period IS NULL AND state = \(State.pending.sql) AND call IS NOT NULL
            AND (attempts > 0 OR deaths > 0 OR input IS NOT NULL)
            AND id NOT IN (SELECT token_waiter FROM lane WHERE token_waiter IS NOT NULL)
        LIMIT ?2
        """

    /// Returns the context of a stored call: the stored one, or the event of a timer.
    func context(
        of row: DueRow, _ definition: Definition, _ environment: (any HandlerEnvironment)?
    ) throws -> any Sendable {
        guard let input = row.input else {
            return TimerFired(dueAt: row.due ?? now, environment: environment)
        }
        return try definition.restore(input, in: environment)
    }
}

extension HandlerScope? {
    /// The values of the conditions `scope = ?` and `scope IS NULL`. One condition for both (`IS NOT DISTINCT FROM`) would have
    /// PostgreSQL read all rows, as it uses no index for that; nor does it take the index to be in order behind `IS NULL`, unless the
    /// scope is named in ORDER BY.
    var values: [any SQLConvertible] { map { [$0.rawValue] } ?? [] }
}
