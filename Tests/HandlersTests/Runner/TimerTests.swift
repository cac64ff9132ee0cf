import Foundation
import Handlers
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

private struct Chime: Handler {
    static let id = "timer.chime"
    var name: String
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.note("\(name) \(call.dueAt.milliseconds) \(call.missed)")
    }
}

private struct Stored: DurableEvent, Equatable {
    static let id = "timer.stored"
    var row: Int
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct TimerTests {
    private static let day: Int64 = 86_400_000

    @Test("H15 a year passes in milliseconds: a daily timer fires each day, exactly on time, and never twice")
    func year() throws {
        try withRig([Chime.self]) { rig in
            let start = rig.now
            try rig.store.step {
                _ = try $0.schedule(
                    Chime(name: "d").durable, after: .seconds(86_400), every: .seconds(86_400))
            }
            for _ in 0..<365 {
                rig.clock.advance(by: .milliseconds(Self.day - 1))
                try rig.runner.runDue()
                rig.clock.advance(by: .milliseconds(1))
                try rig.runner.runDue()
                try rig.runner.runDue()
            }
            let expected = (1...365).map { "d \(start + Int64($0) * Self.day) 0" }
            #expect(try rig.store.notes() == expected)
        }
    }

    @Test("H15 what a periodic timer missed is reported and not made up for; it keeps its beat")
    func missed() throws {
        try withRig([Chime.self]) { rig in
            let start = rig.now
            let id = try rig.store.step {
                try $0.schedule(Chime(name: "m").durable, after: .seconds(10), every: .seconds(10))
            }
            rig.clock.advance(by: .milliseconds(45_500))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["m \(start + 10_000) 3"])
            #expect(try rig.status(of: id)?.dueAt?.milliseconds == start + 50_000)
            // The wall is set back: nothing fires again.
            rig.clock.setWall(Timestamp(milliseconds: start))
            try rig.runner.runDue()
            #expect(try rig.store.notes().count == 1)
            try rig.invalidate(id)
            rig.clock.setWall(Timestamp(milliseconds: start + 10 * Self.day))
            try rig.runner.runDue()
            #expect(try rig.store.notes().count == 1)
        }
    }

