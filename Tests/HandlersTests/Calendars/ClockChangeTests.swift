import TestThreads
import Testing

@testable import Handlers

@Suite(.ownThread) struct ClockChangeTests {
    /// A rule with its first times after another one, all in UTC.
    struct Sample: Sendable, CustomTestStringConvertible {
        let expression: String
        let zone: String
        let start: String
        let times: [String]
        var testDescription: String { "\(expression) in \(zone) after \(start)" }

        init(_ expression: String, _ zone: String, _ start: String, _ times: String...) {
            (self.expression, self.zone, self.start, self.times) = (expression, zone, start, times)
        }
    }

    private func check(_ sample: Sample) throws {
        let rule = try CalendarRule(sample.expression, in: sample.zone)
        #expect(try rule.next(sample.times.count, after: sample.start) == sample.times)
    }

    @Test(
        "H26 a local time that the clock skips happens once, at the first moment after the gap",
        arguments: [
            Sample("30 2 * * *", "Europe/Zurich", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-30T00:30"),
            Sample(
                "*/15 2-3 * * *", "Europe/Zurich", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-29T01:15",
                "2026-03-29T01:30", "2026-03-29T01:45", "2026-03-30T00:00"),
            Sample("* 2 * * *", "Europe/Zurich", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-30T00:00"),
            Sample(
                "30 2 8 3 *", "America/New_York", "2026-01-01T00:00", "2026-03-08T07:00", "2027-03-08T07:30"),
            // Half an hour.
            Sample(
                "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", "2026-10-03T15:30",
                "2026-10-04T15:15"),
            Sample(
                "0,15,30 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", "2026-10-03T15:30",
                "2026-10-04T15:00"),
            // Two hours.
            Sample(
                "30 1-2 * * *", "Antarctica/Troll", "2026-03-28T12:00", "2026-03-29T01:00",
                "2026-03-29T23:30", "2026-03-30T00:30"),
            // At midnight.
            Sample(
                "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00", "2018-11-05T02:00"),
            Sample(
                "30 0 4 11 *", "America/Sao_Paulo", "2018-01-01T00:00", "2018-11-04T03:00", "2019-11-04T03:30"
            ),
            Sample("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00", "2026-03-28T22:00", "2026-03-29T21:00"),
            Sample(
                "59 0 * * fri", "Africa/Cairo", "2026-04-23T12:00", "2026-04-23T22:00", "2026-04-30T21:59"),
            // The end of Ramadan.
            Sample(
                "30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", "2026-03-22T02:00", "2026-03-23T01:30"),
            // Samoa's 30 December 2011, from 10:00 to 10:00 in UTC.
            Sample(
                "0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", "2011-12-29T19:00", "2011-12-30T10:00",
                "2011-12-30T19:00"),
            Sample("0 9 30 12 *", "Pacific/Apia", "2011-01-01T00:00", "2011-12-30T10:00", "2012-12-29T19:00"),
            Sample("0 0 * * *", "Pacific/Apia", "2011-12-29T11:00", "2011-12-30T10:00", "2011-12-31T10:00"),
            // 44 minutes and 30 seconds.
            Sample(
                "0 0 * * *", "Africa/Monrovia", "1972-01-06T12:00", "1972-01-07T00:44:30", "1972-01-08T00:00"),
        ])
    func skipped(sample: Sample) throws { try check(sample) }

    @Test(
        "H26 a local time that comes twice happens the first time only",
        arguments: [
            Sample("30 2 * * *", "Europe/Zurich", "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-26T01:30"),
            Sample("30 2 * * *", "Europe/Zurich", "2026-10-25T01:10", "2026-10-26T01:30"),
            Sample("0 3 * * *", "Europe/Zurich", "2026-10-24T12:00", "2026-10-25T02:00"),
            Sample(
                "*/30 1-3 * * *", "Europe/Zurich", "2026-10-24T23:15", "2026-10-24T23:30", "2026-10-25T00:00",
                "2026-10-25T00:30", "2026-10-25T02:00"),
            Sample(
                "30 1 * * *", "America/New_York", "2026-10-31T12:00", "2026-11-01T05:30", "2026-11-02T06:30"),
            Sample(
                "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", "2026-04-04T14:45",
                "2026-04-05T15:15"),
            Sample(
                "30 1-2 * * *", "Antarctica/Troll", "2026-10-24T12:00", "2026-10-24T23:30",
                "2026-10-25T00:30", "2026-10-26T01:30"),
            Sample(
                "30 23 * * 6", "America/Sao_Paulo", "2018-02-17T12:00", "2018-02-18T01:30", "2018-02-25T02:30"
            ),
            Sample(
                "0 0 * * *", "America/Sao_Paulo", "2018-02-17T12:00", "2018-02-18T03:00", "2018-02-19T03:00"),
            // The start of Ramadan.
            Sample(
                "30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", "2026-02-15T01:30", "2026-02-16T02:30"),
        ])
    func repeated(sample: Sample) throws { try check(sample) }

    @Test(
        "H26 a rule of every hour or every few hours follows real time",
        arguments: [
            Sample(
                "*/30 * * * *", "Europe/Zurich", "2026-03-29T00:00", "2026-03-29T00:30", "2026-03-29T01:00",
                "2026-03-29T01:30"),
            Sample(
                "0 */2 * * *", "Europe/Zurich", "2026-03-28T22:00", "2026-03-28T23:00", "2026-03-29T02:00"),
            Sample(
                "30 * * * *", "Europe/Zurich", "2026-10-24T23:45", "2026-10-25T00:30", "2026-10-25T01:30",
                "2026-10-25T02:30"),
            Sample(
                "0 */2 * * *", "Europe/Zurich", "2026-10-24T23:00", "2026-10-25T00:00", "2026-10-25T01:00",
                "2026-10-25T03:00"),
            Sample(
                "15 * * * *", "Australia/Lord_Howe", "2026-10-03T14:50", "2026-10-03T16:15",
                "2026-10-03T17:15"),
            Sample(
                "45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00", "2026-04-04T14:45",
                "2026-04-04T15:15", "2026-04-04T16:15"),
            Sample("0 * 30 12 *", "Pacific/Apia", "2011-01-01T00:00", "2012-12-29T10:00"),
            Sample(
                "0 * * * *", "Pacific/Apia", "2011-12-30T08:30", "2011-12-30T09:00", "2011-12-30T10:00",
                "2011-12-30T11:00"),
            Sample(
                "0 * * * *", "Africa/Monrovia", "1972-01-06T23:00", "1972-01-06T23:44:30", "1972-01-07T01:00",
                "1972-01-07T02:00"),
            // The hour decides, not the minute.
            Sample(
                "0 0-23 * * *", "Europe/Zurich", "2026-10-24T23:00", "2026-10-25T00:00", "2026-10-25T02:00"),
        ])
    func real(sample: Sample) throws { try check(sample) }

    @Test("H26 a change of the clock in the years after the last one in the file follows its rule")
    func farFuture() throws {
        let rule = try CalendarRule("30 2 28 3 *", in: "Europe/Zurich")
        // 28 March 2088 is the last Sunday of its month.
        #expect(try rule.next(2, after: "2087-12-31T00:00") == ["2088-03-28T01:00", "2089-03-28T00:30"])
        let winter = try CalendarRule("0 12 1 7 *", in: "Australia/Lord_Howe")
        #expect(try winter.next(1, after: "9998-12-31T00:00") == ["9999-07-01T01:30"])
    }
}
