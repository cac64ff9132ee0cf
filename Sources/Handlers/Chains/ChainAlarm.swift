/// Ends the handlers of a chain when its time is over: a timer.
struct ChainAlarm: Handler {
    static let id = "chain.alarm"
    // It writes rows and calls nothing, so no error and no death is its own.
    static let retry = RetryPolicy(attempts: .max, deaths: .max)
    /// The row of the limit.
    var chain: Int64
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.transaction.chains.endMembers(of: chain)
    }
}
