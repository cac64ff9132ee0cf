/// The minutes of a local calendar that a cron expression names, as sets of bits.
struct CalendarFields: Sendable {
    /// Bit n for the minute n.
    let minutes: UInt64
    /// Bit n for the hour n.
    let hours: UInt64
    let days: CalendarDays
    /// Bit n for the month n, from 1.
    let months: UInt64
    /// Whether the hour field is `*` or `*/n`; see ``CalendarRule``.
    let followsRealTime: Bool

    private static let minutesOfDay: Int64 = 1440

    /// Returns the first minute that matches and is not before `minute`; nil when the years to `lastYear` have none.
    ///
    /// - Parameter minute: Minutes of the local clock since 1970, in the years 0 to 9999.
    func next(from minute: Int64, lastYear: Int64 = 9999) -> Int64? {
        let today = minute.floored(by: Self.minutesOfDay)
        guard let day = nextDay(from: today, lastYear) else { return nil }
        if day > today { return day * Self.minutesOfDay + firstOfDay }
        if let later = nextInDay(from: minute - today * Self.minutesOfDay) {
            return today * Self.minutesOfDay + later
        }
        return nextDay(from: today + 1, lastYear).map { $0 * Self.minutesOfDay + firstOfDay }
    }

    private var firstOfDay: Int64 {
        Int64(hours.trailingZeroBitCount * 60 + minutes.trailingZeroBitCount)
    }

    private func nextInDay(from minute: Int64) -> Int64? {
        let hour = minute / 60
        let laterMinutes = minutes >> (minute % 60)
        if hours >> hour & 1 == 1, laterMinutes != 0 {
            return minute + Int64(laterMinutes.trailingZeroBitCount)
        }
        let laterHours = hours >> (hour + 1)
        guard laterHours != 0 else { return nil }
        return (hour + 1 + Int64(laterHours.trailingZeroBitCount)) * 60
            + Int64(minutes.trailingZeroBitCount)
    }

    private func nextDay(from day: Int64, _ lastYear: Int64) -> Int64? {
        let date = GregorianDay(number: day).date
        var month = CalendarMonth(year: date.year, month: date.month)
        var from = date.day
        while month.year <= lastYear {
            if months >> month.month & 1 == 1 {
                let later = days.matching(month) >> from
                if later != 0 { return month.firstDay + from - 1 + Int64(later.trailingZeroBitCount) }
            }
            month = month.next
            from = 1
        }
        return nil
    }
}

/// A month of the Gregorian calendar.
struct CalendarMonth {
    let year: Int64
    /// 1 to 12.
    let month: Int64

    var next: CalendarMonth {
        month == 12 ? .init(year: year + 1, month: 1) : .init(year: year, month: month + 1)
    }

    /// Days from 1970 to its first day.
    var firstDay: Int64 { GregorianDay(year: year, month: month, day: 1).number }

    /// 28 to 31 days.
    var length: Int64 {
        switch month {
        case 2: Self.isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    static func isLeap(_ year: Int64) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    /// Returns the day of the week of a day, 0 for Sunday.
    ///
    /// - Parameter day: Days since 1970.
    static func weekday(of day: Int64) -> Int64 {
        // 1 January 1970 was a Thursday.
        let weekday = (day + 4) % 7
        return weekday < 0 ? weekday + 7 : weekday
    }
}

extension Int64 {
    /// Returns the quotient, rounded toward negative infinity.
    func floored(by divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
