import Testing

@testable import XMPPAccount

/// When the server must show that it hears an open stream, as rules.
@Suite struct KeepAliveTests {
    private func opened(_ interval: Int64? = 60_000) -> KeepAlive {
        KeepAlive(interval: interval, timeout: 30_000, openedAt: 1000)
    }

    @Test("X21 a proof is asked for after the interval, and each answer begins it again")
    func interval() {
        var keepAlive = opened()
        #expect(keepAlive.nextDue == 61_000)
        #expect(!keepAlive.isRequestDue(now: 60_999))
        #expect(keepAlive.isRequestDue(now: 61_000))
        keepAlive.didRequest(now: 61_000)
        #expect(!keepAlive.isRequestDue(now: 200_000), "one request at a time")
        keepAlive.didReceiveAnswer(now: 61_050)
        #expect(keepAlive.nextDue == 121_050)
        #expect(!keepAlive.isDead(readAt: 200_000))
    }

    @Test(
        "X21 the answer is overdue after the timeout of the oldest request, and only what was read by then counts"
    )
    func timeout() {
        var keepAlive = opened()
        keepAlive.didRequest(now: 5000)
        keepAlive.didRequest(now: 20_000)
        #expect(keepAlive.nextDue == 35_000)
        #expect(!keepAlive.isDead(readAt: 34_999))
        #expect(keepAlive.isDead(readAt: 35_000))
    }

    @Test("X21 time in which the process did not run does not count against the server")
    func thaw() {
        var keepAlive = opened()
        keepAlive.didRequest(now: 61_000)
        keepAlive.skip(3_600_000)
        #expect(!keepAlive.isDead(readAt: 3_690_999))
        #expect(keepAlive.isDead(readAt: 3_691_000))
        // Nothing was asked: now it is.
        keepAlive = opened()
        keepAlive.skip(3_600_000)
        #expect(keepAlive.isRequestDue(now: 4_000_000))
        #expect(!keepAlive.isDead(readAt: 4_000_000))
    }

    @Test("X21 without an interval nothing is asked for, and what was asked for otherwise must be answered")
    func never() {
        var keepAlive = opened(nil)
        #expect(keepAlive.nextDue == nil)
        #expect(!keepAlive.isRequestDue(now: .max))
        keepAlive.didRequest(now: 2000)
        #expect(keepAlive.isDead(readAt: 32_000))
    }

    @Test("X21 an interval that changes counts from the last proof; the longest does not overflow")
    func changed() {
        var keepAlive = opened()
        keepAlive.didReceiveAnswer(now: 10_000)
        keepAlive.interval = 600_000
        #expect(keepAlive.nextDue == 610_000)
        keepAlive.interval = 60_000
        #expect(keepAlive.isRequestDue(now: 300_000))
        keepAlive.interval = .max
        #expect(keepAlive.nextDue == .max)
    }
}
