/// The times at which a calendar says to call a handler: a cron expression in a time zone.
///
/// ```swift
/// let rule = try CalendarRule("0 9 * * 1-5", in: "Europe/Zurich")
/// if let morning = rule.next(after: step.now) { print("next at \(morning)") }
/// ```
///
/// ## Expressions
///
/// An expression has five fields, separated by spaces. Names are English, in upper or lower case.
///
/// | Field | Values | Also |
/// |---|---|---|
/// | minute | 0 to 59 | |
/// | hour | 0 to 23 | |
/// | day of the month | 1 to 31 | `L`, the month's last day |
/// | month | 1 to 12 | `jan` to `dec` |
/// | day of the week | 0 to 7, with 0 and 7 for Sunday | `sun` to `sat`, `mon#2` for the month's second Monday, `fri#L` for its last Friday |
///
/// A field is `*` for every value, `*/15` for every 15th one from the lowest, or a list such as `1,10-20,30-59/5` of values, of ranges
/// and of ranges with a step. In the day fields a list may hold the forms of the last column.
///
/// When both day fields are restricted, a day that matches either of them matches: `0 9 13 * fri` is each Friday and each 13th. A
/// day field is restricted unless it begins with `*`. Otherwise a day must match both.
///
/// `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually` stand for the start of each such period; a
/// week starts on Sunday.
///
/// ## Changes of the clock
///
/// A rule whose hour field is `*` or `*/n` follows real time: it happens whenever the local clock shows a time that matches. It happens
/// in both passes of a repeated hour, and not in an hour that the clock skips.
///
/// Any other rule names local times. Each of them happens once, when the local clock first reaches or passes it:
///
/// - A time that the clock skips happens at the first moment after the gap. Several times in one gap happen there together, as one time.
///   In Zurich, where 02:00 becomes 03:00 in March, `30 2 * * *` then happens at 03:00.
/// - A time that comes twice happens the first time only. In New York, where 02:00 becomes 01:00 in November, `30 1 * * *` then happens
///   before the clock is put back.
/// - A day that the clock skips is a gap, too. Samoa had no 30 December 2011, so `0 9 30 12 *` in `Pacific/Apia` happened at 00:00 on the
///   31st.
///
/// ## Time zones
///
/// A time zone is read from the system's time zone database, once in each process. A process that is not restarted keeps the rules of a
/// zone although the database has been updated. `UTC` needs no database.
public struct CalendarRule: Hashable, Sendable, CustomStringConvertible {
    /// The cron expression, as it was given.
    public let expression: String
    /// The name of the time zone in the time zone database, such as `Europe/Zurich`.
    public let timeZone: String
    let fields: CalendarFields
    let zone: TimeZoneRules

    /// Makes a rule.
    ///
    /// ```swift
    /// let rule = try CalendarRule("30 18 L * *", in: "America/New_York")
    /// ```
    ///
    /// - Parameters:
    ///   - expression: Five fields or a name that starts with `@`; at most 256 bytes.
    ///   - timeZone: The name of a time zone, at most 64 bytes; `UTC` for none.
    /// - Throws: ``HandlerError`` `invalidCalendar` when the expression is wrong, when it never happens, such as on 30 February, or when
    ///   the time zone is unknown or unreadable.
    public init(_ expression: String, in timeZone: String) throws(HandlerError) {
        self.expression = expression
        self.timeZone = timeZone
        fields = try CalendarFields(expression)
        zone = try TimeZoneRules.cached(timeZone)
    }

    public static func == (left: CalendarRule, right: CalendarRule) -> Bool {
        left.expression == right.expression && left.timeZone == right.timeZone
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(expression)
        hasher.combine(timeZone)
    }

    /// The rule for logs, such as `0 9 * * 1-5 in Europe/Zurich`.
    public var description: String { "\(expression) in \(timeZone)" }
}
