import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

@Suite(.ownThread) struct VirtualClockTests {
    @Test("W6 a virtual clock stands still until it is turned, then calls the waiters, in order")
    func turning() {
        let clock = VirtualClock(wall: Timestamp(milliseconds: 1000))
        let seen = Mutex<[String]>([])
        for name in ["a", "b"] {
            clock.onTurn {
                seen.withLock { $0.append("\(name) \(clock.wall.milliseconds) \(clock.monotonic)") }
            }
        }
        #expect(clock.wall.milliseconds == 1000)
        #expect(clock.monotonic == .zero)
        clock.advance(by: .seconds(2))
        clock.advance(by: .seconds(-5))
        #expect(
            seen.withLock { $0 } == [
                "a 3000 2.0 seconds", "b 3000 2.0 seconds", "a 3000 2.0 seconds", "b 3000 2.0 seconds",
            ])
    }

    @Test("W6 setting the wall leaves the monotonic hand alone")
    func settingTheWall() {
        let clock = VirtualClock()
        clock.advance(by: .milliseconds(7))
        clock.setWall(Timestamp(milliseconds: 5))
        #expect(clock.wall.milliseconds == 5)
        #expect(clock.monotonic == .milliseconds(7))
    }

    @Test("W6 a time source follows the clock")
    func timeSource() {
        let clock = VirtualClock()
        let source = clock.timeSource
        let turns = Mutex(0)
        source.onTurn?({ turns.withLock { $0 += 1 } })
        clock.advance(by: .seconds(1))
        #expect(source.monotonic() == .seconds(1))
        #expect(turns.withLock { $0 } == 1)
    }
}
