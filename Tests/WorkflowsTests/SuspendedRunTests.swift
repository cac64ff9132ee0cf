@testable import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

/// What the workflow of a test does.
private final class Script: Sendable {
    typealias Body = @Sendable (Flow) async throws -> [String]
    private let body = Mutex<Body>({ _ in [] })
    let runs = Atomic(0)
    let clock = Mutex<VirtualClock?>(nil)

    func set(_ new: @escaping Body) { body.withLock { $0 = new } }
    func run(_ flow: Flow) async throws -> [String] {
        runs.add(1, ordering: .relaxed)
        return try await body.withLock { $0 }(flow)
    }
}

private let script = Script()

private struct Scripted: Workflow {
    static let id = "flow.suspended"
    func run(_ flow: Flow) async throws -> [String] { try await script.run(flow) }
}

/// Each of them waits for a signal to its own key.
private struct Waiting: Workflow {
    static let id = "flow.waiting"
    var number: Int
    func run(_ flow: Flow) async throws -> Int? { try await flow.signal("go-\(number)", as: Int.self) }
}

private struct Noted: Handler {
    static let id = "flow.noted"
    func run(_ call: borrowing Call<SignalReceived<Int>>) throws {}
}

private struct Misfit: Sendable {
    let old: Script.Body
    let new: Script.Body
    var signals: [String] = []
    let sentence: String
}

@Suite(.serialized, .ownThread) struct SuspendedRunTests {
    private func withFlow(
        memory: Int = KeptRuns.standardLimit, _ body: @escaping Script.Body,
        _ test: (TestStore, HandlerID<TimerFired>) async throws -> Void
    ) async throws {
        script.set(body)
        script.runs.store(0, ordering: .relaxed)
        var configuration = HandlerRunner.Configuration()
        configuration.workflowMemory = memory
        try await withTestStore(
            registry: HandlerRegistry([Scripted.self, Waiting.self, Noted.self]), schemas: [effects],
            configuration: configuration
        ) { store in
            script.clock.withLock { $0 = store.clock }
            defer { script.clock.withLock { $0 = nil } }
            let id = try store.store.step { try $0.start(Scripted().durable) }
            try await store.runDue()
            try await test(store, id)
        }
    }

    private func result(_ test: TestStore, _ id: HandlerID<TimerFired>) throws -> [String]? {
        try test.store.read { try $0.ending(of: id) }?.result(as: [String].self)
    }

    private func signal(_ test: TestStore, _ keys: String...) async throws {
        try test.store.step { step in for key in keys { try step.signal(key, key) } }
        try await test.runDue()
    }

    private func texts(_ test: TestStore) throws -> [String] {
        try test.store.read { try $0.all("SELECT text FROM effect ORDER BY id") { $0.text(0) } }
    }

    private func waitingKeys(_ test: TestStore) throws -> [String] {
        try test.store.read { try $0.all("SELECT key FROM handler_key ORDER BY key") { $0.text(0) } }
    }

