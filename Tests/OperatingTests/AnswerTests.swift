import Handlers
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

/// Runs until the test lets it go.
struct Held: AsyncHandler {
    static let id = "shop.held"
    static let visits = Mutex<[CheckedContinuation<Void, Never>]>([])
    func run(_ call: AsyncCall<Word>) async throws {
        await withCheckedContinuation { visit in Self.visits.withLock { $0.append(visit) } }
    }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AnswerTests {
    // MARK: Starts and failures

    @Test("H28 a handler that a process runs says since when, and how long it waited counts apart")
    func start() async throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let id = try rig.call(Held().durable)
        #expect(try rig.store.read { try $0.status(of: id)?.startedAt } == nil)
        try rig.pass(.seconds(70))
        let started = try rig.store.read { ($0.now, try $0.status(of: id)) }
        rig.clock.advance(by: .seconds(5))
        #expect(started.1?.state == .running)
        #expect(started.1?.startedAt == started.0)
        try await eventually { Held.visits.withLock { !$0.isEmpty } }
        Held.visits.withLock { $0.removeFirst().resume() }
        try await eventually { try rig.store.read { try $0.ending(of: id) } != nil }
        rig.clock.advance(by: .seconds(11))
        try rig.store.step { _ in }
        let counted = try rig.store.read { try $0.activity(since: Timestamp(milliseconds: 0))[Held.id] }
        #expect(counted?.waits.sum == .seconds(70))
        #expect(counted?.runs.sum == .seconds(5))
    }

    @Test("H28 the last five failures of a handler are kept, and go with its ending")
    func failures() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let id = try rig.call(Stubborn(until: 8).durable)
        let other = try rig.call(Stubborn(until: 2).durable)
        // The delays are not all alike.
        for _ in 1...6 { try rig.pass(.seconds(30)) }
        let failures = try rig.store.read { try $0.failures(of: id) }
        #expect(failures.map(\.attempt) == [7, 6, 5, 4, 3])
        #expect(failures.map(\.error) == [7, 6, 5, 4, 3].map { "refused \($0)" })
        #expect(failures.map(\.run) == Array(repeating: nil, count: 5))
        #expect(failures.first.map { rig.clock.wall - $0.at } == .zero)
        #expect(try rig.store.read { try $0.failures(of: other).map(\.error) } == ["refused 1"])
        try rig.pass(.seconds(30))
        #expect(try rig.store.read { try $0.ending(of: id)?.outcome } == .result)
        #expect(try rig.store.read { try $0.failures(of: id) }.count == 5)
        try rig.pass(.seconds(40 * 86_400))
        try rig.pass(.seconds(120))
        #expect(try rig.store.read { try $0.ending(of: id) } == nil)
        #expect(try rig.store.read { try $0.failures(of: id) } == [])
    }

    @Test("H28 a handler that was called in a step and cannot be called now has no failure yet")
    func notFailed() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let id = try rig.call(Held().durable)
        #expect(try rig.store.read { try $0.failures(of: id) } == [])
    }

    // MARK: Statistics

    @Test(
        "H28 statistics by name hold what all processes did that closed the store, and nothing that was undone"
    )
    func statistics() throws {
        let folder = try TemporaryFolder()
        let clock = VirtualClock()
        do {
            let rig = try Rig(folder, clock)
            defer { rig.runner.close() }
            for _ in 1...3 { try rig.call(Fine().durable) }
            try rig.call(Broken().durable)
            #expect(throws: Refused.self) {
                try rig.store.step { step in
                    try step.bind(Fine().durable)
                    throw Refused(description: "undone")
                }
            }
            try rig.store.step { step in
                try? step.undoingOnError {
                    try step.bind(Fine().durable)
                    throw Refused(description: "undone")
                }
            }
        }
        clock.advance(by: .seconds(1))
        do {
            // It lives for less than the pause between two times.
            let worker = try Rig(folder, clock)
            defer { worker.runner.close() }
            try worker.call(Fine().durable)
            try worker.call(Stubborn(until: 2).durable)
        }
        let rig = try Rig(folder, clock)
        defer { rig.runner.close() }
        let activity = try rig.store.read { try $0.activity(since: $0.now - .seconds(3600)) }
        #expect(activity[Fine.id]?.bound == 4)
        #expect(activity[Fine.id]?.ended(.result) == 4)
        #expect(activity[Fine.id]?.ended == 4)
        #expect(activity[Fine.id]?.failed == 0)
        #expect(activity[Broken.id]?.bound == 1)
        #expect(activity[Broken.id]?.quarantined == 1)
        #expect(activity[Broken.id]?.failed == 1)
        #expect(activity[Broken.id]?.ended == 0)
        #expect(activity[Stubborn.id]?.retried == 1)
        #expect(try rig.store.read { try $0.activity(since: $0.now + .seconds(3600)) }.isEmpty)
    }

    @Test(
        "H28 statistics are stored every 10 s with a step that commits anyway, and forgotten after seven days"
    )
    func statisticsInTime() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        func ended() throws -> Int64? {
            try rig.store.read { try $0.activity(since: Timestamp(milliseconds: 0))[Fine.id]?.ended }
        }
        try rig.call(Fine().durable)
        try rig.call(Fine().durable)
        // A process that has just started stores none: its first steps are to be quick.
        #expect(try ended() == nil)
        rig.clock.advance(by: .seconds(9))
        try rig.call(Fine().durable)
        #expect(try ended() == nil)
        rig.clock.advance(by: .seconds(1))
        try rig.store.step { _ in }
        #expect(try ended() == 3)
        try rig.pass(.seconds(8 * 86_400))
        try rig.pass(.seconds(120))
        #expect(try ended() == nil)
        #expect(try rig.store.read { try $0.totalActivity()[Fine.id]?.ended(.result) } == 3)
    }

    @Test("H28 durations are in the bucket whose bound they do not exceed")
    func durations() {
        var durations = Durations()
        #expect(durations.quantile(0.5) == nil)
        for _ in 1...99 { durations.add(.microseconds(500)) }
        durations.add(.seconds(7200))
        #expect(durations.counts.first == 99)
        #expect(durations.counts.last == 1)
        #expect(durations.quantile(0.99) == .microseconds(500))
        #expect(durations.quantile(1) == .seconds(3600))
        #expect(durations.sum == .seconds(7200) + .microseconds(49_500))
        durations.add(.microseconds(501))
        #expect(durations.counts[1] == 1)
        durations.add(.seconds(-1))
        #expect(durations.counts[0] == 100)
    }
}
