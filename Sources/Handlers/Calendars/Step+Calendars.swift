/// Timers that follow a calendar.
extension Step {
    /// Stores a timer that a ``HandlerRunner`` calls at the times of a calendar.
    ///
    /// A program that schedules it with a key each time it starts has one. With ``KeyRule/keep`` a timer that waits keeps its arguments,
    /// and follows the new calendar if that is another one.
    ///
    /// ```swift
    /// try step.schedule(
    ///     Reminder(text: "report").durable, on: .daily(at: 9, in: "Europe/Zurich"), key: "report")
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - rule: When it is called.
    ///   - missed: What is done about times that passed while no process ran the timer.
    ///   - key: A key, 1 to 512 bytes of UTF-8, without U+0000; nil for none. See ``bind(_:key:ifTaken:timeout:deadline:in:)``.
    ///   - keyRule: What happens when another handler has the key.
    ///   - scope: Whose environment the call gets; nil for the program as a whole.
    /// - Returns: The handler's row; `invalidate` cancels it.
    /// - Throws: ``HandlerError`` `keyTaken`, `invalidKey`, or with the codes of the store.
    @discardableResult
    public func schedule(
        _ handler: Durable<TimerFired>, on rule: CalendarRule, missed: MissedTimes = .once,
        key: String? = nil, ifTaken keyRule: KeyRule = .keep, in scope: HandlerScope? = nil
    ) throws -> HandlerID<TimerFired> {
        let timing = Timing(at: rule.next(after: now), scope)
        let id =
            if let key {
                try transaction.keys.bind(
                    handler, kind: .standing, timing: timing, key: key, ifTaken: keyRule)
            } else {
                try transaction.handlers.bind(handler, kind: .standing, timing: timing)
            }
        try transaction.calendars.set(rule, missed, of: id)
        return HandlerID(of: id)
    }

    /// Stops the calls of a timer that follows a calendar, until it is resumed.
    ///
    /// ```swift
    /// if let timer = try step.status(ofKey: "report") { try step.pause(timer.id) }
    /// ```
    ///
    /// - Parameter id: The timer's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when no timer that follows a calendar has this row, or with the codes of the store.
    public func pause<Context>(_ id: HandlerID<Context>) throws(HandlerError) {
        try transaction.calendars.setPaused(true, AnyHandlerID(id))
    }

    /// Has a paused timer called again, from its next time on. What was due while it was paused is not made up for.
    ///
    /// - Parameter id: The timer's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when no timer that follows a calendar has this row, `invalidCalendar` when this machine
    ///   does not know its time zone, or with the codes of the store.
    public func resume<Context>(_ id: HandlerID<Context>) throws(HandlerError) {
        try transaction.calendars.setPaused(false, AnyHandlerID(id))
    }

    /// Has a runner call a timer that follows a calendar now, beside its times. A paused one is called, too, and stays paused.
    ///
    /// - Parameter id: The timer's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when no timer that follows a calendar has this row, or with the codes of the store.
    public func runNow<Context>(_ id: HandlerID<Context>) throws(HandlerError) {
        try transaction.calendars.runNow(AnyHandlerID(id))
    }
}
