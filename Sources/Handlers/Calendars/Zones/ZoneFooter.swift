/// The rule for all time after the last transition of a zone: the POSIX `TZ` string of a TZif file (RFC 9636 section 3.3).
struct ZoneFooter: Sendable {
    /// Seconds that standard time is ahead of UTC.
    let standard: Int64
    /// Daylight saving time; nil where the clock never changes.
    let saving: Saving?

    struct Saving: Sendable {
        /// Seconds that it is ahead of UTC; it may be behind standard time.
        let offset: Int64
        let start: YearlyMoment
        let end: YearlyMoment
    }

    /// Returns the span that a time is in.
    ///
    /// - Parameter time: In UTC.
    func span(at time: Int64) -> TimeZoneRules.Span {
        let all = TimeZoneRules.allTimes
        guard let saving else { return .init(start: all.lowerBound, end: all.upperBound, offset: standard) }
        let year = GregorianDay(number: time.floored(by: 86_400)).date.year
        var (start, end, offset) = (all.lowerBound, all.upperBound, standard)
        func include(_ change: Int64, to newOffset: Int64) {
            // When both changes of a year are one moment, the later one in this order counts: daylight saving time then lasts all year.
            if change > time {
                end = min(end, change)
            } else if change >= start {
                (start, offset) = (change, newOffset)
            }
        }
        // A change may be up to nine days outside of its year.
        for year in year - 2...year + 2 {
            include(saving.end.local(in: year) - saving.offset, to: standard)
            include(saving.start.local(in: year) - standard, to: saving.offset)
        }
        return .init(start: start, end: end, offset: offset)
    }
}

/// A moment of each year by the local clock, such as 02:00 on the last Sunday of March.
struct YearlyMoment: Sendable {
    enum Day: Sendable {
        /// Day 1 to 365, where 29 February is never counted.
        case withoutLeapDay(Int64)
        /// Day 0 to 365.
        case withLeapDay(Int64)
        /// A weekday, 0 for Sunday, of week 1 to 5 of a month, where 5 is the last one.
        case weekday(Int64, week: Int64, month: Int64)
    }

    let day: Day
    /// Seconds after the start of the day; at most a week before it or after it.
    let time: Int64

    /// Returns the local time of the moment, in seconds since 1970.
    func local(in year: Int64) -> Int64 { dayNumber(in: year) * 86_400 + time }

    private func dayNumber(in year: Int64) -> Int64 {
        switch day {
        case .withLeapDay(let day):
            return CalendarMonth(year: year, month: 1).firstDay + day
        case .withoutLeapDay(let day):
            let leapDay: Int64 = day >= 60 && CalendarMonth.isLeap(year) ? 1 : 0
            return CalendarMonth(year: year, month: 1).firstDay + day - 1 + leapDay
        case .weekday(let weekday, let week, let month):
            let month = CalendarMonth(year: year, month: month)
            let first = month.firstDay
            let day = (weekday - CalendarMonth.weekday(of: first) + 7) % 7 + (week - 1) * 7
            return first + (day < month.length ? day : day - 7)
        }
    }
}
