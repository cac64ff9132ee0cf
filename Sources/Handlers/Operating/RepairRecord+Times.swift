/// Changes of the times of handlers by hand.
extension RepairRecord {
    /// Has a runner call a handler now that waits for its time or its next attempt.
    func runNow(_ id: AnyHandlerID) throws {
        if try handlers.relations(of: id)?.contains(.calendar) ?? false { return try calendars.runNow(id) }
        let changed = try connection.execute(
            """
            UPDATE handler SET due = ?1 WHERE id = ?2 AND state = \(State.pending.sql) AND call IS NOT NULL
                AND (due > ?1 OR period IS NOT NULL)
            """, [now, id])
        guard changed == 1 else {
            throw HandlerError(
                .noSuchHandler,
                "the handler \(id) waits for no time and no further attempt, so it cannot be called now; inspect says what it waits for"
            )
        }
        transaction.newDue.isAnywhere = true
    }

    /// Pauses or resumes a timer that follows a calendar, or a period.
    func setPaused(_ isPaused: Bool, _ id: AnyHandlerID) throws(HandlerError) {
        if try handlers.relations(of: id)?.contains(.calendar) ?? false {
            return try calendars.setPaused(isPaused, id)
        }
        let found = try connection.first(
            "SELECT period, state, due FROM handler WHERE id = ? AND period IS NOT NULL", [id]
        ) { (period: $0.duration(0), isPending: $0.integer(1) == State.pending.rawValue) }
        guard let found, found.isPending else {
            throw HandlerError(
                .noSuchHandler,
                "no timer with the row \(id) has a calendar or a period, or it is quarantined or parked; there is nothing to pause or resume"
            )
        }
        guard try handlers.relations(of: id)?.contains(.paused) != isPaused else { return }
        if isPaused {
            try handlers.add(.paused, to: id)
            try handlers.setDue(id, nil)
        } else {
            try handlers.remove(.paused, from: id)
            try handlers.setDue(id, now + max(.milliseconds(1), found.period))
        }
        transaction.newDue.isAnywhere = true
    }
}
