import CSQLite
import HandlersTestKit
import Platform
import Synchronization
import TestThreads
import TestSupport
import Testing

@testable import Handlers

private struct Refused: Error {}

/// Steps that share a commit.
@Suite(.ownThread, .timeLimit(.minutes(1)), .engines(.sqlite, .postgres)) struct GroupedStepTests {
    /// The number of commits of a store.
    private final class CommitCount: Sendable {
        final class Value: Sendable { let count = Atomic<Int>(0) }
        private let value = Value()
        var count: Int { value.count.load(ordering: .relaxed) }

        init(_ store: HandlerStore) throws {
            _ = try store.betweenSteps { connection in
                sqlite3_commit_hook(
                    connection.database,
                    { context in
                        guard let context else { return 0 }
                        Unmanaged<Value>.fromOpaque(context).takeUnretainedValue().count
                            .add(1, ordering: .relaxed)
                        return 0
                    }, Unmanaged.passUnretained(value).toOpaque())
            }
        }

        func stop(_ store: HandlerStore) throws {
            _ = try store.betweenSteps { sqlite3_commit_hook($0.database, nil, nil) }
        }
    }

    /// A loop whose only turn has a step.
    private final class OneStep: GroupedLoop {
        let place: ObjectIdentifier
        private let step: GroupedStep

        init(_ step: GroupedStep, _ store: HandlerStore) {
            (self.step, place) = (step, ObjectIdentifier(store))
        }

        func startTurn(_ found: [PollEntry]) -> (any GroupedWork)? { step }
        func endTurn() -> Pause? { nil }
    }

    /// Has steps as loops have them whose turns come together.
    private func run(_ steps: [(GroupedStep, of: HandlerStore)]) {
        #expect(Turn.run(steps.map { Turn(OneStep($0, $1), []) }[...]) == steps.count)
    }

    @Test("A3 the steps of one store share a commit, and one that fails is undone alone", .sqliteOnly)
    func alone() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), [])
            let other = try openStore(folder.file("other.db"), [])
            let count = try CommitCount(store)
            let undone = CommitCount.Value()
            let steps = (0..<10).map { number in
                GroupedStep(in: number == 9 ? other : store) { step in
                    try step.note("\(number)")
                    if number == 4 {
                        step.afterCommit { undone.count.add(1, ordering: .relaxed) }
                        throw Refused()
                    }
                }
            }
            run(steps.enumerated().map { ($1, $0 == 9 ? other : store) })
            #expect(count.count == 1)
            #expect(try store.notes() == ["0", "1", "2", "3", "5", "6", "7", "8"])
            #expect(try other.notes() == ["9"])
            #expect(undone.count.load(ordering: .relaxed) == 0)
            for (number, step) in steps.enumerated() {
                let result = try #require(step.result)
                #expect((try? result.get()) == nil ? number == 4 : number != 4)
            }
            try count.stop(store)
        }
    }

    @Test(
        "A3 when the store fails, all steps of the commit fail; an error of another store fails one step",
        .sqliteOnly)
    func storeFails() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), [])
            func runAll() -> [GroupedStep] {
                let steps = (0..<4).map { number in
                    GroupedStep(in: store) { step in
                        try step.note("\(number)")
                        if number == 2 { throw HandlerError(.databaseLocked, "another store is locked") }
                    }
                }
                run(steps.map { ($0, store) })
                return steps
            }
            _ = try store.betweenSteps { sqlite3_commit_hook($0.database, { _ in 1 }, nil) }
            for step in runAll() {
                #expect(throws: HandlerError.self) { try step.result?.get() }
            }
            _ = try store.betweenSteps { sqlite3_commit_hook($0.database, nil, nil) }
            #expect(try store.notes() == [])
            let results = runAll().map { (try? $0.result?.get()) != nil }
            #expect(results == [true, true, false, true])
            #expect(try store.notes() == ["0", "1", "3"])
        }
    }

    @Test("A3 a step that takes long ends the commit, and the rest follows in another one", .sqliteOnly)
    func long() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            let store = try openStore(folder.file(), [], time: clock.timeSource)
            let count = try CommitCount(store)
            let steps = (0..<6).map { number in
                GroupedStep(in: store) { step in
                    try step.note("\(number)")
                    if number == 1 { clock.advance(by: .milliseconds(20)) }
                }
            }
            run(steps.map { ($0, store) })
            #expect(count.count == 2)
            #expect(try store.notes().count == 6)
            try count.stop(store)
        }
    }
}
