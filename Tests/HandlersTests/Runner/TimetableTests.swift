import TestThreads
import Testing

@testable import Handlers

/// Lets `#expect` call what changes a timetable.
private final class Table {
    var value = Timetable()

    func add(_ scope: HandlerScope?, _ times: DueTimes) -> Bool { value.add(scope, times) }
    func takeReady(wall: Timestamp, monotonic: Duration) -> [HandlerScope?] {
        value.takeReady(wall: wall, monotonic: monotonic)
    }
    func rest(wall: Timestamp, monotonic: Duration) -> Duration? {
        value.rest(wall: wall, monotonic: monotonic)
    }
}

@Suite(.ownThread) struct TimetableTests {
    private let a = HandlerScope("a")
    private let b = HandlerScope("b")

    private func wall(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

    @Test(
        "H20 the scopes whose time has come are looked at, longest due first, behind those that were marked")
    func order() {
        let table = Table()
        _ = table.add(a, .init(wall: wall(20)))
        _ = table.add(b, .init(wall: wall(10)))
        _ = table.add(nil, .init(monotonic: .milliseconds(5)))
        #expect(table.rest(wall: wall(0), monotonic: .zero) == .milliseconds(5))
        #expect(table.takeReady(wall: wall(9), monotonic: .milliseconds(4)) == [])
        table.value.mark(HandlerScope("c"))
        #expect(
            table.takeReady(wall: wall(20), monotonic: .milliseconds(5)) == [HandlerScope("c"), b, a, nil])
        #expect(table.rest(wall: wall(0), monotonic: .zero) == nil)
    }

    @Test("A1 a time is replaced by an earlier one and by the result of a look, and counts once")
    func replaced() {
        let table = Table()
        #expect(table.add(a, .init(wall: wall(20))))
        #expect(!table.add(a, .init(wall: wall(30))))
        #expect(table.add(a, .init(wall: wall(10))))
        #expect(table.takeReady(wall: wall(100), monotonic: .zero) == [a])
        table.value.startLook(at: [a])
        table.value.endLook([(a, DueTimes(wall: wall(50)))])
        #expect(table.takeReady(wall: wall(49), monotonic: .zero) == [])
        #expect(table.takeReady(wall: wall(50), monotonic: .zero) == [a])
    }

    @Test("A1 a row that is written during a look leads to another look")
    func concurrent() {
        let table = Table()
        table.value.startLook(at: [a])
        #expect(table.add(a, .init(wall: wall(10))))
        // The look had not seen it.
        table.value.endLook([(a, DueTimes())])
        #expect(table.takeReady(wall: wall(0), monotonic: .zero) == [a])
    }

    @Test("A1 times that are replaced again and again do not pile up")
    func bounded() {
        let table = Table()
        for time in 0..<100_000 {
            table.value.startLook(at: [a])
            table.value.endLook([(a, DueTimes(wall: wall(Int64(1_000_000 - time))))])
        }
        #expect(table.value.storedTimes <= 100)
    }

    @Test("A1 ten thousand scopes come in the order of their times")
    func many() {
        let table = Table()
        let times = (0..<10_000).map { Int64($0 &* 7_919 % 10_007) }
        for time in times { _ = table.add(HandlerScope("\(time)"), .init(wall: wall(time))) }
        let ready = table.takeReady(wall: wall(20_000), monotonic: .zero)
        #expect(ready.map { $0?.rawValue } == times.sorted().map { "\($0)" })
    }
}
