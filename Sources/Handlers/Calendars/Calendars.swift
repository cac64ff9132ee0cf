/// Timers that follow a calendar: their rows, and their calls.
struct Calendars: HandlerFeature {
    static let relations = Relations.calendar
    let transaction: Transaction

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        try connection.write("DELETE FROM calendar WHERE handler = ?", [id])
    }

    /// Calls a timer that follows a calendar; its period is 0.
    func deliver(
        _ row: DueRow, _ definition: Definition?, _ call: StoredCall,
        _ environment: (any HandlerEnvironment)?
    ) throws -> Bool {
        guard row.period == .zero else { return false }
        try fire(row, call, environment)
        return true
    }

    /// Stores what a timer follows. One that follows the same rule already keeps its time.
    func set(_ rule: CalendarRule, _ missed: MissedTimes, of id: AnyHandlerID) throws {
        let next = rule.next(after: now)
        let known = try connection.first(
            """
            SELECT calendar.expression, calendar.time_zone, handler.due, handler.state FROM calendar JOIN handler ON handler.id = calendar.handler
            WHERE calendar.handler = ?
            """, [id]
        ) {
            (
                expression: $0.text(0), timeZone: $0.text(1), due: $0.optionalTimestamp(2),
                isParked: $0.integer(3) == State.parked.rawValue
            )
        }
        try connection.write(
            """
            INSERT INTO calendar(handler, expression, time_zone, missed) VALUES (?, ?, ?, ?)
            ON CONFLICT(handler) DO UPDATE SET
                expression = excluded.expression, time_zone = excluded.time_zone, missed = excluded.missed
            """, [id, rule.expression, rule.timeZone, missed.stored])
        if known == nil { try handlers.add(.calendar, to: id) }
        if let known {
            // Another program did not know its time zone.
            if known.isParked { return try repairs.requeue(id) }
            // A time that has come is called or missed by the rule that it belongs to.
            if let due = known.due, due <= now { return }
            let isSame = known.expression == rule.expression && known.timeZone == rule.timeZone
            // One that is further away was planned by a clock that was ahead.
            if isSame, known.due ?? now <= next ?? now { return }
        }
        try plan(id, at: next)
        transaction.newDue.isAnywhere = true
    }

    /// Sets the time of the next call; none while it is paused.
    private func plan(_ id: AnyHandlerID, at time: Timestamp?) throws(HandlerError) {
        let isPaused = try connection.first("SELECT is_paused FROM calendar WHERE handler = ?", [id]) {
            $0.integer(0) != 0
        }
        try connection.write(
            "UPDATE handler SET period = 0, due = ?, input = NULL WHERE id = ? AND state = \(State.pending.sql)",
            [isPaused == true ? nil : time, id])
    }

    func setPaused(_ isPaused: Bool, _ id: AnyHandlerID) throws(HandlerError) {
        let timer = try timer(id)
        guard timer.isPaused != isPaused else { return }
        try connection.write("UPDATE calendar SET is_paused = ? WHERE handler = ?", [isPaused ? 1 : 0, id])
        try plan(id, at: timer.rule.next(after: now))
        transaction.newDue.isAnywhere = true
    }

    func runNow(_ id: AnyHandlerID) throws(HandlerError) {
        if let due = try timer(id).dueAt, due <= now { return }
        let changed = try connection.execute(
            "UPDATE handler SET due = ? WHERE id = ? AND state = \(State.pending.sql)", [now, id])
        guard changed == 1 else {
            throw HandlerError(
                .noSuchHandler,
                "the timer \(id) is quarantined or parked; requeue it, and it is called at once")
        }
        transaction.newDue.isAnywhere = true
    }

    private func timer(_ id: AnyHandlerID) throws(HandlerError) -> CalendarTimer {
        guard let timer = try Step(transaction).calendarTimer(id) else {
            throw HandlerError(
                .noSuchHandler, "no timer with the row \(id) follows a calendar; schedule it with one")
        }
        return timer
    }

    /// Calls a timer for one of its times, and sets the next, which may have passed, too.
    private func fire(
        _ row: DueRow, _ call: StoredCall, _ environment: (any HandlerEnvironment)?
    ) throws {
        let timer: CalendarTimer
        do {
            timer = try self.timer(row.id)
        } catch {
            guard error.code == .invalidCalendar || error.code == .noSuchHandler else { throw error }
            if let zone = try missingZone(of: row.id) { return try park(row, .zone(zone)) }
            return try calls.quarantine(row.id, StoredReason(error))
        }
        let due = try row.input.map { try TimerFired(restoring: $0, in: nil).dueAt } ?? row.due ?? now
        let chosen = timer.missedTimes.call(timer.rule, due: due, now: now)
        // First, so that the handler may pause it, give it another calendar or have itself called again.
        try plan(row.id, at: chosen.next)
        transaction.newDue.addRepeated(row.scope, chosen.next)
        guard let time = chosen.time else { return }
        _ = try calls.callStanding(
            row.id, overrides: call.overrides ?? Record(),
            context: .given(
                TimerFired(dueAt: time, missed: Int64(chosen.missed), environment: environment)))
    }

    /// The time zone of a timer, if this machine does not know it and another one may.
    private func missingZone(of id: AnyHandlerID) throws(HandlerError) -> String? {
        let calendar = try connection.first(
            "SELECT expression, time_zone FROM calendar WHERE handler = ?", [id]
        ) { (expression: $0.text(0), zone: $0.text(1)) }
        guard let calendar, (try? CalendarFields(calendar.expression)) != nil,
            TimeZoneRules.mayBeKnown(calendar.zone), !TimeZoneRules.isKnown(calendar.zone)
        else { return nil }
        return calendar.zone
    }

    /// Leaves a timer to a program that can call it, with the time for which it is due.
    private func park(_ row: DueRow, _ lack: Lack) throws {
        let reason = lack.error().message
        let input = try row.input ?? TimerFired(dueAt: row.due ?? now).stored()
        try connection.write(
            "UPDATE handler SET state = \(State.parked.sql), due = NULL, input = ?, reason = ? WHERE id = ?",
            [input, reason, row.id])
        try handlers.setLack(lack, of: row.id)
        log(.warning, .handlers) { "the timer \(row.id) ('\(row.name)') is parked: \(reason)" }
    }
}

extension TransactionTable {
    var calendars: Calendars { Calendars(transaction: transaction) }
}
