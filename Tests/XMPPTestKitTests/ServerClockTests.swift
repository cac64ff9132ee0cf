import Synchronization
import TestThreads
import Testing
import XMPPAccount
import XMPPTestKit

@Suite(.ownThread) struct ServerClockTests {
    @Test("W6 a virtual clock stands still until it is turned, then calls who waits, in order")
    func turning() {
        let clock = VirtualClock(wallMilliseconds: 1000)
        let seen = Mutex<[String]>([])
        let (wall, monotonic) = (clock.wallMilliseconds, clock.monotonicMilliseconds)
        for name in ["a", "b"] {
            clock.onTurn { seen.withLock { $0.append("\(name) \(wall()) \(monotonic())") } }
        }
        #expect(wall() == 1000)
        #expect(monotonic() == 0)
        clock.advance(by: .seconds(2))
        clock.advance(by: .seconds(-5))
        #expect(seen.withLock { $0 } == ["a 3000 2000", "b 3000 2000", "a 3000 2000", "b 3000 2000"])
    }

    @Test("W6 setting the wall leaves the monotonic hand alone")
    func settingTheWall() {
        let clock = VirtualClock()
        clock.advance(by: .milliseconds(7))
        clock.setWall(milliseconds: 5)
        #expect(clock.wallMilliseconds() == 5)
        #expect(clock.monotonicMilliseconds() == 7)
    }

    @Test("W6 an account's time source follows the clock")
    func timeSource() {
        let clock = VirtualClock()
        let source = clock.timeSource
        let turns = Mutex(0)
        source.onTurn?({ turns.withLock { $0 += 1 } })
        clock.advance(by: .seconds(1))
        #expect(source.milliseconds() == 1000)
        #expect(turns.withLock { $0 } == 1)
    }

    @Test(
        "W6 stamps have the form of XEP-0082",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
        ])
    func stamps(milliseconds: Int64, text: String) {
        #expect(ServerTime.stamp(milliseconds) == text)
    }
}
