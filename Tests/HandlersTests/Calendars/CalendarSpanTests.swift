import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers

@Suite(.ownThread) struct CalendarSpanTests {
    private static let expressions = [
        "*/5 * * * *", "0 9 * * 1-5", "30 2 * * *", "* * 1 1 *", "* 12 * 3,10 *", "0 0 29 2 *", "0 8 L * *",
    ]

    @Test(
        "H26 the newest times of a span and their number are those of its enumeration", arguments: expressions
    )
    func newest(expression: String) throws {
        let rule = try CalendarRule(expression, in: "Europe/Zurich")
        var generator = SeededGenerator(seed: 26)
        for _ in 0..<8 {
            let start = Timestamp(
                milliseconds: .random(in: 1_767_225_600_000...1_798_761_600_000, using: &generator))
            let end = start + .milliseconds(Int.random(in: 0...2_000_000_000, using: &generator))
            var all: [Timestamp] = []
            while let next = rule.next(after: all.last ?? start), next <= end { all.append(next) }
            let count = Int.random(in: 1...20, using: &generator)
            #expect(rule.latest(count, after: start, upTo: end) == Array(all.suffix(count)))
            #expect(rule.count(after: start, upTo: end, atMost: count) == min(count, all.count))
            #expect(rule.count(after: start, upTo: end, atMost: .max) == all.count)
            // A span starts after its first time and ends with its last one.
            if let first = all.first, let last = all.last {
                #expect(rule.latest(.max, after: first, upTo: last) == Array(all.dropFirst()))
                #expect(rule.count(after: first, upTo: last, atMost: .max) == all.count - 1)
            }
        }
    }

    @Test("H26 a span without times, or of no or negative length, has no newest times")
    func empty() throws {
        let rule = try CalendarRule("0 9 * * *", in: "UTC")
        let (morning, noon) = (try Timestamp(utc: "2026-01-01T09:00"), try Timestamp(utc: "2026-01-01T12:00"))
        #expect(rule.latest(3, after: morning, upTo: noon).isEmpty)
        #expect(rule.latest(3, after: noon, upTo: morning).isEmpty)
        #expect(rule.latest(0, after: .init(milliseconds: 0), upTo: noon).isEmpty)
        #expect(rule.latest(-1, after: .init(milliseconds: 0), upTo: noon).isEmpty)
        #expect(
            rule.times(after: noon, count: -1).isEmpty
                && rule.count(after: morning, upTo: noon, atMost: 9) == 0)
    }

    @Test("H26 the newest times of all years are found without an enumeration", .timeLimit(.minutes(1)))
    func longSpan() throws {
        let (first, last) = (Timestamp(milliseconds: .min), Timestamp(milliseconds: .max))
        for expression in Self.expressions {
            let rule = try CalendarRule(expression, in: "Europe/Zurich")
            let newest = rule.latest(5, after: first, upTo: last)
            #expect(newest.count == 5 && newest == newest.sorted())
            #expect(rule.next(after: newest[4]) == nil)
        }
        let dense = try CalendarRule("* * * 1 *", in: "UTC")
        let end = try Timestamp(utc: "2026-12-31T00:00")
        #expect(
            dense.latest(2, after: first, upTo: end).map(\.minutes) == [
                "2026-01-31T23:58", "2026-01-31T23:59",
            ])
    }

    @Test(
        "H26 the next time is later than the given one, by any part of a second, and the last is in the year 9999"
    )
    func bounds() throws {
        let rule = try CalendarRule("0 9 * * *", in: "UTC")
        let nine = try Timestamp(utc: "2026-01-01T09:00")
        #expect(rule.next(after: nine) == nine + .seconds(86_400))
        #expect(rule.next(after: nine - .milliseconds(1)) == nine)
        #expect(rule.next(after: nine + .milliseconds(1)) == nine + .seconds(86_400))
        #expect(try rule.next(9, after: "9999-12-30T09:00") == ["9999-12-31T09:00"])
        #expect(rule.next(after: .init(milliseconds: .max)) == nil)
        #expect(rule.next(after: .init(milliseconds: .min))?.minutes == "0000-01-01T09:00")
        // Local time is in another year.
        #expect(
            try CalendarRule("0 8 1 1 *", in: "Asia/Tokyo").next(9, after: "9998-01-01T12:00") == [
                "9998-12-31T23:00"
            ])
        #expect(
            try CalendarRule("0 23 31 12 *", in: "America/New_York").next(9, after: "9998-06-01T12:00") == [
                "9999-01-01T04:00"
            ])
        #expect(
            try CalendarRule("0 */2 * * *", in: "America/New_York").next(3, after: "9999-12-31T21:30") == [
                "9999-12-31T23:00"
            ])
    }
}
