/// The days that the two day fields of a cron expression name.
struct CalendarDays: Sendable {
    /// Bit n for the day n of the month, from 1.
    let days: UInt64
    /// Whether the last day of the month is one of them.
    let hasLastDay: Bool
    /// Bit n for the day n of the week, 0 for Sunday.
    let weekdays: UInt64
    /// Weekdays of one week of the month.
    let numbered: NumberedWeekdays
    /// Whether a day that matches one of the two fields matches, because both are restricted.
    let needsOnlyOne: Bool

    /// Returns the days of a month that match: bit n for the day n, from 1.
    func matching(_ month: CalendarMonth) -> UInt64 {
        let length = month.length
        let all: UInt64 = (1 << (length + 1)) - 2
        let byDay = (hasLastDay ? days | 1 << length : days) & all
        let first = CalendarMonth.weekday(of: month.firstDay)
        var byWeekday = Self.spread(weekdays, first)
        if !numbered.isEmpty { byWeekday |= numbered.days(first, length) }
        return needsOnlyOne ? (byDay | byWeekday) & all : byDay & byWeekday
    }

    /// Returns the days of a month that are one of these weekdays, as if it had 35 days.
    ///
    /// - Parameter first: The weekday of the month's first day.
    static func spread(_ weekdays: UInt64, _ first: Int64) -> UInt64 {
        let week = (weekdays | weekdays << 7) >> first & 0x7f
        return (week | week << 7 | week << 14 | week << 21 | week << 28) << 1
    }
}

/// Weekdays of one week of the month, such as its second Monday.
struct NumberedWeekdays: Sendable {
    /// Seven bits, one for each weekday, for each of the weeks 1 to 5 of a month and for its last one.
    private var bits: UInt64 = 0

    /// The number of the last week of a month.
    static let last = 5

    var isEmpty: Bool { bits == 0 }

    /// - Parameter week: 0 to 4, or ``last``.
    mutating func insert(_ weekday: Int, week: Int) { bits |= 1 << (week * 7 + weekday) }

    mutating func formUnion(_ other: NumberedWeekdays) { bits |= other.bits }

    /// Returns their days in a month: bit n for the day n, from 1.
    ///
    /// - Parameters:
    ///   - first: The weekday of the month's first day.
    ///   - length: How many days the month has.
    func days(_ first: Int64, _ length: Int64) -> UInt64 {
        var days: UInt64 = 0
        for week in 0..<Self.last {
            days |= CalendarDays.spread(bits >> (week * 7) & 0x7f, first) & 0xfe << (week * 7)
        }
        let ofLastWeek = CalendarDays.spread(bits >> (Self.last * 7) & 0x7f, first)
        return days | ofLastWeek & 0x7f << (length - 6)
    }
}
