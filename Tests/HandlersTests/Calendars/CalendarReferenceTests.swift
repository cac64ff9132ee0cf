import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers

/// The times of random rules, compared with those of a walk from minute to minute.
@Suite(.ownThread) struct CalendarReferenceTests {
    /// Four days, most of which have a change of the clock on the third one.
    struct Window: Sendable, CustomTestStringConvertible {
        let zone: String
        let start: String
        var testDescription: String { "\(zone) from \(start)" }
    }

    @Test(
        "H26 the times of random rules are those of a walk from minute to minute",
        arguments: [
            Window(zone: "Europe/Zurich", start: "2026-03-27T00:00"),
            Window(zone: "Europe/Zurich", start: "2026-10-23T00:00"),
            Window(zone: "America/New_York", start: "2026-03-06T00:00"),
            Window(zone: "America/New_York", start: "2026-10-30T00:00"),
            Window(zone: "Australia/Lord_Howe", start: "2026-04-02T00:00"),
            Window(zone: "Australia/Lord_Howe", start: "2026-10-01T00:00"),
            Window(zone: "Pacific/Apia", start: "2011-12-28T00:00"),
            Window(zone: "America/Sao_Paulo", start: "2018-02-16T00:00"),
            Window(zone: "America/Sao_Paulo", start: "2018-11-02T00:00"),
            Window(zone: "Africa/Casablanca", start: "2026-02-13T00:00"),
            Window(zone: "Africa/Casablanca", start: "2026-03-20T00:00"),
            Window(zone: "Antarctica/Troll", start: "2026-03-27T00:00"),
            Window(zone: "Antarctica/Troll", start: "2026-10-23T00:00"),
            Window(zone: "Europe/Dublin", start: "2028-02-27T00:00"),
        ])
    func walk(window: Window) throws {
        var generator = SeededGenerator(seed: 26)
        let start = try Timestamp(utc: window.start)
        let end = start + .seconds(4 * 86_400)
        let zone = try TimeZoneRules.find(window.zone, in: ["/usr/share/zoneinfo"])
        let walk = MinuteWalk(zone, from: start.milliseconds / 60_000, to: end.milliseconds / 60_000)
        for _ in 0..<40 {
            let random = RandomRule(&generator)
            let rule = try CalendarRule(random.expression, in: window.zone)
            let expected = walk.times(of: random)
            var times: [Int64] = []
            var time = start
            while let next = rule.next(after: time), next <= end {
                times.append(next.milliseconds / 60_000)
                time = next
            }
            #expect(times == expected, "\(rule)")
        }
    }
}

/// What the local clock shows in each minute of some days.
private struct MinuteWalk {
    struct Entry {
        /// Minutes since 1970, in UTC.
        let minute: Int64
        let local: Int64
        /// The clock did not show this, but went past it in this minute.
        let isSkipped: Bool
        /// The clock showed this before.
        let isRepeated: Bool
    }

    private var entries: [Entry] = []
    /// The first minute whose entries count. The walk starts earlier, to know what is repeated in it.
    private let start: Int64

    init(_ zone: TimeZoneRules, from start: Int64, to end: Int64) {
        self.start = start
        var shown: Set<Int64> = []
        var last: Int64?
        for minute in start - 2 * 1440...end {
            let now = minute + zone.offset(at: minute * 60) / 60
            if let last, last + 1 < now {
                for skipped in last + 1..<now where shown.insert(skipped).inserted {
                    entries.append(
                        Entry(minute: minute, local: skipped, isSkipped: true, isRepeated: false))
                }
            }
            let isRepeated = !shown.insert(now).inserted
            entries.append(
                Entry(minute: minute, local: now, isSkipped: false, isRepeated: isRepeated))
            last = now
        }
    }

    func times(of rule: RandomRule) -> [Int64] {
        var times: [Int64] = []
        var days: [Int64: Bool] = [:]
        for entry in entries where entry.minute > start && times.last != entry.minute {
            guard rule.hour.isOpen ? !entry.isSkipped : !entry.isRepeated else { continue }
            guard rule.minute.values.contains(Int(entry.local % 60)) else { continue }
            guard rule.hour.values.contains(Int(entry.local / 60 % 24)) else { continue }
            let number = entry.local / 1440
            let isDay = days[number] ?? rule.matches(LocalDay(number))
            days[number] = isDay
            if isDay { times.append(entry.minute) }
        }
        return times
    }
}

/// A day of a local calendar, found by counting.
private struct LocalDay {
    let day: Int
    let weekday: Int
    let isLast: Bool

    /// - Parameter number: Days since 1970, from the year 2000 on.
    init(_ number: Int64) {
        // 1 January 2000, a Saturday, was 10957 days after 1970.
        var days = Int(number) - 10_957
        weekday = (days + 6) % 7
        var (year, month) = (2000, 1)
        func length() -> Int {
            let february = year % 4 == 0 ? 29 : 28
            return [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
        }
        while days >= length() {
            days -= length()
            (year, month) = month == 12 ? (year + 1, 1) : (year, month + 1)
        }
        day = days + 1
        isLast = day == length()
    }
}

/// A rule whose values are known without its expression.
private struct RandomRule {
    struct Field {
        var text: String
        var values: Set<Int>
        var isOpen = false
    }

    let minute: Field
    let hour: Field
    let day: Field
    let hasLastDay: Bool
    let weekday: Field

    var expression: String {
        "\(minute.text) \(hour.text) \(day.text)\(hasLastDay ? ",L" : "") * \(weekday.text)"
    }

    init(_ generator: inout SeededGenerator) {
        minute = Self.field(0...59, &generator)
        hour = Self.field(0...23, &generator)
        let isAnyDay = Int.random(in: 0..<3, using: &generator) > 0
        day = isAnyDay ? Field(text: "*", values: Set(1...31), isOpen: true) : Self.field(1...31, &generator)
        hasLastDay = !day.isOpen && Bool.random(using: &generator)
        let isAnyWeekday = Int.random(in: 0..<3, using: &generator) > 0
        weekday =
            isAnyWeekday ? Field(text: "*", values: Set(0...6), isOpen: true) : Self.field(0...6, &generator)
    }

    private static func field(_ range: ClosedRange<Int>, _ generator: inout SeededGenerator) -> Field {
        let first = Int.random(in: range, using: &generator)
        let last = Int.random(in: first...range.upperBound, using: &generator)
        let step = Int.random(in: 1...range.upperBound, using: &generator)
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: return Field(text: "*", values: Set(range), isOpen: true)
        case 1:
            let values = stride(from: range.lowerBound, through: range.upperBound, by: step)
            return Field(text: "*/\(step)", values: Set(values), isOpen: true)
        case 2: return Field(text: "\(first),\(last)", values: [first, last])
        case 3: return Field(text: "\(first)-\(last)", values: Set(first...last))
        default:
            let values = stride(from: first, through: last, by: step)
            return Field(text: "\(first)-\(last)/\(step)", values: Set(values))
        }
    }

    func matches(_ local: LocalDay) -> Bool {
        let isDay = day.values.contains(local.day) || hasLastDay && local.isLast
        let isWeekday = weekday.values.contains(local.weekday)
        return day.isOpen || weekday.isOpen ? isDay && isWeekday : isDay || isWeekday
    }
}
