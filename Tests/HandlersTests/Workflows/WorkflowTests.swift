@testable import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import TestSupport
import Testing

/// What the workflow of a test does, so that a test can change its code while it waits.
private final class Script: Sendable {
    typealias Body = @Sendable (Flow) async throws -> [String]
    private let body = Mutex<Body>({ _ in [] })
    let runs = Atomic(0)

    func set(_ new: @escaping Body) { body.withLock { $0 = new } }
    func run(_ flow: Flow) async throws -> [String] {
        runs.add(1, ordering: .relaxed)
        return try await body.withLock { $0 }(flow)
    }
}

private let script = Script()

private struct Scripted: Workflow {
    static let id = "flow.scripted"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
    func run(_ flow: Flow) async throws -> [String] { try await script.run(flow) }
}

private struct Inner: Workflow {
    static let id = "flow.inner"
    var number: Int
    func run(_ flow: Flow) async throws -> Int {
        try await flow.sleep(for: .seconds(1))
        return number * 2
    }
}

/// Asks another service, and may be slow or fail.
private struct Ask: AsyncHandler {
    static let id = "flow.ask"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .zero)
    var name: String
    var fails = false
    func run(_ call: AsyncCall<TimerFired>) async throws {
        if fails { throw Failure() }
        try call.end(result: name.count) { try $0.note("asked \(name)") }
    }
}

/// Never ends by itself.
private struct Stuck: Handler {
    static let id = "flow.stuck"
    static let retry = RetryPolicy(attempts: 1000, firstDelay: .seconds(1), factor: 1)
    func run(_ call: borrowing Call<TimerFired>) throws { throw Failure() }
}

private struct Paid: Handler {
    static let id = "flow.paid"
    func run(_ call: borrowing Call<SignalReceived<Int>>) throws {}
}

private struct Met: Handler {
    static let id = "flow.met"
    func run(_ call: borrowing Call<Joined>) throws { try call.step.note("met") }
}

