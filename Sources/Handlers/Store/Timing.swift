/// The times at which a row is called or expires by itself.
struct Timing {
    /// When it is called or expires, by the wall clock.
    var due: Timestamp?
    /// In connected time, from now on.
    var timeout: Duration?
    var period: Duration?
    var scope: HandlerScope?
    var isTimer = false

    init(timeout: Duration? = nil, deadline: Timestamp? = nil, scope: HandlerScope? = nil) {
        (due, self.timeout, self.scope) = (deadline, timeout, scope)
    }

    /// - Throws: ``HandlerError`` `invalidInterval`.
    init(
        timerAfter delay: Duration, every period: Duration?, _ scope: HandlerScope?, _ now: Timestamp
    ) throws(HandlerError) {
        if let period, period < .milliseconds(1) {
            throw HandlerError(
                .invalidInterval,
                "the interval of a timer is \(period); it must be a millisecond or more, or nil for a timer that fires once"
            )
        }
        let delay = BuiltInFault.earlyTimer.isOn ? .seconds(delay.components.seconds) : delay
        due = now + max(.zero, delay)
        self.period = period
        self.scope = scope
        isTimer = true
    }

    /// Of a timer whose next times are set elsewhere.
    init(at time: Timestamp?, _ scope: HandlerScope?) {
        (due, self.scope, isTimer) = (time, scope, true)
    }
}
