/// Live time: the seconds during which a scope was connected, or a runner served it, in all processes together.
///
/// It stands still while nothing runs, so a process that was frozen for an hour does not find everything expired when
/// it thaws. One row a scope holds what was counted and when; whoever counts adds what has passed since then, but
/// never more than ``liveTimeLimit``: the rest was no time in which anything ran. Beside it stands on which seats it
/// runs, so that with a process that dies its part ends; what it had not counted is lost. A deadline so comes late by
/// at most ``liveTimeLimit`` after a kill, and early only by as much after a freeze. While the next deadline is far, the
/// runner counts less often and more at once, never so much that a freeze could reach the deadline.
extension Transaction {
    /// How often it is counted while a deadline is near, in milliseconds.
    static let liveTimeTick: Int64 = 10_000
    /// How late that may be before the process counts as frozen, in milliseconds.
    static let liveTimeSlack: Int64 = 5000
    /// The most that is counted at once while a deadline is near, in milliseconds.
    static let liveTimeLimit = liveTimeTick + liveTimeSlack

    private struct LiveClock {
        var live: Int64 = 0
        var credited: Int64
        var isRunning = false

        func live(at monotonic: Int64, limit: Int64) -> Int64 {
            // The monotonic clock begins anew with the machine.
            isRunning ? live + min(max(0, monotonic - credited), limit) : live
        }
    }

    /// The live time of a scope in milliseconds.
    func liveTime(
        of scope: HandlerScope?, atMost limit: Int64 = Transaction.liveTimeLimit
    ) throws(HandlerError) -> Int64 {
        try clock(of: scope).live(at: monotonic, limit: limit)
    }

    /// What has passed since it was counted last.
    func uncountedLiveTime(of scope: HandlerScope?) throws(HandlerError) -> Int64 {
        try monotonic - clock(of: scope).credited
    }

    /// Counts what has passed, but no more than `limit`, and returns the live time.
    @discardableResult
    func countLiveTime(
        of scope: HandlerScope?, atMost limit: Int64 = Transaction.liveTimeLimit
    ) throws(HandlerError) -> Int64 {
        let live = try liveTime(of: scope, atMost: limit)
        try connection.execute(
            """
            INSERT INTO live_clock(scope, live, credited) VALUES (?, ?, ?)
            ON CONFLICT(scope) DO UPDATE SET live = excluded.live, credited = excluded.credited
            """,
            [scope?.rawValue ?? "", live, monotonic])
        return live
    }

    /// The scope begins, or goes on, to live in this process.
    func startLiveTime(of scope: HandlerScope?) throws(HandlerError) {
        try countLiveTime(of: scope)
        try connection.execute(
            "INSERT INTO live_seat(scope, seat) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [scope?.rawValue ?? "", slot.number])
    }

    /// The scope's time stands still, unless another process keeps it running.
    func stopLiveTime(of scope: HandlerScope?) throws(HandlerError) {
        try countLiveTime(of: scope)
        try connection.execute(
            "DELETE FROM live_seat WHERE scope = ? AND seat = ?", [scope?.rawValue ?? "", slot.number])
    }

    private func clock(of scope: HandlerScope?) throws(HandlerError) -> LiveClock {
        try connection.first(
            """
            SELECT live, credited, EXISTS (SELECT 1 FROM live_seat WHERE live_seat.scope = live_clock.scope)
            FROM live_clock WHERE scope = ?
            """, [scope?.rawValue ?? ""]
        ) { (row) throws(HandlerError) in
            LiveClock(live: row.quantity(0), credited: row.quantity(1), isRunning: row.quantity(2) != 0)
        } ?? LiveClock(credited: monotonic)
    }
}
