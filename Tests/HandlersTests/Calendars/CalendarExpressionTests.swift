import TestThreads
import Testing

@testable import Handlers

@Suite(.ownThread) struct CalendarExpressionTests {
    /// An expression in UTC with its first times after 2026-01-01T00:00, a Thursday.
    struct Sample: Sendable, CustomTestStringConvertible {
        let expression: String
        let times: [String]
        var testDescription: String { expression }

        init(_ expression: String, _ times: String...) {
            (self.expression, self.times) = (expression, times)
        }
    }

    @Test(
        "H26 an expression happens at the times that its fields name",
        arguments: [
            Sample("* * * * *", "2026-01-01T00:01", "2026-01-01T00:02"),
            Sample("*/25 * * * *", "2026-01-01T00:25", "2026-01-01T00:50", "2026-01-01T01:00"),
            Sample(
                "10-20/3 0 * * *", "2026-01-01T00:10", "2026-01-01T00:13", "2026-01-01T00:16",
                "2026-01-01T00:19", "2026-01-02T00:10"),
            Sample(
                "5,1-2,59 7 * * *", "2026-01-01T07:01", "2026-01-01T07:02", "2026-01-01T07:05",
                "2026-01-01T07:59"),
            Sample("0 23,0 * * *", "2026-01-01T23:00", "2026-01-02T00:00"),
            Sample("30 9 * * 1-5", "2026-01-01T09:30", "2026-01-02T09:30", "2026-01-05T09:30"),
            Sample("30 9 * * MON-fri", "2026-01-01T09:30", "2026-01-02T09:30", "2026-01-05T09:30"),
            Sample("0 0 * * 0", "2026-01-04T00:00", "2026-01-11T00:00"),
            // February starts on a Sunday.
            Sample(
                "0 0 * * 7", "2026-01-04T00:00", "2026-01-11T00:00", "2026-01-18T00:00", "2026-01-25T00:00",
                "2026-02-01T00:00"),
            Sample(
                "0 0 * * 5-7", "2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-09T00:00"),
            Sample("0 0 * * sat-sun", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-10T00:00"),
            Sample("0 0 * * sun-mon", "2026-01-04T00:00", "2026-01-05T00:00", "2026-01-11T00:00"),
            Sample("0 0 * * */3", "2026-01-03T00:00", "2026-01-04T00:00", "2026-01-07T00:00"),
            Sample("0 12 1 jan,Jul *", "2026-01-01T12:00", "2026-07-01T12:00", "2027-01-01T12:00"),
            Sample(
                "0 12 1 */5 *", "2026-01-01T12:00", "2026-06-01T12:00", "2026-11-01T12:00", "2027-01-01T12:00"
            ),
            Sample("0 12 31 * *", "2026-01-31T12:00", "2026-03-31T12:00", "2026-05-31T12:00"),
            Sample(
                "0 12 L * *", "2026-01-31T12:00", "2026-02-28T12:00", "2026-03-31T12:00", "2026-04-30T12:00"),
            Sample("0 12 15,l 2 *", "2026-02-15T12:00", "2026-02-28T12:00", "2027-02-15T12:00"),
            Sample("0 0 L 2 *", "2026-02-28T00:00", "2027-02-28T00:00", "2028-02-29T00:00"),
            Sample("0 0 29 2 *", "2028-02-29T00:00", "2032-02-29T00:00"),
            Sample("0 0 29 feb *", "2028-02-29T00:00", "2032-02-29T00:00"),
            Sample("0 8 * * mon#2", "2026-01-12T08:00", "2026-02-09T08:00"),
            Sample(
                "0 8 * * 4#1,thu#5", "2026-01-01T08:00", "2026-01-29T08:00", "2026-02-05T08:00",
                "2026-03-05T08:00", "2026-04-02T08:00", "2026-04-30T08:00"),
            Sample("0 8 * * FRI#L", "2026-01-30T08:00", "2026-02-27T08:00", "2026-03-27T08:00"),
            Sample("0 8 * * sat#L", "2026-01-31T08:00", "2026-02-28T08:00", "2026-03-28T08:00"),
            Sample("0 8 * 2 sun#5", "2032-02-29T08:00", "2060-02-29T08:00"),
            // Either day field matches when both are restricted, else both must.
            Sample(
                "0 9 13 * fri", "2026-01-02T09:00", "2026-01-09T09:00", "2026-01-13T09:00", "2026-01-16T09:00"
            ),
            Sample("0 9 L * sun#1", "2026-01-04T09:00", "2026-01-31T09:00", "2026-02-01T09:00"),
            Sample("0 9 */2 * fri", "2026-01-09T09:00", "2026-01-23T09:00", "2026-02-13T09:00"),
            Sample("0 9 1-31 * fri", "2026-01-01T09:00", "2026-01-02T09:00", "2026-01-03T09:00"),
            Sample(
                "0 9 1 * */2", "2026-01-01T09:00", "2026-02-01T09:00", "2026-03-01T09:00", "2026-08-01T09:00"),
            Sample(" 0\t 9  * *   * ", "2026-01-01T09:00", "2026-01-02T09:00"),
            Sample("00 09 01 01 *", "2026-01-01T09:00", "2027-01-01T09:00"),
            Sample("@hourly", "2026-01-01T01:00", "2026-01-01T02:00"),
            Sample("@daily", "2026-01-02T00:00", "2026-01-03T00:00"),
            Sample("@midnight", "2026-01-02T00:00", "2026-01-03T00:00"),
            Sample("@Weekly", "2026-01-04T00:00", "2026-01-11T00:00"),
            Sample("@monthly", "2026-02-01T00:00", "2026-03-01T00:00"),
            Sample("@yearly", "2027-01-01T00:00", "2028-01-01T00:00"),
            Sample("@annually", "2027-01-01T00:00", "2028-01-01T00:00"),
        ])
    func times(sample: Sample) throws {
        let rule = try CalendarRule(sample.expression, in: "UTC")
        #expect(try rule.next(sample.times.count, after: "2026-01-01T00:00") == sample.times)
    }

    @Test(
        "H26 a wrong expression is refused with its place and what to write instead",
        arguments: [
            ("", "has 1 to 256 bytes, this one has 0"),
            (String(repeating: "1,", count: 130) + "1 * * * *", "this one has 269"),
            ("0 0 * * *\u{1b}", "byte 10"), ("0 0 * * é", "byte 9"), ("0 0 * * *\n", "byte 10"),
            ("   ", "has 0 fields; write five"), ("0 9 * *", "has 4 fields; write five"),
            ("0 9 * * 1 2026", "has 6 fields; write five"),
            ("@reboot", "'@reboot' is unknown; write one of @annually"),
            (
                "60 * * * *",
                "'60' in the field minute of the calendar expression '60 * * * *' is no minute; write 0 to 59"
            ),
            ("0 24 * * *", "'24' in the field hour"), ("0 0 0 * *", "write 1 to 31 or L"),
            ("0 0 32 * *", "'32' in the field day of the month"),
            ("0 0 1 13 *", "write 1 to 12 or jan to dec"),
            ("0 0 1 0 *", "'0' in the field month"), ("0 0 * * 8", "write 0 to 7 or sun to sat"),
            ("0 0 * jann *", "'jann' in the field month"),
            ("0 0 mon * *", "'mon' in the field day of the month"),
            ("0 0 * * jan", "'jan' in the field day of the week"),
            ("0 0 ? * 1", "'?' in the field day of the month"),
            ("0 0 * L *", "'L' in the field month"), ("0 0 1-L * *", "'L' in the field day of the month"),
            ("+5 * * * *", "'+5'"), ("-5 * * * *", "'' in the field minute"),
            ("1,,2 * * * *", "'' in the field minute"),
            ("5/10 * * * *", "has a step without a range; write '5-59/10'"),
            ("0 0 * * mon#1/2", "has a step without a range"),
            ("*/0 * * * *", "has the step '0'; write a number from 1 to 59"),
            ("*/60 * * * *", "has the step '60'"),
            ("0 */24 * * *", "write a number from 1 to 23"), ("*/ * * * *", "has the step ''"),
            ("*/2/3 * * * *", "has '/' twice"), ("1-2-3 * * * *", "has '-' twice"),
            ("50-10 * * * *", "ends before it starts; write '50-59,0-10'"),
            ("0 0 * * fri-mon", "write 'fri-6,0-mon'"),
            ("*,5 * * * *", "holds '*' in a list"), ("0 */6,3 * * *", "'*/6,3' in the field hour"),
            ("**  * * * *", "'**'"), ("0 0 * * mon#0", "write a number from 1 to 5 or L after '#'"),
            ("0 0 * * mon#6", "from 1 to 5"), ("0 0 * * mon#", "from 1 to 5"),
            ("0 0 * * #1", "'' in the field day of the week"),
            ("0 0 * * 1#2#3", "has '#' twice"), ("0 0 1#2 * *", "'1#2' in the field day of the month"),
            ("99999999999999999999 * * * *", "is no minute"),
            ("0 0 30 2 *", "'0 0 30 2 *' never happens"), ("0 0 31 2,4,6,9,11 *", "never happens"),
        ])
    func wrong(expression: String, problem: String) {
        let refused = error { _ = try CalendarRule(expression, in: "UTC") }
        #expect(refused?.code == .invalidCalendar)
        #expect(refused?.message.contains(problem) == true, "\(refused?.message ?? "none")")
    }

    @Test("H26 an expression of 256 bytes is taken")
    func longest() throws {
        let minutes = String(repeating: "1,", count: 123) + "59"
        #expect(
            try CalendarRule(minutes + " * * * *", in: "UTC").next(2, after: "2026-01-01T00:00") == [
                "2026-01-01T00:01", "2026-01-01T00:59",
            ])
    }

