import CSQLite
import HandlersTestKit
import Platform
import Synchronization
import TestThreads
import TestSupport
import Testing

@testable import Handlers

private struct Ring: Handler {
    static let id = "loop.ring"
    static let retry = RetryPolicy.never
    var name: String
    func run(_ call: borrowing Call<TimerFired>) throws {
        guard name != "fails" else { throw Failure(description: "fails") }
        try call.step.note(name)
    }
}

/// Runs under a lease, and ends at once.
private struct Hold: AsyncHandler {
    static let id = "loop.hold"
    var name: String
    func run(_ call: AsyncCall<TimerFired>) async throws {
        try call.end { try $0.note("\(name) \(call.environment?.scope.rawValue ?? "-")") }
    }
}

/// The number of statements that a store has started.
private final class StatementCount: Sendable {
    let value = Atomic<Int>(0)

    init(_ store: HandlerStore) throws {
        _ = try store.betweenSteps { connection in
            let context = Unmanaged.passUnretained(self).toOpaque()
            sqlite3_trace_v2(
                connection.database, UInt32(SQLITE_TRACE_STMT),
                { _, context, _, _ in
                    guard let context else { return 0 }
                    Unmanaged<StatementCount>.fromOpaque(context).takeUnretainedValue().value
                        .add(1, ordering: .relaxed)
                    return 0
                }, context)
        }
    }

    func stop(_ store: HandlerStore) throws {
        _ = try store.betweenSteps { sqlite3_trace_v2($0.database, 0, nil, nil) }
    }
}

