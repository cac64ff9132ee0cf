@testable import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

/// What a program did: all that must be the same whatever became of its runs.
private struct Course: Equatable, CustomStringConvertible {
    var outcome = "none"
    var effects: [String] = []
    /// The journal at each time at which the workflow waited.
    var journals: [[String]] = []

    var description: String { "\(outcome) \(effects) \(journals.last ?? [])" }
}

/// What becomes of the runs.
private enum Fate: CaseIterable {
    /// They stay; each waits for ever in memory.
    case kept
    /// Each is dropped after its commit.
    case dropped
    /// All but one are dropped.
    case crowded
    /// Some statements fail, and with them the whole step.
    case rolledBack
    /// The same, and each is dropped after its commit.
    case rolledBackAndDropped
    /// The part of the step is undone in which a run went on.
    case undone
    /// Two processes call them in turn.
    case takenOver

    var memory: Int {
        switch self {
        case .kept, .rolledBack, .undone, .takenOver: 1 << 30
        case .dropped, .rolledBackAndDropped: 0
        case .crowded: 8192
        }
    }
}

@Suite(.ownThread) struct RandomProgramTests {
    @Test(
        "H34 random programs do the same whether their runs stay, are dropped, are rolled back or change the process",
        arguments: 0..<4)
    func sameCourse(part: UInt64) async throws {
        let seeds = Array(part * 50..<part * 50 + 50)
        let expected = try await courses(of: seeds, .kept)
        #expect(expected.allSatisfy { $0.outcome != "none" })
        // The programs wait, race and cancel.
        #expect(expected.contains { $0.journals.joined().contains { $0.hasSuffix("0") } })
        #expect(expected.map(\.journals.count).reduce(0, +) > 3 * seeds.count)
        for fate in Fate.allCases where fate != .kept {
            let found = try await courses(of: seeds, fate)
            for (seed, (expected, found)) in zip(seeds, zip(expected, found)) {
                #expect(found == expected, "\(fate) \(seed)")
            }
        }
    }

    private func courses(of seeds: [UInt64], _ fate: Fate) async throws -> [Course] {
        var configuration = HandlerRunner.Configuration()
        configuration.workflowMemory = fate.memory
        let registry = HandlerRegistry([Randomly.self, Twice.self])
        return try await withTestStore(registry: registry, schemas: [effects], configuration: configuration) {
            test in
            let other = try HandlerStore(
                path: test.path, registry: registry, schemas: [effects], synchronous: .normal,
                time: test.clock.timeSource)
            let otherRunner = try HandlerRunner(other, configuration)
            defer { otherRunner.close() }
            refuse(fate, in: test.store)
            defer { test.store.refuseRows(nil) }
            let runners = fate == .takenOver ? [test.runner, otherRunner] : [test.runner]
            var play = try Play(seeds, test.store, test.clock)
            for turn in 0..<200 where !play.isOver {
                try play.run(runners[turn % runners.count])
                try play.look()
                try play.signal()
            }
            return play.courses
        }
    }

    private func refuse(_ fate: Fate, in store: HandlerStore) {
        var random = SeededGenerator(seed: 7)
        switch fate {
        case .kept, .dropped, .crowded, .takenOver: break
        case .rolledBack, .rolledBackAndDropped:
            // Seldom enough that the step commits when it is tried again.
            var left = 100
            store.refuseRows(with: .storageFailed) { sql, _ in
                if sql.contains("journal") { left -= 1 }
                guard left == 0 else { return false }
                left = Int.random(in: 200..<800, using: &random)
                return true
            }
        case .undone:
            store.refuseRows { sql, _ in
                sql.hasPrefix("UPDATE handler SET due = ?, input")
                    && Int.random(in: 0..<3, using: &random) == 0
            }
        }
    }
}

/// Starts programs, and gives them signals that depend on nothing but what they have done.
private struct Play {
    let seeds: [UInt64]
    let store: HandlerStore
    let clock: VirtualClock
    var ids: [HandlerID<TimerFired>] = []
    var courses: [Course]
    var random: [SeededGenerator]

    init(_ seeds: [UInt64], _ store: HandlerStore, _ clock: VirtualClock) throws {
        (self.seeds, self.store, self.clock) = (seeds, store, clock)
        courses = seeds.map { _ in Course() }
        random = seeds.map { SeededGenerator(seed: $0 ^ 77) }
        ids = try step(store) { step in try seeds.map { try step.start(Randomly(seed: $0).durable) } }
    }

    var isOver: Bool { courses.allSatisfy { $0.outcome != "none" } }

    /// Does what is due, however often it fails.
    func run(_ runner: HandlerRunner) throws {
        var failures = 0
        while true {
            do {
                while try runner.runDue() == .zero {}
                return
            } catch {
                failures += 1
                guard failures < 10_000 else { throw error }
            }
        }
    }

    private func step<R>(_ store: HandlerStore, _ body: (borrowing Step) throws -> R) throws -> R {
        var failures = 0
        while true {
            do { return try store.step(body) } catch {
                failures += 1
                guard failures < 10_000 else { throw error }
            }
        }
    }

    mutating func look() throws {
        for (index, seed) in seeds.enumerated() where courses[index].outcome == "none" {
            let id = ids[index]
            let (journal, ending, texts) = try store.read { reader in
                (
                    try reader.all(
                        "SELECT operation, value, error, delivery FROM journal WHERE handler = ? ORDER BY position",
                        AnyHandlerID(id)
                    ) { row in
                        let value = row.isNull(1) ? "-" : String(decoding: row.blob(1), as: UTF8.self)
                        return
                            "\(row.text(0)) \(value) \(row.optionalText(2) ?? "-") \(row.optionalInteger(3).map(String.init) ?? "-")"
                    },
                    try reader.ending(of: id),
                    try reader.all("SELECT text FROM effect WHERE seed = ? ORDER BY id", Int(seed)) {
                        $0.text(0)
                    }
                )
            }
            courses[index].effects = texts
            if let ending {
                let result = try? ending.result(as: Int.self)
                courses[index].outcome = "\(ending.outcome) \(result.map(String.init) ?? "-")"
            } else {
                // The ids of handlers are others where a step was rolled back.
                courses[index].journals.append(journal.map(Self.withoutIDs))
            }
        }
    }

    private static func withoutIDs(_ line: String) -> String {
        line.replacing(#/"handler":\d+/#, with: #""handler":0"#)
    }

    /// Gives one or two of the signals for which each program waits, in one step.
    mutating func signal() throws {
        var signals: [(key: String, value: Int)] = []
        for (index, seed) in seeds.enumerated() where courses[index].outcome == "none" {
            var keys = try store.read { reader in
                try reader.all(
                    "SELECT key FROM handler_key WHERE key LIKE ? ORDER BY key", "\(seed)-%"
                ) { $0.text(0) }
            }
            for _ in 0..<Int.random(in: 1...2, using: &random[index]) where !keys.isEmpty {
                let key = keys.remove(at: Int.random(in: 0..<keys.count, using: &random[index]))
                signals.append((key, Int.random(in: 0..<1000, using: &random[index])))
            }
        }
        try step(store) { step in for (key, value) in signals { try step.signal(key, value) } }
    }
}
