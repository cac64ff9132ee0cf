import HandlersTestKit
import Synchronization
import TestThreads
import Testing

@Suite(.ownThread) struct VirtualClockTests {
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

    @Test("W6 a time source follows the clock")
    func timeSource() {
        let clock = VirtualClock()
        let source = clock.timeSource
        let turns = Mutex(0)
        source.onTurn?({ turns.withLock { $0 += 1 } })
        clock.advance(by: .seconds(1))
        #expect(source.milliseconds() == 1000)
        #expect(turns.withLock { $0 } == 1)
    }
}
