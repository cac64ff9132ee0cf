/// What is due: timers, retries, deadlines, and handlers that could not run where they were called.
extension Transaction {
    /// A row whose time has come.
    struct DueRow {
        let id: HandlerID
        let name: String
        let due: Int64?
        let period: Int64?
        let call: [UInt8]?
        let input: [UInt8]?
    }

    /// The rows of a scope that are due, longest due first.
    ///
    /// - Complexity: In the number returned, not in the number that waits.
    func due(in scope: HandlerScope?, lane: Lane, limit: Int) throws(HandlerError) -> [DueRow] {
        try connection.all(
            """
            SELECT id, name, due, period, call, input FROM handler
            WHERE scope IS ? AND lane = ? AND due <= ? ORDER BY due LIMIT ?
            """, [scope?.rawValue, lane.rawValue, now, limit], Self.dueRow)
    }

    /// The rows of a scope whose live time has run out, longest first.
    func dueByLiveTime(in scope: HandlerScope?, _ live: Int64, limit: Int) throws(HandlerError) -> [DueRow] {
        try connection.all(
            """
            SELECT id, name, live_due, period, call, input FROM handler
            WHERE scope IS ? AND live_due <= ? ORDER BY live_due LIMIT ?
            """, [scope?.rawValue, live, limit], Self.dueRow)
    }

    /// When the next row of a scope is due, in wall time.
    func nextDue(in scope: HandlerScope?, lane: Lane) throws(HandlerError) -> Int64? {
        try connection.first(
            "SELECT due FROM handler WHERE scope IS ? AND lane = ? AND due IS NOT NULL ORDER BY due LIMIT 1",
            [scope?.rawValue, lane.rawValue]
        ) { (row) throws(HandlerError) in row.integer(0) }
    }

    /// When the next row of a scope is due, in its live time.
    func nextLiveDue(in scope: HandlerScope?) throws(HandlerError) -> Int64? {
        try connection.first(
            "SELECT live_due FROM handler WHERE scope IS ? AND live_due IS NOT NULL ORDER BY live_due LIMIT 1",
            [scope?.rawValue]
        ) { (row) throws(HandlerError) in row.integer(0) }
    }

    /// Calls a row that is due, or expires one that nobody called in time.
    ///
    /// - Returns: A lease when the handler is to run under one, else nil.
    func deliver(_ row: DueRow, for store: HandlerStore, environment: (any HandlerEnvironment)?) throws
        -> Lease?
    {
        try Failpoint.beforeDue.hit()
        guard let bytes = row.call else {
            try expire(row, environment)
            return nil
        }
        let call: StoredCall
        do {
            call = try StoredCall(bytes, of: row.id)
        } catch {
            try quarantine(row.id, plainReason(error))
            return nil
        }
        if let reason = call.reason {
            _ = try invalidate(
                row.id, call.outcome, reason: reason, overrides: call.overrides ?? Record(),
                environment: environment)
            return nil
        }
        if let period = row.period {
            try fire(row, every: period, call, environment)
            return nil
        }
        if registry.definition(named: row.name)?.isAsync == true {
            return try claim(row, call, for: store, environment: environment)
        }
        _ = try end(
            row.id, call.outcome, overrides: call.overrides ?? Record(),
            context: .kept { try self.context(of: row, $0, environment) })
        return nil
    }

    /// Ends a handler that nobody called in time.
    private func expire(_ row: DueRow, _ environment: (any HandlerEnvironment)?) throws {
        try Failpoint.beforeTimeout.hit()
        _ = try invalidate(
            row.id, .timeout, reason: .timedOut, overrides: Record(), environment: environment)
    }

    /// Calls a periodic timer once for all its times that have passed, and sets the next.
    private func fire(
        _ row: DueRow, every period: Int64, _ call: StoredCall, _ environment: (any HandlerEnvironment)?
    ) throws {
        let due = row.due ?? now
        let missed = max(0, now - due) / max(1, period)
        _ = try callStanding(
            row.id, overrides: call.overrides ?? Record(),
            context: .given(TimerFired(due: due, missed: missed, environment: environment)))
        try connection.execute(
            "UPDATE handler SET due = ? WHERE id = ?", [TimeSource.sum(due, period * (missed + 1)), row.id])
    }

    /// What a stored call is made with: what was kept of it, or the news that a timer fired.
    func context(
        of row: DueRow, _ definition: Definition, _ environment: (any HandlerEnvironment)?
    ) throws -> any Sendable {
        guard let input = row.input else {
            return TimerFired(due: row.due ?? now, environment: environment)
        }
        return try definition.restore(input, in: environment)
    }

    /// Sets a row aside as it stands.
    func quarantine(_ id: HandlerID, _ reason: String) throws(HandlerError) {
        try connection.execute(
            "UPDATE handler SET state = 2, due = NULL, live_due = NULL, lease = NULL, reason = ? WHERE id = ?",
            [reason, id])
    }

    private static func dueRow(_ row: borrowing Row) throws(HandlerError) -> DueRow {
        DueRow(
            id: HandlerID(rawValue: row.integer(0)), name: row.text(1), due: row.optionalInteger(2),
            period: row.optionalInteger(3), call: row.isNull(4) ? nil : row.blob(4),
            input: row.isNull(5) ? nil : row.blob(5))
    }
}
