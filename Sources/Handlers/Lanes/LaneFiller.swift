/// Gives more places of a lane, when one step could not give all that are free: a timer.
///
/// ```text
///   a rule allows 1200 more ──▶ 500 are placed ──▶ filler, due at once ──▶ 500 more ──▶ filler ──▶ 200 more
/// ```
struct LaneFiller: Handler {
    static let id = "lane.filler"
    // It writes rows and calls nothing, so no error and no death is its own.
    static let retry = RetryPolicy(attempts: .max, deaths: .max)
    var lane: String
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.transaction.lanes.fillMore(of: Name(lane))
    }
}
