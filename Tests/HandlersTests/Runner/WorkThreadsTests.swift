import Foundation
import Platform
import Synchronization
import TestThreads
import Testing

@testable import Handlers

/// What threads and loops did, in order.
private typealias Log = Monitor<[String]>

extension Monitor<[String]> {
    fileprivate func add(_ text: String) { withLock { $0.append(text) } }

    /// Waits until that many things were done.
    fileprivate func first(_ count: Int) -> [String] {
        wait(limit: .seconds(30)) { $0.count >= count ? Array($0.prefix(count)) : nil } ?? []
    }
}

/// Work that waits for a permission, and a loop whose only turn has it.
private final class Blocked: GroupedWork, GroupedLoop, Sendable {
    let place: ObjectIdentifier
    private let name: String
    private let log: Log
    private let mayEnd: Monitor<Bool>

    init(_ name: String, in place: AnyObject, _ log: Log, until mayEnd: Monitor<Bool>) {
        (self.place, self.name, self.log, self.mayEnd) = (ObjectIdentifier(place), name, log, mayEnd)
    }

    func startTurn(_ found: [PollEntry]) -> (any GroupedWork)? { self }
    func endTurn() -> Pause? { nil }

    func run() {
        log.add("\(name) starts")
        _ = mayEnd.wait(limit: .seconds(30)) { $0 ? true : nil }
        log.add("\(name) ends")
    }

    static func run(_ work: ArraySlice<any GroupedWork>) -> Int {
        for part in work { part.run() }
        return work.count
    }
}

/// A loop whose only turn waits for its own end.
private final class Joining: DrivenLoop {
    private let own: Monitor<(any RunningLoop)?>

    init(_ own: Monitor<(any RunningLoop)?>) { self.own = own }

    func turn(_ found: [PollEntry]) -> Pause? {
        own.wait(limit: nil) { $0 }?.join()
        return nil
    }
}

/// A loop of one turn that says when it goes.
private final class Leaving: GroupedLoop {
    private let gone: Monitor<Bool>
    private let work: Blocked
    var place: ObjectIdentifier { work.place }

    init(_ gone: Monitor<Bool>, _ work: Blocked) { (self.gone, self.work) = (gone, work) }

    deinit { gone.withLock { $0 = true } }

    func startTurn(_ found: [PollEntry]) -> (any GroupedWork)? { work }
    func endTurn() -> Pause? { nil }
}

/// Threads that do the work of loops.
@Suite(.ownThread, .timeLimit(.minutes(1))) struct WorkThreadsTests {
    private final class Place: Sendable {}

    private let log = Log([])
    private let mayEnd = Monitor(false)

    private func add(_ name: String, to workers: WorkThreads, in place: Place) {
        let loop = Blocked(name, in: place, log, until: mayEnd)
        workers.add(Turn(loop, []), in: loop.place) { [log] in log.add("\(name) is finished") }
    }

    /// Gives what should not happen some time in which it would.
    private func expectNothing(after count: Int) {
        #expect(log.wait(limit: .milliseconds(200)) { $0.count > count ? $0 : nil } == nil)
    }

    @Test(
        "A2 turns of a place wait while the place is busy, and then have their work together and in their order"
    )
    func order() {
        let (workers, place) = (WorkThreads(4, "work"), Place())
        add("a", to: workers, in: place)
        #expect(log.first(1) == ["a starts"])
        for name in ["b", "c", "d"] { add(name, to: workers, in: place) }
        expectNothing(after: 1)
        mayEnd.withLock { $0 = true }
        let log = log.first(12)
        let done = log.filter { !$0.hasSuffix("finished") }
        #expect(done == ["a", "b", "c", "d"].flatMap { ["\($0) starts", "\($0) ends"] })
        // Together: nothing of them is finished before the last is done.
        let finished = log.filter { $0.hasSuffix("finished") && $0 != "a is finished" }
        #expect(finished == ["b is finished", "c is finished", "d is finished"])
        #expect(log.firstIndex(of: "b is finished") ?? 0 > log.firstIndex(of: "d ends") ?? 12)
    }

    @Test("A2 a busy place holds up no other until as many are busy as there may be threads")
    func limit() {
        let (workers, places) = (WorkThreads(2, "work"), [Place(), Place(), Place()])
        for (name, place) in zip(["a", "b", "c"], places) { add(name, to: workers, in: place) }
        #expect(Set(log.first(2)) == ["a starts", "b starts"])
        expectNothing(after: 2)
        mayEnd.withLock { $0 = true }
        let place = log.first(9).firstIndex(of: "c starts") ?? 0
        #expect(log.first(9)[..<place].contains { $0 == "a ends" || $0 == "b ends" })
    }

    @Test("A2 a thread that has had no work for a while ends, and another starts for new work")
    func idle() async {
        // In a process of its own, where no other tests have such threads.
        await #expect(processExitsWith: .success) {
            let (workers, log, mayEnd) = (WorkThreads(2, "idle test"), Log([]), Monitor(true))
            func threads() -> Int {
                let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
                return tasks.count {
                    (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8))
                        == "idle test\n"
                }
            }
            for round in 1...2 {
                let places = [Place(), Place()]
                for place in places {
                    let loop = Blocked("work", in: place, log, until: mayEnd)
                    workers.add(Turn(loop, []), in: loop.place) {}
                }
                try #require(log.first(4 * round).count == 4 * round)
                let deadline = ContinuousClock.now + .seconds(30)
                while threads() > 0 {
                    try #require(ContinuousClock.now < deadline)
                    try await Task.sleep(for: .milliseconds(10))
                }
            }
        }
    }

    @Test("A2 a place in which a turn takes long holds up no loop of another one, on the same thread")
    func sharedThread() throws {
        let workers = WorkThreads(2, "work")
        let loops = SharedThreads(1, "loops", blocksSignals: true, workers: workers)
        workers.isNeeded = true
        let (place, other) = (Place(), Place())
        let running = try (0..<3).map { number in
            try loops.start("", blocksSignals: true) { [log, mayEnd] in
                Blocked("\(number)", in: place, log, until: mayEnd)
            }
        }
        #expect(log.first(1) == ["0 starts"])
        let last = try loops.start("", blocksSignals: true) { [log] in
            Blocked("last", in: other, log, until: Monitor(true))
        }
        last.join()
        #expect(log.first(3) == ["0 starts", "last starts", "last ends"])
        mayEnd.withLock { $0 = true }
        for loop in running { loop.join() }
        #expect(log.withLock { $0.count } == 8)
    }

    @Test("A2 a loop whose turn waits for the loop's own end goes on")
    func joiningItself() throws {
        let workers = WorkThreads(1, "work")
        let loops = SharedThreads(1, "loops", blocksSignals: true, workers: workers)
        workers.isNeeded = true
        let own = Monitor<(any RunningLoop)?>(nil)
        let running = try loops.start("", blocksSignals: true) { Joining(own) }
        own.withLock { $0 = running }
        running.join()
    }

    @Test(
        "A2 a loop whose last turn a worker called is gone when the turn is finished, before its end can be waited for"
    )
    func released() {
        let workers = WorkThreads(2, "work")
        let (gone, finished) = (Monitor(false), Monitor<Bool?>(nil))
        mayEnd.withLock { $0 = true }
        let place = Place()
        workers.add(
            Turn(Leaving(gone, Blocked("a", in: place, log, until: mayEnd)), []), in: ObjectIdentifier(place)
        ) { finished.withLock { $0 = gone.withLock(\.self) } }
        #expect(finished.wait(limit: .seconds(30)) { $0 } == true)
    }
}