    @Test("H26 rules are equal when their expression and their zone are the same text")
    func equality() throws {
        let rule = try CalendarRule("0 9 * * 1", in: "Europe/Zurich")
        #expect(try rule == CalendarRule("0 9 * * 1", in: "Europe/Zurich"))
        #expect(try rule != CalendarRule("0 9 * * mon", in: "Europe/Zurich"))
        #expect(try rule != CalendarRule("0 9 * * 1", in: "Europe/Paris"))
        #expect(try Set([rule, rule, CalendarRule("0 9 * * 1", in: "UTC")]).count == 2)
        #expect(rule.description == "0 9 * * 1 in Europe/Zurich")
    }

    @Test("H26 rules are made of an hour and a day without an expression")
    func making() throws {
        #expect(try CalendarRule.hourly(minute: 5, in: "UTC") == CalendarRule("5 * * * *", in: "UTC"))
        #expect(try CalendarRule.hourly(in: "UTC") == CalendarRule("0 * * * *", in: "UTC"))
        #expect(try CalendarRule.daily(at: 9, in: "UTC") == CalendarRule("0 9 * * *", in: "UTC"))
        #expect(
            try CalendarRule.weekly(on: .saturday, at: 7, 30, in: "UTC")
                == CalendarRule("30 7 * * 6", in: "UTC"))
        #expect(
            try CalendarRule.monthly(onDay: 15, at: 7, 30, in: "UTC")
                == CalendarRule("30 7 15 * *", in: "UTC"))
        #expect(code { try CalendarRule.daily(at: 24, in: "UTC") } == .invalidCalendar)
        #expect(code { try CalendarRule.hourly(minute: -1, in: "UTC") } == .invalidCalendar)
    }
}
