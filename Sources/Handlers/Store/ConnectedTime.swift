/// Connected time: how long a scope was connected, or served by a runner, in all processes together.
///
/// It does not advance while nothing runs, so a process that was frozen for an hour does not find everything expired when
/// it thaws. One row a scope holds what was counted and when; whoever counts adds what has passed since then, but
/// never more than ``limit``: the rest was no time in which anything ran. Beside it the row has the slots on which it
/// runs, so that with a process that dies its part ends; what it had not counted is lost. A deadline so comes late by
/// at most ``limit`` after a kill, and early only by as much after a freeze. While the next deadline is far, the
/// runner counts less often and more at once, never so much that a freeze could reach the deadline.
struct ConnectedTime: TransactionTable {
    let transaction: Transaction

    /// The interval of counting while a deadline is near.
    static let tick = Duration.seconds(10)
    /// The delay of a count after which the process counts as frozen.
    static let slack = Duration.seconds(5)
    /// The most that is counted at once while a deadline is near.
    static let limit = tick + slack

    private struct ConnectedClock {
        var connected = Duration.zero
        /// The time of the monotonic clock of the last count.
        var credited: Duration
        var isRunning = false

        func connected(at monotonic: Duration, limit: Duration) -> Duration {
            // The monotonic clock starts again with the machine.
            isRunning ? connected + min(max(.zero, monotonic - credited), limit) : connected
        }
    }

    /// The connected time of a scope.
    func time(
        of scope: HandlerScope?, atMost limit: Duration = ConnectedTime.limit
    ) throws(HandlerError) -> Duration {
        try clock(of: scope).connected(at: transaction.monotonic, limit: limit)
    }

    /// Returns the connected time since the last count.
    func uncounted(of scope: HandlerScope?) throws(HandlerError) -> Duration {
        try transaction.monotonic - clock(of: scope).credited
    }

    /// Counts what has passed, but no more than `limit`, and returns the connected time.
    @discardableResult
    func count(
        of scope: HandlerScope?, atMost limit: Duration = ConnectedTime.limit
    ) throws(HandlerError) -> Duration {
        try NameBounds.check(scope?.rawValue, of: "a scope")
        let connected = try time(of: scope, atMost: limit)
        try connection.write(
            """
            INSERT INTO connected_clock(scope, connected, credited) VALUES (?, ?, ?)
            ON CONFLICT(scope) DO UPDATE SET connected = excluded.connected, credited = excluded.credited
            """,
            [scope?.rawValue ?? "", connected.milliseconds, transaction.monotonic.milliseconds])
        return connected
    }

    /// Starts the connected time of a scope in this process, or continues it.
    func start(of scope: HandlerScope?) throws(HandlerError) {
        try count(of: scope)
        try connection.write(
            "INSERT INTO connected_slot(scope, slot) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [scope?.rawValue ?? "", transaction.slot.number])
    }

    /// Stops the connected time of a scope in this process.
    func stop(of scope: HandlerScope?) throws(HandlerError) {
        try count(of: scope)
        try connection.write(
            "DELETE FROM connected_slot WHERE scope = ? AND slot = ?",
            [scope?.rawValue ?? "", transaction.slot.number])
    }

    private func clock(of scope: HandlerScope?) throws(HandlerError) -> ConnectedClock {
        try connection.first(
            """
            SELECT connected, credited, EXISTS (SELECT 1 FROM connected_slot WHERE connected_slot.scope = connected_clock.scope)
            FROM connected_clock WHERE scope = ?
            """, [scope?.rawValue ?? ""]
        ) { row in
            ConnectedClock(
                connected: row.duration(0), credited: row.duration(1), isRunning: row.quantity(2) != 0)
        } ?? ConnectedClock(credited: transaction.monotonic)
    }
}
