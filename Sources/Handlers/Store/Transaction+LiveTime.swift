/// Live time: the seconds during which a scope was connected, or a runner served it, in all processes together.
///
/// It stands still while nothing runs, so a process that was frozen for an hour does not find everything expired when
/// it thaws. One row a scope holds what was counted and when; whoever counts adds what has passed since then, but
/// never more than ``liveTimeLimit``: the rest was no time in which anything ran. A deadline so comes late by at most
/// that much after a kill, and never early.
extension Transaction {
    /// How often it is counted while something waits for it, in milliseconds.
    static let liveTimeTick: Int64 = 10_000
    /// The most that is counted at once, in milliseconds.
    static let liveTimeLimit: Int64 = 15_000

    private struct LiveClock {
        var live: Int64 = 0
        var credited: Int64
        var running: Int64 = 0

        func live(at monotonic: Int64) -> Int64 {
            // The monotonic clock begins anew with the machine.
            running > 0 ? live + min(max(0, monotonic - credited), Transaction.liveTimeLimit) : live
        }
    }

    /// The live time of a scope in milliseconds.
    func liveTime(of scope: HandlerScope?) throws(HandlerError) -> Int64 {
        try clock(of: scope).live(at: monotonic)
    }

    /// What has passed since it was counted last.
    func uncountedLiveTime(of scope: HandlerScope?) throws(HandlerError) -> Int64 {
        try monotonic - clock(of: scope).credited
    }

    /// Counts what has passed, and returns the live time.
    func countLiveTime(of scope: HandlerScope?) throws(HandlerError) -> Int64 {
        try setLiveTime(of: scope) { clock in clock.running = max(1, clock.running) }
    }

    /// The scope begins, or goes on, to live.
    func startLiveTime(of scope: HandlerScope?) throws(HandlerError) {
        try setLiveTime(of: scope) { clock in clock.running += 1 }
    }

    /// The scope's time stands still, unless another process keeps it running.
    func stopLiveTime(of scope: HandlerScope?) throws(HandlerError) {
        try setLiveTime(of: scope) { clock in clock.running = max(0, clock.running - 1) }
    }

    @discardableResult
    private func setLiveTime(
        of scope: HandlerScope?, _ change: (inout LiveClock) -> Void
    ) throws(HandlerError) -> Int64 {
        var clock = try clock(of: scope)
        clock.live = clock.live(at: monotonic)
        clock.credited = monotonic
        change(&clock)
        try connection.execute(
            "INSERT OR REPLACE INTO live_clock(scope, live, credited, running) VALUES (?, ?, ?, ?)",
            [scope?.rawValue ?? "", clock.live, clock.credited, clock.running])
        return clock.live
    }

    private func clock(of scope: HandlerScope?) throws(HandlerError) -> LiveClock {
        try connection.first(
            "SELECT live, credited, running FROM live_clock WHERE scope = ?", [scope?.rawValue ?? ""]
        ) { (row) throws(HandlerError) in
            LiveClock(live: row.integer(0), credited: row.integer(1), running: row.integer(2))
        } ?? LiveClock(credited: monotonic)
    }
}