    @Test("H15 a timer for the end of time waits, and one of no time fires at once")
    func extremes() throws {
        try withRig([Chime.self]) { rig in
            let far = try rig.store.step {
                try $0.schedule(
                    Chime(name: "far").durable, after: .seconds(Int64.max), every: .seconds(Int64.max))
            }
            try rig.store.step { _ = try $0.schedule(Chime(name: "now").durable, after: .seconds(-5)) }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["now \(rig.now) 0"])
            #expect(try rig.status(of: far)?.dueAt?.milliseconds == .max)
        }
    }

    // MARK: Connected time

    @Test(
        "H16 a timeout counts connected time only: what passes while nothing runs, or frozen, does not expire it"
    )
    func connectedTime() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            var id = HandlerID<Job>(rawValue: 0)
            try withRig(folder.file(), [Say.self, Gone.self], clock: clock) { rig in
                try rig.runner.runDue()
                id = try rig.store.step {
                    try $0.bind(
                        Say(name: "s").durable.orElse(Gone(name: "s").durable), timeout: .seconds(60))
                }
                clock.advance(by: .seconds(10))
                try rig.runner.runDue()
                // Frozen for a day: at most 15 s of it count.
                clock.advance(by: .seconds(86_400))
                try rig.runner.runDue()
                let connected = try rig.store.step { try $0.connectedTime() }
                #expect((.seconds(10) ... .seconds(25)).contains(connected), "\(connected)")
                #expect(try rig.store.keptEnding(of: id) == nil)
            }
            // No process for a week.
            clock.advance(by: .seconds(7 * 86_400))
            try withRig(folder.file(), [Say.self, Gone.self], clock: clock) { rig in
                try rig.runner.runDue()
                #expect(try rig.store.keptEnding(of: id) == nil)
                for _ in 0..<6 {
                    clock.advance(by: .seconds(10))
                    try rig.runner.runDue()
                }
                #expect(try rig.store.keptEnding(of: id)?.outcome == .timeout)
                #expect(try rig.store.notes() == ["s gone: test.say timed-out"])
            }
        }
    }

    @Test(
        "X21 while its deadline is far, connected time is counted once a minute, and a freeze does not reach it"
    )
    func rareTick() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            try withRig(folder.file(), [Say.self, Gone.self], clock: clock) { rig in
                try rig.runner.runDue()
                try rig.store.step {
                    _ = try $0.bind(
                        Say(name: "s").durable.orElse(Gone(name: "s").durable), timeout: .seconds(300))
                }
                // How long it may rest, and what it has counted by then.
                var rests: [Duration?] = []
                for _ in 0..<3 {
                    rests.append(try rig.runner.runDue())
                    clock.advance(by: .seconds(60))
                }
                rests.append(try rig.runner.runDue())
                #expect(rests == [.seconds(60), .seconds(60), .seconds(60), .seconds(10)])
                #expect(try rig.store.step { try $0.connectedTime() } == .seconds(180))
                // Near the deadline, a day counts little.
                clock.advance(by: .seconds(86_400))
                try rig.runner.runDue()
                #expect(try rig.store.step { try $0.connectedTime() } == .seconds(195))
                #expect(try rig.store.notes() == [])
            }
        }
    }

    @Test(
        "H15 an interval under a millisecond is refused with a sentence",
        arguments: [.zero, .microseconds(999), .seconds(-1)] as [Duration])
    func shortInterval(period: Duration) throws {
        try withRig([Chime.self]) { rig in
            let errors = [
                #expect(throws: HandlerError.self) {
                    try rig.store.step {
                        try $0.schedule(Chime(name: "c").durable, after: .zero, every: period)
                    }
                },
                #expect(throws: HandlerError.self) {
                    try rig.store.step {
                        try $0.schedule(Chime(name: "c").durable, key: "c", after: .zero, every: period)
                    }
                },
            ]
            for error in errors {
                #expect(error?.code == .invalidInterval)
                #expect(
                    error?.message
                        == "the interval of a timer is \(period); it must be a millisecond or more, or nil for a timer that fires once"
                )
            }
            #expect(try rig.handlers().isEmpty)
            try rig.store.step {
                _ = try $0.schedule(Chime(name: "c").durable, after: .zero, every: .milliseconds(1))
            }
            #expect(try rig.handlers().count == 1)
        }
    }

    /// How far the wall clock is ahead.
    private final class Leap: Sendable {
        let milliseconds = Atomic<Int64>(0)
    }

    @Test(
        "X21 who wakes for something else has the runner look at a wall clock that leapt, and it rests otherwise"
    )
    func look() async throws {
        try await withFolder { folder in
            let leap = Leap()
            let time = TimeSource(wall: {
                TimeSource.systemWall() + .milliseconds(leap.milliseconds.load(ordering: .relaxed))
            })
            let store = try HandlerStore(
                path: folder.file(), registry: HandlerRegistry([Chime.self]), schemas: [notes], time: time)
            let runner = try HandlerRunner(store)
            try store.step { _ = try $0.schedule(Chime(name: "c").durable, after: .seconds(3600)) }
            _ = try await runner.drain(for: .seconds(30))
            runner.rest(atMost: .seconds(600))
            leap.milliseconds.store(3_600_000, ordering: .relaxed)
            let end = ContinuousClock.now + .seconds(30)
            while try store.notes().isEmpty, ContinuousClock.now < end {
                // Again and again, as who wakes now and then does: a look during a pass is not repeated for it.
                runner.look()
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try store.notes().count == 1)
            runner.close()
        }
    }

    @Test(
        "H16 a deadline of the wall clock holds whether anything ran or not; whichever comes first ends it, once"
    )
    func wall() throws {
        try withRig([Say.self, Gone.self]) { rig in
            try rig.runner.runDue()
            let id = try rig.store.step {
                try $0.bind(
                    Say(name: "w").durable.orElse(Gone(name: "w").durable), timeout: .seconds(10),
                    deadline: rig.clock.wall + .seconds(5))
            }
            rig.clock.advance(by: .seconds(86_400))
            try rig.runner.runDue()
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["w gone: test.say timed-out"])
            #expect(try rig.store.keptEnding(of: id)?.reason == .timedOut)
        }
    }

    // MARK: Events

    @Test(
        "H21 an event is delivered after its commit, once, also to another process; one that was given up never"
    )
    func events() async throws {
        try await withFolder { folder in
            let poster = try openStore(folder.file())
            let listener = try openStore(folder.file())
            #expect(throws: Failure.self) {
                try poster.step { step in
                    try step.post(Stored(row: 0))
                    throw Failure()
                }
            }
            try poster.step { try $0.post(Stored(row: 1)) }
            let seen = Task {
                var rows: [Int] = []
                for try await delivery in listener.events(Stored.self) {
                    rows.append(delivery.event.row)
                    if rows.count == 3 { break }
                }
                return rows
            }
            try poster.step { step in for row in 2...3 { try step.post(Stored(row: row)) } }
            #expect(try await seen.value == [1, 2, 3])
            // The last one was not consumed: the loop was left in its body, as by a kill.
            var again = listener.events(Stored.self).makeAsyncIterator()
            let last = try #require(try await again.next())
            #expect(last.event == Stored(row: 3))
            #expect(try poster.step { try last.consume(in: $0) })
            #expect(try !listener.step { try last.consume(in: $0) })
            #expect(try poster.integer("SELECT count(*) FROM event") == 0)
            let waiting = Task { try await listener.events(Stored.self).first { _ in true } }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        }
    }
}