/// Waits until the store has as many notes.
private func notes(_ count: Int, in store: HandlerStore) async throws -> [String] {
    while true {
        let notes = try store.notes()
        if notes.count >= count { return notes }
        try await Task.sleep(for: .milliseconds(2))
    }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct RunnerLoopTests
{
    private func withRunners(
        _ count: Int, _ handlers: [any DurableHandler.Type] = [Ring.self, Hold.self],
        _ body: (HandlerStore, [HandlerRunner]) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), handlers)
            let runners = try (0..<count).map { number in
                let runner = try HandlerRunner(store, .init(leases: 1))
                try runner.attach(Workshop("scope \(number)"))
                return runner
            }
            defer { for runner in runners { runner.close() } }
            try await body(store, runners)
        }
    }

    private func schedule(_ name: String, in scope: Int?, _ store: HandlerStore) throws {
        _ = try store.step {
            try $0.schedule(
                Ring(name: name).durable, after: .zero, in: scope.map { HandlerScope("scope \($0)") })
        }
    }

    @Test("A1 with a thousand scopes a due row costs at most 20 statements", .sqliteOnly)
    func cost() async throws {
        try await withRunners(1000) { store, runners in
            for runner in runners { try runner.start() }
            try schedule("first", in: 0, store)
            #expect(try await notes(1, in: store) == ["first"])
            // Longer than a pass that was under way.
            while try store.step({ try $0.handlers() }).count > 0 { await Task.yield() }
            let count = try StatementCount(store)
            for number in 1...50 { try schedule("\(number)", in: number, store) }
            while try store.read({ try $0.first("SELECT count(*) FROM note") { $0.integer(0) } }) != 51 {
                try await Task.sleep(for: .milliseconds(2))
            }
            try count.stop(store)
            // The steps that schedule have 3 statements each; nothing was called before its step.
            let each = (count.value.load(ordering: .relaxed) - 50 * 3) / 50
            #expect(each <= 20, "\(each)")
        }
    }

    @Test(
        "G5 what this process has stored for the program as a whole wakes it, and is the first that it looks at",
        arguments: [true, false])
    func ownRows(isRepeated: Bool) throws {
        let loop = try RunnerLoop(.system, slot: 0, .init(isShared: true))
        let due = Timestamp(milliseconds: 1000)
        var new = NewDue()
        if isRepeated { new.addRepeated(nil, due) } else { new.add(nil, wall: due) }
        loop.add(new)
        #expect(PollEntry.waitReadable(loop.signal.fileDescriptor, milliseconds: 0))
        let look = loop.withMachine { $0.ownTimes.look(at: due, now: Timestamp(milliseconds: 0)) }
        #expect(look == due)
        // What is due later needs no turn before.
        loop.signal.clear()
        new.add(nil, wall: due + .seconds(1))
        loop.add(new)
        #expect(!PollEntry.waitReadable(loop.signal.fileDescriptor, milliseconds: 0))
    }

    @Test(
        "A1 what another process schedules is found in any scope, and what nobody serves stays", .sqliteOnly)
    func survey() async throws {
        try await withRunners(3) { store, runners in
            for runner in runners { try runner.start() }
            try schedule("first", in: nil, store)
            #expect(try await notes(1, in: store) == ["first"])
            let other = try openStore(store.path, [Ring.self])
            for scope in [2, 1, 7, 0] { try schedule("\(scope)", in: scope, other) }
            #expect(try await notes(4, in: store).sorted() == ["0", "1", "2", "first"])
            #expect(try store.step { try $0.handlers().count } == 1)
        }
    }

    /// Keeps the loop that it is to run.
    private final class IdleDriver: LoopDriver {
        final class NotRunning: RunningLoop { func join() {} }
        let make = Mutex<(@Sendable () -> any DrivenLoop)?>(nil)

        func start(
            _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
        ) throws(HandlerError) -> any RunningLoop {
            self.make.withLock { $0 = make }
            return NotRunning()
        }

        func startShared(
            _ make: @escaping @Sendable () -> any DrivenLoop
        ) throws(HandlerError) -> any RunningLoop { NotRunning() }
    }

    @Test("A1 a survey that has to wait for less than a millisecond makes no turns until then")
    func shortWait() throws {
        try withFolder { folder in
            let driver = IdleDriver()
            let time = TimeSource(monotonic: { .seconds(1) })
            let store = try HandlerStore(
                path: folder.file(), registry: HandlerRegistry([]), schemas: [], role: .main,
                synchronous: .normal, busyTimeout: .seconds(5), time: time, log: nil,
                system: SystemServices(driver: driver))
            let runner = try HandlerRunner(store)
            try runner.start()
            defer { runner.close() }
            let made = driver.make.withLock { $0 }
            let make = try #require(made)
            let loop = make()
            _ = loop.turn([])
            // The last survey took so long that the next one has to wait.
            runner.loop.withMachine {
                $0.needsSurvey = true
                $0.nextSurvey = .seconds(1) + .microseconds(400)
            }
            #expect(loop.turn([])?.milliseconds == 1)
        }
    }

    @Test("A1 a runner that is closed leaves the others running, with the program's connected time")
    func closed() async throws {
        try await withRunners(3) { store, runners in
            for runner in runners { try runner.start() }
            runners[0].close()
            #expect(
                try store.step {
                    try $0.first("SELECT count(*) FROM connected_slot WHERE scope = ''") { $0.integer(0) }
                } == 1)
            for scope in [nil, 1, 2] { try schedule("\(scope ?? -1)", in: scope, store) }
            #expect(try await notes(3, in: store).sorted() == ["-1", "1", "2"])
            runners[1].close()
            runners[2].close()
            #expect(
                try store.step {
                    try $0.first("SELECT count(*) FROM connected_slot") { $0.integer(0) }
                } == 0)
        }
    }

    @Test(
        "H16 the connected time of a scope starts and stops in the step that stores why, and is right when that step fails"
    )
    func connectedInStep() async throws {
        struct Undone: Error {}
        try await withRunners(1) { store, runners in
            let (runner, scope) = (runners[0], HandlerScope("linked"))
            func isRunning() throws -> Bool {
                try store.read {
                    try $0.first("SELECT count(*) FROM connected_slot WHERE scope = 'linked'") {
                        $0.integer(0)
                    }
                } == 1
            }
            // Given up with the step, before the runner runs and while it does, and tried again.
            for isStarted in [false, true] {
                if isStarted { try runner.start() }
                #expect(throws: Undone.self) {
                    try runner.setConnected(in: scope) { start in
                        try store.step { step in
                            try start(step)
                            throw Undone()
                        }
                    }
                }
                #expect(try !isRunning())
            }
            #expect(try !isRunning())
            try runner.setConnected(in: scope) { start in
                try store.step { step in
                    try start(step)
                    #expect(try step.exists("SELECT 1 FROM connected_slot WHERE scope = 'linked'"))
                }
            }
            #expect(try isRunning())
            try runner.setDisconnected(in: scope) { stop in try store.step { try stop($0) } }
            #expect(try !isRunning())
            // A connection that ended has ended, also when nothing could be stored about it.
            try runner.setConnected(true, in: scope)
            #expect(throws: Undone.self) {
                try runner.setDisconnected(in: scope) { _ in try store.step { _ in throw Undone() } }
            }
            #expect(try !isRunning())
        }
    }

    @Test("A1 a scope whose rows the store cannot change does not keep the others from theirs", .sqliteOnly)
    func alone() async throws {
        try await withRunners(3) { store, runners in
            try store.step {
                try $0.execute(
                    """
                    CREATE TRIGGER full BEFORE UPDATE ON handler WHEN NEW.scope = 'scope 0'
                    BEGIN SELECT RAISE(ABORT, 'not this one'); END
                    """)
            }
            try schedule("fails", in: 0, store)
            for scope in [1, 2] { try schedule("\(scope)", in: scope, store) }
            for runner in runners { try runner.start() }
            #expect(try await notes(2, in: store).sorted() == ["1", "2"])
            try schedule("later", in: 2, store)
            #expect(try await notes(3, in: store).last == "later")
            #expect(try store.step { try $0.handlers().count } == 1)
        }
    }

    @Test("A1 the async handlers of the scopes of a runner take turns for its leases")
    func turns() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Hold.self])
            let runner = try HandlerRunner(store, .init(leases: 1))
            defer { runner.close() }
            for name in ["a", "b", "c"] { try runner.attach(Workshop(name)) }
            for name in ["a", "b", "c"] {
                for number in 0..<5 {
                    _ = try store.step {
                        try $0.schedule(
                            Hold(name: "\(number)").durable, after: .zero, in: HandlerScope(name))
                    }
                }
            }
            try runner.start()
            let order = try await notes(15, in: store).map { $0.suffix(1) }
            // A lease that ends during a look may go to the scope that is looked at, so a turn may slip.
            for count in 1...order.count {
                let taken = ["a", "b", "c"].map { name in order.prefix(count).count { $0 == name } }
                #expect(taken.max()! - taken.min()! <= 2, "\(order)")
            }
        }
    }
}
