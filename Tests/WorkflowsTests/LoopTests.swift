@testable import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

/// Goes on as often as `last` says, and notes each round.
private struct Round: Workflow {
    static let id = "flow.round"
    var number: Int
    var last: Int
    var fails = false

    func run(_ flow: Flow) async throws -> Int {
        try await flow.compensate(with: Undo(number: number).durable)
        let key = flow.idempotencyKey
        try await flow.step { try $0.note("round \(number) \(flow.operations) \(key.suffix(2))", of: 0) }
        try await flow.sleep(for: .seconds(1))
        if number < last {
            do { try flow.again(Round(number: number + 1, last: last, fails: fails).durable) } catch {
                // Nothing that it does now counts.
                _ = try? await flow.step { try $0.note("after", of: 0) }
                return -1
            }
        }
        if fails { throw Boom() }
        return number
    }
}

private struct Undo: Handler {
    static let id = "flow.undo-round"
    var number: Int
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.note("undo \(number)", of: 0)
    }
}

/// Leaves a wait open when it starts again.
private struct Leaving: Workflow {
    static let id = "flow.leaving"
    var isFirst: Bool

    func run(_ flow: Flow) async throws -> String {
        if isFirst {
            async let _ = flow.signal("old", as: String.self)
            try await flow.sleep(for: .seconds(1))
            try flow.again(Leaving(isFirst: false).durable)
        }
        return try await flow.signal("new", as: String.self) ?? "none"
    }
}

/// Starts itself under its own key.
private struct Itself: Workflow {
    static let id = "flow.itself"
    func run(_ flow: Flow) async throws -> String {
        do { try await flow.step { _ = try $0.start(Itself().durable, key: "itself") } } catch {
            return "\(error)"
        }
        return "started"
    }
}

private struct Other: Workflow {
    static let id = "flow.other"
    func run(_ flow: Flow) async throws -> String {
        do { try flow.again(Itself().durable) } catch let error as HandlerError { return error.code.rawValue }
    }
}

/// Does so many operations.
private struct Many: Workflow {
    static let id = "flow.many"
    var count: Int
    func run(_ flow: Flow) async throws -> Int {
        for _ in 0..<count { try await flow.step { _ in } }
        return flow.operations
    }
}

@Suite(.ownThread) struct LoopTests {
    private static let registry = HandlerRegistry([
        Round.self, Undo.self, Leaving.self, Itself.self, Other.self, Many.self,
    ])

    private func withStore(
        memory: Int = KeptRuns.standardLimit, _ body: (TestStore) async throws -> Void
    ) async throws {
        var configuration = HandlerRunner.Configuration()
        configuration.workflowMemory = memory
        try await withTestStore(
            registry: Self.registry, schemas: [effects], configuration: configuration, body)
    }

    private func texts(_ test: TestStore) throws -> [String] {
        try test.store.read { try $0.all("SELECT text FROM effect ORDER BY id") { $0.text(0) } }
    }

    @Test(
        "H36 a workflow that starts again keeps its id and key, and its journal is empty then",
        arguments: [KeptRuns.standardLimit, 0])
    func again(memory: Int) async throws {
        try await withStore(memory: memory) { test in
            let id = try test.store.step { step in
                try step.start(Round(number: 0, last: 3).durable, key: "round")
            }
            try await test.runDue()
            for round in 0..<3 {
                try await test.advance(by: .seconds(1))
                let (holder, count) = try test.store.read { reader in
                    (
                        try reader.status(ofKey: "round")?.id,
                        try reader.first(
                            "SELECT count(*) FROM journal WHERE operation NOT LIKE 'compensate %'"
                        ) { Int($0.integer(0)) }
                    )
                }
                #expect(holder == AnyHandlerID(id))
                // Where it started again, its step and its sleep.
                #expect(count == 3, "\(round)")
            }
            try await test.advance(by: .seconds(1))
            let ending = try test.store.read { try $0.ending(of: id) }
            #expect(try ending?.result(as: Int.self) == 3)
            let texts = try texts(test)
            #expect(texts.map { $0.prefix(9) } == ["round 0 2", "round 1 2", "round 2 2", "round 3 2"])
            // What was requested with the key of one round is not taken for that of another one.
            #expect(Set(texts.map { $0.suffix(2) }).count == 4, "\(texts)")
            #expect(try test.store.read { try $0.handlers() }.isEmpty)
        }
    }

    @Test(
        "H36 the compensations of all rounds run when one fails, the newest first",
        arguments: [KeptRuns.standardLimit, 0])
    func compensations(memory: Int) async throws {
        try await withStore(memory: memory) { test in
            let id = try test.store.step { step in
                try step.start(Round(number: 0, last: 2, fails: true).durable)
            }
            try await test.advance(by: .seconds(3))
            let ending = try test.store.read { try $0.ending(of: id) }
            #expect(ending?.reason == .failed)
            #expect(try texts(test).suffix(3) == ["undo 2", "undo 1", "undo 0"])
        }
    }

    @Test(
        "H36 what a round leaves open is canceled, and its end is not taken for a result of the next round",
        arguments: [KeptRuns.standardLimit, 0])
    func leaves(memory: Int) async throws {
        try await withStore(memory: memory) { test in
            let id = try test.store.step { try $0.start(Leaving(isFirst: true).durable) }
            try await test.advance(by: .seconds(1))
            // The workflow and its new wait.
            let names = try test.store.read { try $0.handlers() }.map(\.name)
            #expect(names.sorted() == [Leaving.id, FlowSignaled.id].sorted())
            try test.store.step { _ = try $0.signal("new", "now") }
            try await test.runDue()
            let ending = try test.store.read { try $0.ending(of: id) }
            #expect(try ending?.result(as: String.self) == "now")
        }
    }

    @Test(
        "H36 a workflow that starts itself under its own key gets an error, and so does one that goes on as another"
    )
    func itself() async throws {
        try await withStore { test in
            let (itself, other) = try test.store.step { step in
                (
                    try step.start(Itself().durable, key: "itself"),
                    try step.start(Other().durable)
                )
            }
            try await test.runDue()
            let (first, second) = try test.store.read { reader in
                (try reader.ending(of: itself), try reader.ending(of: other))
            }
            #expect(try first?.result(as: String.self).contains("let it go on with flow.again") == true)
            #expect(try second?.result(as: String.self) == "wrong-argument")
        }
    }

    @Test(
        "H36 the log says at half of the limit that a journal grows too long",
        arguments: [4_999, 5_001, 9_001])
    func warns(count: Int) async throws {
        let lines = Mutex<[String]>([])
        try await withTestStore(registry: Self.registry, schemas: [effects]) { test in
            let store = try HandlerStore(
                path: test.path, registry: Self.registry, schemas: [effects], synchronous: .normal,
                time: test.clock.timeSource,
                log: HandlerLog { entry in lines.withLock { $0.append(entry.message) } })
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            let id = try store.step { try $0.start(Many(count: count).durable) }
            while try runner.runDue() == .zero {}
            let ending = try store.read { try $0.ending(of: id) }
            #expect(try ending?.result(as: Int.self) == count)
        }
        let warnings = lines.withLock { $0 }.filter { $0.contains("let it go on with flow.again") }
        #expect(warnings.count == [4_999: 0, 5_001: 1, 9_001: 2][count])
    }
}
