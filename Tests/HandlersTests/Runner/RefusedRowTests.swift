import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// A row that the engine refuses to store, in whatever statement, costs only itself: everything else that is due goes on, and that
/// row ends, is quarantined, or is passed over.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(4)), .engines(.sqlite, .postgres))
struct RefusedRowTests {
    /// How a row can be in the store.
    enum Kind: String, CaseIterable, Sendable {
        case timer, failing, failingAsync, async, inLane, inChain, child, parent, workflow, failingWorkflow
        case periodic, calendar, orElse, keyed
    }

    private struct Fails: Handler {
        static let id = "refused.fails"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1), finally: .orElse)
        func run(_ call: borrowing Call<TimerFired>) throws { throw Failure(description: "with a NUL: \0") }
    }

    private struct FailsAsync: AsyncHandler {
        static let id = "refused.fails-async"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1), finally: .orElse)
        func run(_ call: AsyncCall<TimerFired>) async throws { throw Failure(description: "with a NUL: \0") }
    }

    private struct FineAsync: AsyncHandler {
        static let id = "refused.fine-async"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1))
        func run(_ call: AsyncCall<TimerFired>) async throws { try call.end(result: 1) { _ in } }
    }

    private struct Over: Handler {
        static let id = "refused.over"
        func run(_ call: borrowing Call<Invalidation>) throws {}
    }

    private struct Meets: Handler {
        static let id = "refused.meets"
        func run(_ call: borrowing Call<Joined>) throws {}
    }

    private struct Waits: Handler {
        static let id = "refused.waits"
        func run(_ call: borrowing Call<SignalReceived<Int>>) throws {}
    }

    private struct Flows: Workflow {
        static let id = "refused.flows"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1))
        var fails: Bool
        func run(_ flow: Flow) async throws -> Int {
            try await flow.compensate(with: Over().durable)
            let number = try await flow.step("number") { _ in 1 }
            try await flow.sleep(for: .seconds(1))
            if fails { throw Failure(description: "with a NUL: \0") }
            return number
        }
    }

    private struct Runs: Handler {
        static let id = "refused.runs"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1))
        var sql: String
        func run(_ call: borrowing Call<TimerFired>) throws { try call.step.execute(sql) }
    }

    private static let handlers: [any DurableHandler.Type] = [
        Runs.self, Write<TimerFired>.self, Fails.self, FailsAsync.self, FineAsync.self, Over.self, Meets.self,
        Waits.self, Flows.self,
    ]

    /// Ids of this size are taken for no other number.
    private static let throwaways = 777

    /// Stores a row of a kind, and others of the same kind and of the plainest one.
    private static func store(_ kind: Kind, in rig: Rig) throws -> AnyHandlerID {
        try rig.store.step { step in
            for _ in 0..<throwaways {
                try step.schedule(Write<TimerFired>(text: "later").durable, after: .seconds(100_000_000))
            }
            for number in 1...3 {
                try step.schedule(
                    Write<TimerFired>(text: "\(number)").durable, after: .milliseconds(Int64(number)))
            }
        }
        let id = try rig.store.step { step in try bind(kind, step) }
        try rig.store.step { step in
            _ = try bind(kind == .keyed || kind == .calendar || kind == .periodic ? .timer : kind, step)
            for number in 4...6 {
                try step.schedule(
                    Write<TimerFired>(text: "\(number)").durable, after: .milliseconds(Int64(number)))
            }
        }
        return id
    }

    private static func bind(_ kind: Kind, _ step: borrowing Step) throws -> AnyHandlerID {
        let due = Duration.milliseconds(2)
        switch kind {
        case .timer: return AnyHandlerID(try step.schedule(Write<TimerFired>(text: "it").durable, after: due))
        case .failing: return AnyHandlerID(try step.schedule(Fails().durable, after: due))
        case .orElse:
            return AnyHandlerID(try step.schedule(Fails().durable.orElse(Over().durable), after: due))
        case .failingAsync: return AnyHandlerID(try step.schedule(FailsAsync().durable, after: due))
        case .async: return AnyHandlerID(try step.schedule(FineAsync().durable, after: due))
        case .inLane:
            try step.setLane(LaneRule("narrow", concurrency: 1))
            let fired = TimerFired(dueAt: step.now)
            return AnyHandlerID(
                try step.enqueue(
                    Write<TimerFired>(text: "it").durable, with: fired, lane: LanePlace("narrow")))
        case .inChain:
            return AnyHandlerID(
                try step.withChainLimit(.seconds(60)) {
                    try step.schedule(Write<TimerFired>(text: "it").durable, after: due)
                })
        case .child, .parent:
            let child = try step.schedule(Write<TimerFired>(text: "it").durable, after: due)
            let parent = try step.join(Meets().durable, when: .all, of: [AnyHandlerID(child)])
            return kind == .child ? AnyHandlerID(child) : AnyHandlerID(parent)
        case .workflow: return AnyHandlerID(try step.start(Flows(fails: false).durable))
        case .failingWorkflow: return AnyHandlerID(try step.start(Flows(fails: true).durable))
        case .periodic:
            return AnyHandlerID(
                try step.schedule(Write<TimerFired>(text: "it").durable, after: due, every: .seconds(1)))
        case .calendar:
            return AnyHandlerID(
                try step.schedule(Write<TimerFired>(text: "it").durable, on: .hourly(minute: 15, in: "UTC")))
        case .keyed:
            let id = try step.bind(Waits().durable, key: "key")
            try step.schedule(Write<TimerFired>(text: "it").durable, after: due)
            return AnyHandlerID(id)
        }
    }

    /// Lets everything become due several times.
    private static func run(_ rig: Rig, _ kind: Kind) async throws {
        for _ in 0..<4 {
            rig.clock.advance(by: .seconds(3700))
            _ = try await rig.runner.finishDue(within: .seconds(60))
            if kind == .keyed {
                // The sender's own step is refused where the receiver's row is.
                _ = try? rig.store.step { try $0.signal("key", 1) }
            }
        }
    }

    private static func isChange(_ sql: String) -> Bool {
        ["INSERT", "UPDATE", "DELETE"].contains { sql.hasPrefix($0) }
    }

    /// The changes that a row of a kind goes through.
    private static func changes(_ kind: Kind) async throws -> [String] {
        let found = Mutex<[String]>([])
        try await withFolder { folder in
            let rig = try Rig(folder.file(), handlers)
            defer { rig.runner.close() }
            let id = SQLValue.integer(try store(kind, in: rig).rawValue)
            rig.store.refuseRows { sql, values in
                if isChange(sql), values.contains(id) {
                    found.withLock { if !$0.contains(sql) { $0.append(sql) } }
                }
                return false
            }
            try await run(rig, kind)
        }
        return found.withLock { $0 }
    }

    @Test("R1 a row that cannot be stored costs only itself", arguments: Kind.allCases)
    func costsOnlyItself(kind: Kind) async throws {
        let changes = try await Self.changes(kind)
        try #require(!changes.isEmpty)
        for change in changes {
            try await withFolder { folder in
                let rig = try Rig(folder.file(), Self.handlers)
                defer { rig.runner.close() }
                let id = try Self.store(kind, in: rig)
                let value = SQLValue.integer(id.rawValue)
                rig.store.refuseRows { sql, values in sql == change && values.contains(value) }
                try await Self.run(rig, kind)
                let notes = try rig.store.notes()
                for number in 1...6 {
                    #expect(
                        notes.filter { $0 == "\(number)" }.count == 1, "\(kind.rawValue), refused: \(change)")
                }
                // It is not tried for ever: what waits has a time that is not over.
                rig.store.refuseRows(nil)
                let state = try rig.status(of: HandlerID<TimerFired>(rawValue: id.rawValue))
                if state?.state == .pending, let due = state?.dueAt {
                    #expect(due.milliseconds > rig.now, "\(kind.rawValue), refused: \(change)")
                }
            }
        }
    }

    @Test(
        "R1 a row that cannot even be quarantined is passed over until the store is opened again",
        arguments: [Kind.timer, .async])
    func passedOver(kind: Kind) async throws {
        try await withFolder { folder in
            let path = folder.file()
            let clock = VirtualClock()
            var id = AnyHandlerID(rawValue: 0)
            do {
                let rig = try Rig(path, Self.handlers, clock: clock)
                defer { rig.runner.close() }
                id = try Self.store(kind, in: rig)
                let value = SQLValue.integer(id.rawValue)
                rig.store.refuseRows { sql, values in Self.isChange(sql) && values.contains(value) }
                try await Self.run(rig, kind)
                #expect(Set(try rig.store.notes()).isSuperset(of: (1...6).map(String.init)))
                let state = try rig.status(of: HandlerID<TimerFired>(rawValue: id.rawValue))
                #expect(state?.state == .pending)
            }
            let rig = try Rig(path, Self.handlers, clock: clock)
            defer { rig.runner.close() }
            try await Self.run(rig, kind)
            #expect(try rig.status(of: HandlerID<TimerFired>(rawValue: id.rawValue)) == nil)
        }
    }

    /// Expects that a handler with a statement that always fails is quarantined, and that others run.
    private func expectQuarantined(_ rig: Rig, _ sql: String) async throws {
        let id = try rig.store.step { step in
            let id = try step.schedule(Runs(sql: sql).durable, after: .milliseconds(1))
            for number in 1...3 {
                try step.schedule(Write<TimerFired>(text: "\(number)").durable, after: .milliseconds(2))
            }
            return id
        }
        try await Self.run(rig, .timer)
        #expect(try rig.store.notes() == ["1", "2", "3"])
        #expect(try rig.status(of: id)?.state == .quarantined)
    }

    @Test("R1 a statement that no transaction may run fails its handler, not the store")
    func outsideOfTransactions() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            try await expectQuarantined(rig, "VACUUM")
        }
    }

    @Test(
        "R1 a full-text index that does not fit its table fails the handlers that use it, not the store",
        .sqliteOnly)
    func damagedIndex() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            try rig.store.step { step in
                try step.execute("CREATE TABLE page(id INTEGER PRIMARY KEY, x TEXT)")
                try step.execute(
                    "CREATE VIRTUAL TABLE found USING fts5(x, content='page', content_rowid='id')")
                try step.execute("INSERT INTO page VALUES (1, 'word')")
                try step.execute("INSERT INTO found(rowid, x) VALUES (1, 'word')")
                // The program forgets to remove it from the index.
                try step.execute("DELETE FROM page")
            }
            try await expectQuarantined(
                rig, "INSERT INTO note(text) SELECT x FROM found WHERE found MATCH 'word'")
        }
    }

    @Test("R1 a lane that cannot be stored stops only what is in it")
    func lane() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            let id = try Self.store(.inLane, in: rig)
            try rig.store.step { step in
                try step.setLane(LaneRule("other", concurrency: 1))
                for number in 7...8 {
                    try step.enqueue(
                        Write<TimerFired>(text: "\(number)").durable, with: TimerFired(dueAt: step.now),
                        lane: LanePlace("other"))
                }
            }
            rig.store.refuseRows { sql, values in
                sql.hasPrefix("UPDATE lane SET") && values.contains(.text("narrow"))
            }
            try await Self.run(rig, .inLane)
            #expect(Set(try rig.store.notes()) == Set((1...8).map(String.init)))
            rig.store.refuseRows(nil)
            #expect(try rig.status(of: HandlerID<TimerFired>(rawValue: id.rawValue))?.state == .quarantined)
        }
    }
}
