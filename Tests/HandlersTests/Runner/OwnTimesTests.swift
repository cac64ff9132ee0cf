import TestThreads
import Testing
import Timestamps

@testable import Handlers

/// When a machine looks for rows that others may have stored.
@Suite(.ownThread) struct OwnTimesTests {
    private static func at(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

    @Test(
        "G5 a machine looks in time for a row that it has stored, and later for one that others have stored")
    func courtesy() {
        var times = OwnTimes()
        times.add(Self.at(1000))
        #expect(times.look(at: Self.at(1000), now: Self.at(0)) == Self.at(1000))
        #expect(times.look(at: Self.at(500), now: Self.at(0)) == Self.at(700))
        #expect(times.look(at: Self.at(900), now: Self.at(0)) == Self.at(1000))
        // The own row was called, and the next one is of others.
        #expect(times.look(at: Self.at(1001), now: Self.at(1001)) == Self.at(1201))
        // Until all machines look for it, a row counts as the own one, as it may be stored at this moment.
        #expect(times.look(at: nil, now: Self.at(1200)) == nil)
        #expect(times.look(at: Self.at(1000), now: Self.at(1200)) == Self.at(1000))
    }

    @Test("G5 the times of rows for which all machines look are forgotten, and no more than some are kept")
    func bounded() {
        var times = OwnTimes()
        for time in stride(from: 10_000, through: 1, by: -1) { times.add(Self.at(Int64(time))) }
        #expect(times.count == 1024)
        #expect(times.look(at: Self.at(1), now: Self.at(0)) == Self.at(1))
        #expect(times.look(at: nil, now: Self.at(1200)) == nil)
        #expect(times.count == 25)
        #expect(times.look(at: Self.at(2000), now: Self.at(2000)) == Self.at(2200))
        #expect(times.count == 0)
    }
}
