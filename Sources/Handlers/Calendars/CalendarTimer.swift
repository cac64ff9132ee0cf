/// A timer that follows a calendar, for inspection.
///
/// ```swift
/// if let timer = try store.read({ try $0.calendarTimer(id) }) {
///     print(timer.rule, timer.isPaused ? "paused" : "\(timer.times(10))")
/// }
/// ```
public struct CalendarTimer: Hashable, Sendable {
    /// When its handler is called.
    public let rule: CalendarRule
    /// What it does about times that passed while no process ran it.
    public let missedTimes: MissedTimes
    /// Whether it is called at none of its times; see ``Step/pause(_:)``.
    public let isPaused: Bool
    /// When its handler is called next, by the wall clock. Nil while it is paused, parked or quarantined.
    public let dueAt: Timestamp?

    /// Returns the times of the next calls.
    ///
    /// - Parameter count: How many, from 0 to 1000.
    /// - Returns: The times, the soonest first; empty without a next one.
    public func times(_ count: Int) -> [Timestamp] {
        guard let dueAt, count > 0 else { return [] }
        let following = isPaused ? [] : rule.times(after: dueAt, count: min(count, MissedTimes.maximum) - 1)
        return [dueAt] + following
    }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns the calendar of a timer. Nil if the timer follows none, has ended or never existed.
    ///
    /// - Parameter id: The timer's row.
    /// - Returns: The calendar.
    /// - Throws: ``HandlerError`` with the codes of the store; `invalidCalendar` when this machine does not know its time zone.
    public func calendarTimer<Context>(_ id: HandlerID<Context>) throws(HandlerError) -> CalendarTimer? {
        try first(
            """
            SELECT calendar.expression, calendar.time_zone, calendar.missed, calendar.is_paused, handler.due
            FROM calendar JOIN handler ON handler.id = calendar.handler WHERE calendar.handler = ?
            """, id
        ) { (row) throws(HandlerError) in
            CalendarTimer(
                rule: try CalendarRule(row.text(0), in: row.text(1)),
                missedTimes: MissedTimes(stored: row.integer(2)), isPaused: row.integer(3) != 0,
                dueAt: row.optionalTimestamp(4))
        }
    }
}
