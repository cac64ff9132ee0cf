extension CalendarRule {
    /// A day of the week. Its number is that of an expression.
    public enum Weekday: Int, Hashable, Sendable, CaseIterable {
        case sunday, monday, tuesday, wednesday, thursday, friday, saturday
    }

    /// Makes a rule that happens every hour, in real time.
    ///
    /// ```swift
    /// let rule = try CalendarRule.hourly(minute: 30, in: "UTC")
    /// ```
    ///
    /// - Parameters:
    ///   - minute: 0 to 59.
    ///   - timeZone: The name of the time zone.
    /// - Returns: The rule with the expression `30 * * * *`.
    /// - Throws: ``HandlerError`` `invalidCalendar` when a number is out of its range or the time zone is unknown.
    public static func hourly(minute: Int = 0, in timeZone: String) throws(HandlerError) -> CalendarRule {
        try CalendarRule("\(minute) * * * *", in: timeZone)
    }

    /// Makes a rule that happens every day.
    ///
    /// ```swift
    /// let rule = try CalendarRule.daily(at: 7, 30, in: "Europe/Zurich")
    /// ```
    ///
    /// - Parameters:
    ///   - hour: 0 to 23, of local time.
    ///   - minute: 0 to 59.
    ///   - timeZone: The name of the time zone.
    /// - Returns: The rule with the expression `30 7 * * *`.
    /// - Throws: ``HandlerError`` `invalidCalendar` when a number is out of its range or the time zone is unknown.
    public static func daily(
        at hour: Int, _ minute: Int = 0, in timeZone: String
    ) throws(HandlerError) -> CalendarRule {
        try CalendarRule("\(minute) \(hour) * * *", in: timeZone)
    }

    /// Makes a rule that happens every week.
    ///
    /// ```swift
    /// let rule = try CalendarRule.weekly(on: .monday, at: 9, in: "Europe/Zurich")
    /// ```
    ///
    /// - Parameters:
    ///   - weekday: The day of the week.
    ///   - hour: 0 to 23, of local time.
    ///   - minute: 0 to 59.
    ///   - timeZone: The name of the time zone.
    /// - Returns: The rule with the expression `0 9 * * 1`.
    /// - Throws: ``HandlerError`` `invalidCalendar` when a number is out of its range or the time zone is unknown.
    public static func weekly(
        on weekday: Weekday, at hour: Int, _ minute: Int = 0, in timeZone: String
    ) throws(HandlerError) -> CalendarRule {
        try CalendarRule("\(minute) \(hour) * * \(weekday.rawValue)", in: timeZone)
    }

    /// Makes a rule that happens every month that has the day.
    ///
    /// ```swift
    /// let rule = try CalendarRule.monthly(onDay: 15, at: 9, in: "Europe/Zurich")
    /// ```
    ///
    /// - Parameters:
    ///   - day: 1 to 31. A month without this day is left out; `CalendarRule("0 9 L * *", in: zone)` is the last day of each month.
    ///   - hour: 0 to 23, of local time.
    ///   - minute: 0 to 59.
    ///   - timeZone: The name of the time zone.
    /// - Returns: The rule with the expression `0 9 15 * *`.
    /// - Throws: ``HandlerError`` `invalidCalendar` when a number is out of its range or the time zone is unknown.
    public static func monthly(
        onDay day: Int, at hour: Int, _ minute: Int = 0, in timeZone: String
    ) throws(HandlerError) -> CalendarRule {
        try CalendarRule("\(minute) \(hour) \(day) * *", in: timeZone)
    }
}
