import Handlers
import TestSupport
import TestThreads
import Testing
import TestServers

@testable import Simulation

/// What a run writes down for its report.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct FlightRecorderTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path + "/store.db" }

    struct Greeting: Handler {
        static let id = "report-test.greeting"
        static let retry = RetryPolicy(firstDelay: .milliseconds(1), factor: 1)
        var token: Secret<String>
        func run(_ call: borrowing Call<TimerFired>) throws { if call.attempt == 1 { throw Broken() } }
    }

    struct Broken: Error {}

    init() throws { folder = try TemporaryFolder() }

    @Test(
        "W7 the record of a handler holds what its rows hold no longer, and nothing of what was rolled back")
    func record() throws {
        try FlightRecorder.install(in: path)
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry([Greeting.self]), synchronous: .normal)
        try store.step { step in
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'alice@localhost')")
            try step.execute("INSERT INTO ownership VALUES (1, 1, 'main', 0)")
        }
        let first = try store.step { try $0.schedule(Greeting(token: Secret("hush")).durable, after: .zero) }
        let second = try store.step { try $0.bind(Greeting(token: Secret("hush")).durable) }
        #expect(throws: Broken.self) {
            try store.step { step in
                try step.invalidate(second, reason: .cancelled)
                throw Broken()
            }
        }
        try store.step { try $0.execute("UPDATE ownership SET epoch = 2, owner = 'worker'") }
        let runner = try HandlerRunner(store)
        while try store.step({ try $0.ending(of: first) }) == nil { try runner.runDue() }
        runner.close()

        let record = try FlightRecorder.read(path)
        #expect(record.epochs.map(\.owner) == ["main", "worker"] && record.epochs.map(\.number) == [1, 2])
        let flights = Dictionary(uniqueKeysWithValues: record.flights.map { ($0.id, $0) })
        let ended = try #require(flights[first.rawValue])
        #expect(ended.outcome == .result && ended.boundBy == 1 && ended.endedBy == 2)
        #expect(ended.arguments == #"{"token":"<secret>"}"#)
        #expect(ended.failures.count == 1 && ended.bound <= ended.failures[0])
        let waiting = try #require(flights[second.rawValue])
        #expect(waiting.ended == nil && waiting.outcome == nil)
    }

    @Test("W7 bars name the processes in which a handler was bound and ended, by the owners of those times")
    func owners() throws {
        let time = Counter()
        let chronicle = Chronicle(now: { time.value })
        for (at, role, pid) in [(0, "main", 10), (100, "worker", 11), (200, "main", 12)]
            as [(Int64, String, Int32)]
        {
            time.value = at
            chronicle.started(role, pid)
            time.value = at + 90
            chronicle.noted("push", "a push")
            chronicle.ended(pid, try Self.killed())
        }
        let report = TimelinePage(
            title: "t", verdict: "v", isGood: true, summary: "s", lives: chronicle.lives,
            marks: chronicle.marks,
            record: .init(
                flights: [
                    .init(
                        id: 1, name: "a.b", arguments: "{}", bound: 20, boundBy: 1, ended: 250, endedBy: 3,
                        outcome: .result, trace: 1)
                ],
                epochs: [
                    .init(number: 1, owner: "main", since: 10), .init(number: 2, owner: "worker", since: 110),
                    .init(number: 3, owner: "main", since: 210),
                ], sessions: []))
        #expect(report.handlers.first?.boundBy == 0 && report.handlers.first?.endedBy == 2)
        #expect(report.processes.map(\.fate) == ["killed", "killed", "killed"] && report.duration == 290)
    }

    private final class Counter { var value: Int64 = 0 }

    private static func killed() throws -> ChildEnding {
        let process = try ChildProcess("sleep", ["60"])
        process.signal(9)
        return try process.waitUntilExit(deadline: .now + .seconds(10))
    }
}
