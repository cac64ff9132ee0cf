import TestThreads
import Testing

@testable import XMPPAccount

/// When the server must show that it hears an open stream, as rules.
@Suite(.ownThread) struct KeepAliveTests {
    private func opened(_ interval: Duration? = .seconds(60)) -> KeepAlive {
        KeepAlive(interval: interval, timeout: .seconds(30), openedAt: .seconds(1))
    }

    @Test("X21 a proof is asked for after the interval, and each answer starts it again")
    func interval() {
        var keepAlive = opened()
        #expect(keepAlive.nextDue == .milliseconds(61_000))
        #expect(!keepAlive.isRequestDue(now: .milliseconds(60_999)))
        #expect(keepAlive.isRequestDue(now: .milliseconds(61_000)))
        keepAlive.didRequest(now: .milliseconds(61_000))
        #expect(!keepAlive.isRequestDue(now: .milliseconds(200_000)), "one request at a time")
        keepAlive.didReceiveAnswer(now: .milliseconds(61_050))
        #expect(keepAlive.nextDue == .milliseconds(121_050))
        #expect(!keepAlive.isDead(readAt: .milliseconds(200_000)))
    }

    @Test(
        "X21 the answer is overdue after the timeout of the oldest request, and only what was read by then counts"
    )
    func timeout() {
        var keepAlive = opened()
        keepAlive.didRequest(now: .milliseconds(5000))
        keepAlive.didRequest(now: .milliseconds(20_000))
        #expect(keepAlive.nextDue == .milliseconds(35_000))
        #expect(!keepAlive.isDead(readAt: .milliseconds(34_999)))
        #expect(keepAlive.isDead(readAt: .milliseconds(35_000)))
    }

    @Test("X21 time in which the process did not run does not count against the server")
    func thaw() {
        var keepAlive = opened()
        keepAlive.didRequest(now: .milliseconds(61_000))
        keepAlive.skip(.seconds(3600))
        #expect(!keepAlive.isDead(readAt: .milliseconds(3_690_999)))
        #expect(keepAlive.isDead(readAt: .milliseconds(3_691_000)))
        // Nothing was asked: now it is.
        keepAlive = opened()
        keepAlive.skip(.seconds(3600))
        #expect(keepAlive.isRequestDue(now: .milliseconds(4_000_000)))
        #expect(!keepAlive.isDead(readAt: .milliseconds(4_000_000)))
    }

    @Test("X21 without an interval nothing is asked for, and what was asked for otherwise must be answered")
    func never() {
        var keepAlive = opened(nil)
        #expect(keepAlive.nextDue == nil)
        #expect(!keepAlive.isRequestDue(now: .milliseconds(Int64.max)))
        keepAlive.didRequest(now: .milliseconds(2000))
        #expect(keepAlive.isDead(readAt: .milliseconds(32_000)))
    }

    @Test("X21 an interval that changes counts from the last proof; the longest does not overflow")
    func changed() {
        var keepAlive = opened()
        keepAlive.didReceiveAnswer(now: .milliseconds(10_000))
        keepAlive.interval = .seconds(600)
        #expect(keepAlive.nextDue == .milliseconds(610_000))
        keepAlive.interval = .seconds(60)
        #expect(keepAlive.isRequestDue(now: .milliseconds(300_000)))
        keepAlive.interval = .milliseconds(Int64.max)
        #expect(keepAlive.nextDue == .milliseconds(Int64.max) + .seconds(10))
    }
}