private struct Undo: Handler {
    static let id = "flow.undo"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
    static let failures = Atomic(0)
    var name: String
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.note("undo \(name): \(call.reason)")
        if Self.failures.load(ordering: .relaxed) > 0 {
            Self.failures.subtract(1, ordering: .relaxed)
            throw Failure()
        }
    }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(3)), .engines(.sqlite, .postgres)) struct WorkflowTests {
    private static let handlers: [any DurableHandler.Type] = [
        Scripted.self, Inner.self, Ask.self, Stuck.self, Undo.self, Say.self, Paid.self, Met.self,
    ]

    /// Does what is due, in this process as long as something goes on, as often as said; each time a second later.
    private func run(_ rig: Rig, times: Int = 1) async throws {
        for turn in 0..<times {
            if turn > 0 { rig.clock.advance(by: .seconds(1)) }
            // What ends in one pass may make something due for the next.
            for _ in 0..<4 {
                try rig.runner.runDue()
                #expect(try await rig.runner.drain(for: .seconds(60)))
            }
        }
    }

    /// Suspended runs stay in memory, or each is dropped after its step.
    private static let kept = KeptRuns.standardLimit

    private func withFlow(
        memory: Int = kept, _ body: @escaping Script.Body,
        _ test: (Rig, HandlerID<TimerFired>) async throws -> Void
    ) async throws {
        script.set(body)
        script.runs.store(0, ordering: .relaxed)
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers, workflowMemory: memory)
            defer { rig.runner.close() }
            let id = try rig.store.step { try $0.start(Scripted().durable, key: "flow") }
            try await test(rig, id)
        }
    }

    private func result(_ rig: Rig, _ id: HandlerID<TimerFired>) throws -> [String]? {
        try rig.store.keptEnding(of: id)?.result(as: [String].self)
    }

    @Test(
        "H31 a workflow acts, waits and returns; each thing is done once, and nothing is leased while it waits",
        .countsInMemory, arguments: [(kept, 1), (0, 2)]
    )
    func whole(memory: Int, runs: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                let number = try await flow.step { step in
                    try step.note("started")
                    return 17
                }
                let length = try await flow.run(Ask(name: "Ada").durable, as: Int.self)
                let word = try await flow.signal("go", as: String.self)
                return ["\(number)", "\(length)", word ?? "none"]
            }
        ) { rig, id in
            try await run(rig)
            #expect(try rig.status(of: id)?.state == .pending)
            #expect(try rig.status(of: id)?.dueAt == nil)
            #expect(script.runs.load(ordering: .relaxed) == runs)
            try rig.store.step { try $0.signal("go", "now") }
            try await run(rig)
            #expect(try result(rig, id) == ["17", "3", "now"])
            #expect(try rig.store.notes() == ["started", "asked Ada"])
            #expect(try rig.handlers().isEmpty)
            #expect(try rig.store.integer("SELECT count(*) FROM journal") == 0)
        }
    }

    @Test(
        "H31 what catches the end of a run cannot act: a thousand times over", .countsInMemory,
        arguments: [(kept, 1), (0, 1001)])
    func eviction(memory: Int, runs: Int) async throws {
        try await withFlow(
            memory: memory,
            { flow in
                var caught = 0
                for _ in 0..<1000 {
                    defer { caught += 1 }
                    do {
                        try await flow.sleep(for: .zero)
                    } catch {
                        try? await flow.step("caught") { try $0.note("caught") }
                        _ = try? await flow.run(Ask(name: "caught").durable)
                        return ["swallowed"]
                    }
                }
                try? await flow.step { try $0.note("done") }
                return ["done"]
            }
        ) { rig, id in
            while try result(rig, id) == nil { try await run(rig) }
            #expect(try result(rig, id) == ["done"])
            #expect(try rig.store.notes() == ["done"])
            #expect(script.runs.load(ordering: .relaxed) == runs)
        }
    }

    @Test(
        "H31 an operation that failed fails in each run, with the same sentence and without effects",
        .effectsInMemory)
    func failedStep() async throws {
        let shots = Sink<Int>()
        try await withFlow({ flow in
            var said: [String] = []
            do {
                try await flow.step {
                    shots.append(1)
                    try $0.note("undone")
                    throw Failure()
                }
            } catch { said.append("\(error)") }
            do {
                _ = try await flow.run(Ask(name: "x", fails: true).durable, as: Int.self)
            } catch let error as CallError { said.append("\(error)") }
            try await flow.sleep(for: .seconds(1))
            return said
        }) { rig, id in
            try await run(rig, times: 2)
            // The handler is quarantined, and the workflow waits for it.
            #expect(try rig.handlers(in: .quarantined).map(\.name) == ["flow.ask"])
            let asked = try #require(try rig.handlers(in: .quarantined).first)
            try rig.store.step { _ = try $0.invalidate(asked.id, reason: .cancelled) }
            try await run(rig, times: 2)
            #expect(try result(rig, id) == [Failure().description, Failure().description])
            #expect(try rig.store.notes().isEmpty)
            #expect(shots.values == [1])
        }
    }

    @Test("H31 a wait for several handlers ends in time, with those that have ended, and cancels the others")
    func within() async throws {
        try await withFlow({ flow in
            let all = try await flow.all(
                [Ask(name: "Ada").durable, Stuck().durable, Inner(number: 4).durable], within: .seconds(3))
            let some = try await flow.quorum(1, of: [Stuck().durable, Ask(name: "Bob").durable])
            let first = try await flow.any([Ask(name: "Eve").durable, Stuck().durable])
            let none = try await flow.all([])
            let late = try await flow.signal("late", as: String.self, within: .seconds(2))
            return [all, some, first, none].map { children in
                children.map { ((try? $0.result(as: Int.self)).map(String.init) ?? "-") }.joined(
                    separator: " ")
            } + [late ?? "none"]
        }) { rig, id in
            try await run(rig, times: 8)
            #expect(try result(rig, id) == ["3 - 8", "- 3", "3 -", "", "none"])
            #expect(try rig.handlers().isEmpty)
        }
    }

    @Test("H31 a signal without a value is not taken for one that did not come in time")
    func emptySignal() async throws {
        try await withFlow({ flow in
            let came = try await flow.signal("came", as: Int?.self, within: .seconds(1))
            let late = try await flow.signal("late", as: Int?.self, within: .seconds(1))
            do {
                let number = try await flow.signal("number", as: Int.self, within: .seconds(1))
                return ["\(came as Any)", "\(late as Any)", "\(number as Any)"]
            } catch let error as HandlerError {
                return ["\(came as Any)", "\(late as Any)", error.code.rawValue]
            }
        }) { rig, id in
            try rig.store.step { step in
                try step.signal("came", Int?.none)
                try step.signal("number", Int?.none)
            }
            try await run(rig, times: 3)
            #expect(try result(rig, id) == ["Optional(nil)", "nil", "wrong-argument"])
        }
    }

    @Test(
        "H31 time and random numbers are the same in each run", .countsInMemory,
        arguments: [(kept, 2), (0, 3)])
    func sameInEachRun(memory: Int, count: Int) async throws {
        let seen = Sink<[Int]>()
        try await withFlow(
            memory: memory,
            { flow in
                var numbers = [Int(flow.now.milliseconds), flow.random(in: 0...1_000_000)]
                try await flow.sleep(for: .seconds(1))
                numbers += [Int(flow.now.milliseconds), flow.random(in: 0...1_000_000)]
                seen.append(numbers)
                try await flow.sleep(for: .seconds(1))
                seen.append(numbers)
                return []
            }
        ) { rig, id in
            let start = rig.clock.wall
            try await run(rig, times: 3)
            #expect(try result(rig, id) != nil)
            #expect(Set(seen.values).count == 1)
            #expect(seen.values.count == count)
            let numbers = try #require(seen.values.first)
            #expect(numbers[0] == Int(start.milliseconds))
            #expect(numbers[2] == Int(start.milliseconds) + 1000)
            #expect(numbers[1] != numbers[3])
        }
    }

    @Test("H31 a workflow that fails runs its compensations, the newest first, whatever fails then")
    func compensation() async throws {
        try await withFlow({ flow in
            try await flow.compensate(with: Undo(name: "one").durable)
            try await flow.step { try $0.note("did") }
            try await flow.compensate(with: Undo(name: "two").durable)
            try await flow.sleep(for: .seconds(1))
            throw Failure()
        }) { rig, id in
            Undo.failures.store(1, ordering: .relaxed)
            try await run(rig, times: 4)
            #expect(try rig.store.keptEnding(of: id)?.reason == .failed)
            #expect(try rig.store.notes() == ["did", "undo two: failed", "undo one: failed"])
            #expect(try rig.handlers().isEmpty)
        }
    }

    @Test("H31 a canceled workflow runs its compensations, and what it waits for is canceled")
    func canceled() async throws {
        try await withFlow({ flow in
            try await flow.compensate(with: Undo(name: "one").durable)
            _ = try await flow.all([Stuck().durable, Inner(number: 3).durable])
            return []
        }) { rig, id in
            try await run(rig)
            #expect(try rig.handlers().count == 5)
            try rig.store.step { _ = try $0.invalidate(id, reason: .cancelled) }
            try await run(rig, times: 2)
            #expect(try rig.store.notes() == ["undo one: cancelled"])
            #expect(try rig.handlers().isEmpty)
            #expect(try rig.store.integer("SELECT count(*) FROM journal") == 0)
        }
    }

    @Test(
        "H31 the keys that a canceled workflow waits for are free at once, also while its compensation fails",
        .effectsInMemory,
        arguments: [0, 1, 3])
    func freesKeys(failures: Int) async throws {
        defer { Undo.failures.store(0, ordering: .relaxed) }
        try await withFlow({ flow in
            try await flow.compensate(with: Undo(name: "one").durable)
            return [try await flow.signal("go", as: String.self) ?? "none"]
        }) { rig, id in
            try await run(rig)
            Undo.failures.store(failures, ordering: .relaxed)
            let next = try rig.store.step { step in
                _ = try step.invalidate(id, reason: .cancelled)
                let paid = try step.bind(Paid().durable, key: "go", ifTaken: .refuse)
                try step.discard(paid)
                return try step.start(Scripted().durable)
            }
            try await run(rig)
            #expect(Undo.failures.load(ordering: .relaxed) == 0)
            #expect(try rig.store.keptEnding(of: id)?.reason == (failures < 3 ? .cancelled : nil))
            #expect(try rig.status(of: id)?.state == (failures < 3 ? nil : .quarantined))
            try rig.store.step { try $0.signal("go", "now") }
            try await run(rig)
            #expect(try result(rig, next) == ["now"])
            // Nothing but the workflow whose compensation failed for good is left.
            #expect(try rig.handlers().count == failures / 3)
            try rig.store.step { _ = try $0.requeueAll() }
            try await run(rig)
            #expect(try rig.handlers().isEmpty)
            #expect(try rig.store.integer("SELECT count(*) FROM journal") == 0)
        }
    }

    @Test("H31 a signal does not reach a workflow that a runner is to cancel, but the next one")
    func signalAfterCancel() async throws {
        try await withFlow({ flow in
            [try await flow.signal("go", as: String.self) ?? "none"]
        }) { rig, id in
            try await run(rig)
            let next = try rig.store.step { step in
                try step.transaction.chains.cancelLater("SELECT CAST(? AS BIGINT)", AnyHandlerID(id))
                try step.signal("go", "now")
                return try step.start(Scripted().durable)
            }
            try await run(rig)
            #expect(try rig.store.keptEnding(of: id)?.reason == .cancelled)
            #expect(try result(rig, next) == ["now"])
        }
    }

    @Test("H31 a workflow whose wait was invalidated by other code goes on with an error")
    func waitInvalidated() async throws {
        try await withFlow({ flow in
            do {
                return [try await flow.signal("go", as: String.self) ?? "none"]
            } catch { return ["\(error)"] }
        }) { rig, id in
            try await run(rig)
            _ = try rig.store.step { try $0.invalidate(key: "go", reason: .cancelled) }
            try await run(rig)
            #expect(try result(rig, id)?.first?.contains("invalidated (cancelled)") == true)
        }
    }

    @Test(
        "H31 code that does not fit the journal parks the workflow and shows both, and the old code goes on")
    func changedCode() async throws {
        let old: Script.Body = { flow in
            try await flow.step("first") { try $0.note("first") }
            try await flow.sleep(for: .seconds(1))
            return ["old"]
        }
        let changes: [(Script.Body, String)] = [
            (
                { flow in
                    try await flow.step("second") { try $0.note("second") }
                    return []
                }, "has 'step first' at place 0 of its journal, where this program does 'step second'"
            ),
            ({ _ in ["early"] }, "returned before place 0 of its journal, which holds 'step first'"),
        ]
        for (change, sentence) in changes {
            script.set(old)
            try await withFolder { folder in
                let clock = VirtualClock()
                func life(_ body: (Rig) async throws -> Void) async throws {
                    let rig = try Rig(folder.file(), Self.handlers, clock: clock, workflowMemory: 0)
                    defer { rig.runner.close() }
                    try await body(rig)
                }
                var id = HandlerID<TimerFired>(rawValue: 0)
                try await life { rig in
                    id = try rig.store.step { try $0.start(Scripted().durable) }
                    try await run(rig)
                    script.set(change)
                    try await run(rig, times: 2)
                    let status = try rig.status(of: id)
                    #expect(status?.state == .parked)
                    #expect(status?.reason?.contains(sentence) == true, "\(status?.reason ?? "")")
                }
                script.set(old)
                try await life { rig in
                    try await run(rig)
                    #expect(try result(rig, id) == ["old"])
                    #expect(try rig.store.notes() == ["first"])
                }
            }
        }
    }

    @Test("H31 a change with a version lets workflows from before it end as they started")
    func version() async throws {
        @Sendable func body(_ flow: Flow, _ versions: ClosedRange<Int>?) async throws -> [String] {
            var said = ""
            if let versions, try await flow.version("wrap", in: versions) > 1 {
                try await flow.step("wrap") { try $0.note("wrapped") }
                said = "wrapped"
            }
            try await flow.sleep(for: .seconds(1))
            return [said]
        }
        try await withFlow(memory: 0, { try await body($0, nil) }) { rig, before in
            try await run(rig)
            script.set { try await body($0, 1...2) }
            let after = try rig.store.step { try $0.start(Scripted().durable) }
            try await run(rig, times: 2)
            #expect(try result(rig, before) == [""])
            #expect(try result(rig, after) == ["wrapped"])
            #expect(try rig.store.notes() == ["wrapped"])

            let last = try rig.store.step { try $0.start(Scripted().durable) }
            try await run(rig)
            script.set { try await body($0, 3...4) }
            try await run(rig, times: 2)
            #expect(try rig.status(of: last)?.reason?.contains("version 2 of 'wrap'") == true)
        }
    }

    @Test(
        "H31 a workflow that awaits something else is parked with a sentence, and can do nothing any more",
        .effectsInMemory,
        arguments: [false, true])
    func foreignWait(whileDriven: Bool) async throws {
        let late = Sink<String>()
        let waiting = Mutex<UnsafeContinuation<Void, Swift.Never>?>(nil)
        let resume: @Sendable () -> Void = { waiting.withLock { $0.take() }?.resume() }
        try await withFlow({ flow in
            try await flow.step { try $0.note("before") }
            // Runs on the thread of the step, once the await below has left it.
            async let resumed: Void = {
                if whileDriven { await Self.onAnotherThread(resume) }
            }()
            await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Swift.Never>) in
                waiting.withLock { $0 = continuation }
            }
            await resumed
            do {
                try await flow.step("after") { try $0.note("after") }
                late.append("written")
            } catch { late.append("\(type(of: error))") }
            return []
        }) { rig, id in
            try await run(rig)
            let status = try rig.status(of: id)
            #expect(status?.state == .parked)
            #expect(status?.reason?.contains("awaits something that is not its flow's") == true)
            resume()
            while late.values.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
            #expect(late.values == ["Stopped"])
            // The whole run is undone.
            #expect(try rig.store.notes().isEmpty)
        }
    }

    /// Blocks this thread until another one has run `body`.
    private static func onAnotherThread(_ body: @escaping @Sendable () -> Void) async {
        let isDone = Sink<Bool>()
        Task.detached {
            body()
            isDone.append(true)
        }
        while isDone.values.isEmpty {}
    }

    @Test("H31 a task of its own that acts for a workflow writes nothing, and parks the workflow")
    func ownTask() async throws {
        let said = Sink<String>()
        try await withFlow({ flow in
            Task.detached {
                do {
                    try await flow.step { try $0.note("beside") }
                    said.append("written")
                } catch { said.append("\(type(of: error))") }
            }
            while said.values.isEmpty {}
            return []
        }) { rig, id in
            try await run(rig)
            #expect(said.values == ["Stopped"])
            #expect(try rig.status(of: id)?.state == .parked)
            #expect(try rig.store.notes().isEmpty)
        }
    }

    @Test(
        "H31 what a store that fails undoes is done again, and failures from before the last wait do not count"
    )
    func progress() async throws {
        let failures = Sink<Int>()
        try await withFlow({ flow in
            for number in 0..<6 {
                try await flow.step("\(number)") { step in
                    try step.note("\(number)")
                    guard failures.values.count == number else { return }
                    failures.append(number)
                    throw HandlerError(.storageFailed, "the disk is full")
                }
                try await flow.sleep(for: .zero)
            }
            return []
        }) { rig, id in
            try await run(rig, times: 8)
            #expect(try result(rig, id) == [])
            #expect(failures.values.count == 6)
            #expect(try rig.store.notes() == (0..<6).map(String.init))
        }
    }

    @Test(
        "H31 a workflow that something in its own run cancels, or that replaces itself, ends as it should",
        .countsInMemory)
    func ownEnd() async throws {
        // The end of a signal's handler completes the join, which cancels the workflow that runs.
        try await withFlow({ flow in
            try await flow.compensate(with: Undo(name: "one").durable)
            try await flow.step { _ = try $0.signal("paid", 1) }
            _ = try await flow.signal("never", as: String.self)
            return []
        }) { rig, id in
            try rig.store.step { step in
                let paid = try step.bind(Paid().durable, key: "paid")
                try step.join(Met().durable, when: .any, of: [AnyHandlerID(id), AnyHandlerID(paid)])
            }
            try await run(rig, times: 2)
            #expect(try rig.store.keptEnding(of: id)?.reason == .cancelled)
            #expect(try rig.store.notes() == ["met", "undo one: cancelled"])
            #expect(try rig.handlers().isEmpty)
        }
        // It starts again.
        let rounds = Sink<Int>()
        try await withFlow({ flow in
            try await flow.compensate(with: Undo(name: "round").durable)
            if rounds.values.count < 2 {
                rounds.append(1)
                try await flow.step { _ = try $0.start(Scripted().durable, key: "flow", ifTaken: .replace) }
            }
            _ = try await flow.signal("go-\(flow.handlerID)", as: String.self)
            return []
        }) { rig, id in
            try await run(rig, times: 2)
            #expect(try rig.store.keptEnding(of: id)?.reason == .replaced)
            #expect(try rig.store.notes() == ["undo round: replaced", "undo round: replaced"])
            // The last round, and what it waits for.
            #expect(try rig.handlers().count == 2)
            #expect(try rig.store.integer("SELECT count(DISTINCT handler) FROM journal") == 1)
        }
    }

    @Test("H31 a wait that was discarded, and a handler that ended otherwise, are errors of the workflow")
    func failedWaits() async throws {
        try await withFlow({ flow in
            var said: [String] = []
            do { try await flow.sleep(for: .seconds(60)) } catch { said.append("\(error)") }
            do { try await flow.run(Stuck().durable) } catch let error as HandlerError {
                said.append(error.code.rawValue)
            }
            return said
        }) { rig, id in
            try await run(rig)
            let timer = try #require(try rig.handlers().first { $0.name == "workflow.woken" })
            try rig.store.step { try $0.discard(timer.id) }
            try await run(rig)
            let stuck = try #require(try rig.handlers().first { $0.name == "flow.stuck" })
            try rig.store.step { _ = try $0.invalidate(stuck.id, reason: .cancelled) }
            try await run(rig)
            #expect(try result(rig, id) == ["what it waited for was discarded", "no-result"])
            #expect(try rig.store.verify().isEmpty)
        }
    }

    @Test("H31 code that throws before the end of the journal parks the workflow instead of undoing it")
    func throwsEarly() async throws {
        try await withFlow(
            memory: 0,
            { flow in
                try await flow.compensate(with: Undo(name: "one").durable)
                try await flow.sleep(for: .seconds(1))
                return []
            }
        ) { rig, id in
            try await run(rig)
            script.set { _ in throw Failure() }
            try await run(rig, times: 2)
            #expect(try rig.status(of: id)?.state == .parked)
            #expect(try rig.store.notes().isEmpty)
        }
    }

    @Test("H31 one workflow runs another, and many wait in little space", .sqliteOnly)
    func many() async throws {
        try await withFlow({ flow in ["\(try await flow.run(Inner(number: 21).durable, as: Int.self))"] }) {
            rig, id in
            try await run(rig, times: 2)
            #expect(try result(rig, id) == ["42"])

            script.set { flow in
                try await flow.step("begin") { try $0.note("begun") }
                _ = try await flow.signal("never-\(flow.handlerID)", as: String.self)
                return []
            }
            let count = 200
            let before = try rig.store.integer("PRAGMA page_count") ?? 0
            try rig.store.step { step in
                for _ in 0..<count { try step.start(Scripted().durable) }
            }
            while try rig.store.notes().count < count { try await run(rig) }
            let pages = (try rig.store.integer("PRAGMA page_count") ?? 0) - before
            #expect(pages * 4096 / Int64(count) <= 1024)
        }
    }
}