    @Test(
        "H34 a workflow that waits stays suspended: its function runs once, and again only where it was dropped",
        arguments: [(KeptRuns.standardLimit, 1), (0, 21)])
    func runsOnce(memory: Int, runs: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                for _ in 0..<20 { try await flow.sleep(for: .seconds(1)) }
                return []
            }
        ) { test, id in
            try await test.advance(by: .seconds(20))
            #expect(try result(test, id) == [])
            #expect(script.runs.load(ordering: .relaxed) == runs)
        }
    }

    @Test("H34 a workflow goes on in the step in which its result came: each wait is one commit")
    func sharedCommit() async throws {
        try await withFlow({ flow in
            for _ in 0..<10 { try await flow.sleep(for: .seconds(1)) }
            return []
        }) { test, id in
            let other = try HandlerStore(
                path: test.path, registry: test.store.registry, schemas: [effects], synchronous: .normal,
                time: test.clock.timeSource)
            let before = other.notificationsByOthers
            try await test.advance(by: .seconds(10))
            #expect(try result(test, id) == [])
            #expect(other.notificationsByOthers &- before == 10)
        }
    }

    @Test("H34 tasks of a workflow wait at the same time", arguments: [KeptRuns.standardLimit, 0])
    func together(memory: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                async let one = flow.signal("a", as: String.self)
                async let other = flow.signal("b", as: String.self)
                return [try await one ?? "", try await other ?? ""]
            }
        ) { test, id in
            #expect(try waitingKeys(test) == ["a", "b"])
            try await signal(test, "b")
            #expect(try waitingKeys(test) == ["a"])
            try await signal(test, "a")
            #expect(try result(test, id) == ["a", "b"])
        }
    }

    /// The first of two signals counts.
    @Sendable private static func race(_ flow: Flow) async throws -> String {
        try await withThrowingTaskGroup(of: String.self) { group in
            for key in ["a", "b"] {
                group.addTask {
                    let value = try await flow.signal(key, as: String.self) ?? ""
                    try await flow.step("got") { try $0.note("got \(value)", of: 0) }
                    return value
                }
            }
            defer { group.cancelAll() }
            return try await group.next() ?? ""
        }
    }

    @Test(
        "H34 what a canceled task waits for is canceled, and its key is free at once",
        arguments: [KeptRuns.standardLimit, 0])
    func canceled(memory: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in [try await Self.race(flow), try await flow.signal("end", as: String.self) ?? ""] }
        ) { test, id in
            try await signal(test, "a")
            #expect(try waitingKeys(test) == ["end"])
            try test.store.step { step in
                // Bound again, as nothing has the key.
                _ = try step.bind(Noted().durable, key: "b", ifTaken: .refuse)
            }
            // The workflow, its wait, and the new one.
            let handlers = try test.store.read { try $0.handlers() }
            #expect(handlers.count == 3)
            try await signal(test, "end")
            #expect(try result(test, id) == ["a", "end"])
            #expect(try texts(test) == ["got a"])
        }
    }

    @Test(
        "H34 a signal that came before its wait was canceled is not lost",
        arguments: [KeptRuns.standardLimit, 0])
    func cameBefore(memory: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in [try await Self.race(flow), try await flow.signal("end", as: String.self) ?? ""] }
        ) { test, id in
            try await signal(test, "b", "a")
            try await signal(test, "end")
            #expect(try result(test, id) == ["b", "end"])
            #expect(
                try texts(test)
                    == ["got b", "got a"])
        }
    }

    @Test(
        "H34 a run that is cut into several steps takes the same way as one that is not",
        arguments: [(KeptRuns.standardLimit, 0, 1), (KeptRuns.standardLimit, 4, 1), (0, 4, 5)])
    func slices(memory: Int, milliseconds: Int, runs: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                try await withThrowingTaskGroup(of: String.self) { group in
                    group.addTask {
                        for number in 0..<6 {
                            try await flow.step {
                                try $0.note("\(number)", of: 0)
                                script.clock.withLock { $0 }?.advance(by: .milliseconds(milliseconds))
                            }
                        }
                        return "long"
                    }
                    group.addTask { "short" }
                    var ends: [String] = []
                    for try await end in group { ends.append(end) }
                    _ = try await flow.signal("end", as: String.self)
                    return ends
                }
            }
        ) { test, id in
            try await signal(test, "end")
            #expect(try result(test, id) == ["long", "short"])
            #expect(
                try texts(test)
                    == (0..<6).map(String.init))
            #expect(script.runs.load(ordering: .relaxed) == runs)
        }
    }

    @Test("H34 suspended workflows need no more memory than the limit, and those that were dropped go on")
    func limit() async throws {
        try await withFlow(memory: 10 * 4096, { _ in [] }) { test, _ in
            let ids = try test.store.step { step in
                try (0..<50).map { try step.start(Waiting(number: $0).durable) }
            }
            try await test.runDue()
            #expect(test.store.suspendedWorkflows == 10)
            try test.store.step { step in for number in 0..<50 { try step.signal("go-\(number)", number) } }
            try await test.runDue()
            for (number, id) in ids.enumerated() {
                let ending = try test.store.read { try $0.ending(of: id) }
                #expect(try ending?.result(as: Int.self) == number)
            }
            #expect(test.store.suspendedWorkflows == 0)
            // One that ends while it waits is not kept either.
            let last = try test.store.step { try $0.start(Waiting(number: 50).durable) }
            try await test.runDue()
            #expect(test.store.suspendedWorkflows == 1)
            try test.store.step { _ = try $0.invalidate(last, reason: .cancelled) }
            #expect(test.store.suspendedWorkflows == 0)
        }
    }

    @Test("H34 a workflow that started before this engine ends as it started: an operation after the other")
    func firstEngine() async throws {
        try await withFlow(
            memory: 0,
            { flow in
                async let one = flow.signal("a", as: String.self)
                async let other = flow.signal("b", as: String.self)
                return [try await one ?? "", try await other ?? ""]
            }
        ) { test, id in
            try test.store.step { step in
                // As the first engine has left it.
                let relation = Relations.suspends.rawValue
                try step.execute("UPDATE handler SET relations = relations - ? WHERE id = ?", relation, id)
                try step.execute(
                    "DELETE FROM handler_key WHERE handler = (SELECT waiter FROM journal WHERE position = 1)")
                try step.execute(
                    "DELETE FROM handler WHERE id = (SELECT waiter FROM journal WHERE position = 1)")
                try step.execute("DELETE FROM journal WHERE position = 1")
            }
            test.store.setWorkflowMemory(KeptRuns.standardLimit)
            #expect(try waitingKeys(test) == ["a"])
            try await signal(test, "a")
            #expect(try waitingKeys(test) == ["b"])
            #expect(test.store.suspendedWorkflows == 0)
            try await signal(test, "b")
            #expect(try result(test, id) == ["a", "b"])
            #expect(script.runs.load(ordering: .relaxed) == 3)
        }
    }

    @Test(
        "H34 a result that comes from the workflow's own step is delivered in the same call",
        arguments: [KeptRuns.standardLimit, 0])
    func ownSignal(memory: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                async let one = flow.signal("a", as: String.self)
                try await flow.sleep(for: .seconds(1))
                try await flow.step { _ = try $0.signal("a", "own") }
                return [try await one ?? ""]
            }
        ) { test, id in
            try await test.advance(by: .seconds(1))
            #expect(try result(test, id) == ["own"])
        }
    }

    @Test(
        "H34 a canceled task that waits again and again parks its workflow instead of holding up all others")
    func canceledLoop() async throws {
        try await withFlow({ flow in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { while true { try? await flow.sleep(for: .seconds(1)) } }
                group.cancelAll()
                try await group.waitForAll()
            }
            return []
        }) { test, id in
            let status = try test.store.read { try $0.status(of: id) }
            #expect(status?.state == .parked)
        }
    }

    @Test(
        "H31 a loop that goes on after its run was dropped is stopped, and the workflow goes on",
        arguments: [KeptRuns.standardLimit, 0])
    func endlessLoop(memory: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                while true {
                    if let word = try? await flow.signal("go", as: String.self) { return [word] }
                }
            }
        ) { test, id in
            let status = try test.store.read { try $0.status(of: id) }
            #expect(status?.state == .pending)
            try await signal(test, "go")
            #expect(try result(test, id) == ["go"])
        }
    }

    private static let misfits = [
        Misfit(
            old: { flow in
                async let one = flow.signal("a", as: String.self)
                async let other = flow.signal("b", as: String.self)
                return [try await one ?? "", try await other ?? ""]
            },
            new: { flow in
                [
                    try await flow.signal("a", as: String.self) ?? "",
                    try await flow.signal("b", as: String.self) ?? "",
                ]
            }, signals: ["b"],
            sentence:
                "has the result of 'signal b' at place 1 of its journal, for which this program does not wait"
        ),
        Misfit(
            old: { flow in
                async let one = flow.signal("a", as: String.self)
                async let other = flow.signal("b", as: String.self)
                return [try await one ?? "", try await other ?? ""]
            },
            new: { flow in [try await flow.signal("a", as: String.self) ?? ""] },
            sentence: "waits before place 1 of its journal, which holds 'signal b'"),
        Misfit(
            old: { flow in [try await race(flow), try await flow.signal("end", as: String.self) ?? ""] },
            new: { flow in
                try await withThrowingTaskGroup(of: String.self) { group in
                    for key in ["a", "b"] {
                        group.addTask {
                            let value = try await flow.signal(key, as: String.self) ?? ""
                            try await flow.step("got") { try $0.note("got \(value)", of: 0) }
                            return value
                        }
                    }
                    let first = try await group.next() ?? ""
                    async let end = flow.signal("end", as: String.self)
                    return [first, try await group.next() ?? "", try await end ?? ""]
                }
            }, signals: ["a"], sentence: "has canceled its wait at place 1 of its journal"),
    ]

    @Test(
        "H34 code that waits or cancels otherwise than its journal says parks the workflow", arguments: 0..<3)
    func misfit(number: Int) async throws {
        let misfit = Self.misfits[number]
        try await withFlow(memory: 0, misfit.old) { test, id in
            for key in misfit.signals { try test.store.step { _ = try $0.signal(key, key) } }
            // What waits goes on with the old code, up to here.
            if number == 2 { try await test.runDue() }
            script.set(misfit.new)
            try test.store.step { step in
                try step.execute("UPDATE handler SET due = ? WHERE id = ?", step.now, id)
            }
            try test.restart()
            try await test.runDue()
            let status = try test.store.read { try $0.status(of: id) }
            #expect(status?.state == .parked)
            #expect(status?.reason?.contains(misfit.sentence) == true, "\(status?.reason ?? "")")
        }
    }
}
