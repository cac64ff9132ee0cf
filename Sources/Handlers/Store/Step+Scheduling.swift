/// Handlers that a ``HandlerRunner`` calls when their time has come.
extension Step {
    /// Stores a handler together with the time in which it must be called.
    ///
    /// When that runs out, the handler ends with the outcome `timeout`: what was bound with ``Durable/orElse(_:)``
    /// runs instead, with the reason `timedOut`.
    ///
    /// ```swift
    /// try step.bind(Thank(customer: "Ada").durable, timeout: .seconds(60))
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - timeout: How much **connected** time it has: time in which the scope is connected, or a runner serves it. A
    ///     program that was frozen for an hour so does not find everything expired when it thaws.
    ///   - deadline: Also when the **wall clock** passes this; nil for never.
    ///   - scope: Whose connected time counts, and whose environment ``Invalidation`` gets; nil for the program as a whole.
    /// - Returns: The handler's row.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func bind<Context>(
        _ handler: Durable<Context>, timeout: Duration?, deadline: Timestamp? = nil,
        in scope: HandlerScope? = nil
    ) throws(HandlerError) -> HandlerID<Context> {
        HandlerID(
            of: try transaction.handlers.bind(
                handler, kind: .once, timing: .init(timeout: timeout, deadline: deadline, scope: scope)))
    }

    /// Stores a timer: a handler that a ``HandlerRunner`` calls after a time.
    ///
    /// It is kept like any other handler and survives the process. When no process runs at that time, it is called as
    /// soon as one does. The time is one of the wall clock: a clock that is set forward calls the timer at once, and after a clock
    /// was set back the timer waits until the clock shows the time again. Timeouts do not depend on the wall clock.
    ///
    /// ```swift
    /// try step.schedule(Reminder(text: "tea").durable, after: .seconds(300))
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - delay: The wall-clock time until it is called, 0 or more; a part of a millisecond is dropped.
    ///   - period: How long it waits from one call to the next, at least a millisecond, of which a part is dropped; nil for a timer that
    ///     fires once. Times that passed while no process ran are counted in ``TimerFired/missed`` and not made up for.
    ///   - scope: Whose environment the call gets; nil for the program as a whole.
    /// - Returns: The handler's row; `invalidate` cancels it.
    /// - Throws: ``HandlerError`` `invalidInterval`, or with the codes of the store.
    @discardableResult
    public func schedule(
        _ handler: Durable<TimerFired>, after delay: Duration, every period: Duration? = nil,
        in scope: HandlerScope? = nil
    ) throws(HandlerError) -> HandlerID<TimerFired> {
        HandlerID(
            of: try transaction.handlers.bind(
                handler, kind: period == nil ? .once : .standing,
                timing: try .init(timerAfter: delay, every: period, scope, now)))
    }

    /// The connected time of a scope: what timeouts count.
    ///
    /// - Parameter scope: The scope; nil for the program as a whole.
    /// - Returns: The time for which the scope was connected so far; it does not advance while the scope is connected in no process.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func connectedTime(of scope: HandlerScope? = nil) throws(HandlerError) -> Duration {
        try transaction.connectedTime.time(of: scope)
    }
}
