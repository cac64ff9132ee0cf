import Handlers
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

/// Takes as long as the test wants.
private struct Dawdle: Handler {
    static let id = "log.dawdle"
    static let wait = Mutex<@Sendable () -> Void>({})
    func run(_ call: borrowing Call<Job>) throws { Self.wait.withLock { $0 }() }
}

/// What a store and its handlers tell.
@Suite(.serialized, .ownThread) struct HandlerLogTests {
    /// What was told, line by line.
    private final class Told: Sendable {
        private let lines = Mutex<[String]>([])

        func log(from level: LogLevel = .verbose) -> HandlerLog {
            HandlerLog(isWanted: { wanted, _ in wanted >= level }) { entry in
                self.lines.withLock { $0.append("\(entry.level) \(entry.subject): \(entry.message)") }
            }
        }

        func taken() -> [String] {
            lines.withLock { lines in
                defer { lines = [] }; return lines
            }
        }
    }

    private let handlers: [any DurableHandler.Type] = [Flaky<Thrice>.self, Flaky<Never>.self, Say.self]

    private func store(
        _ path: String, _ log: HandlerLog, _ handlers: [any DurableHandler.Type]? = nil,
        clock: VirtualClock = VirtualClock()
    ) throws -> HandlerStore {
        try HandlerStore(
            path: path, registry: HandlerRegistry(handlers ?? self.handlers), schemas: [notes],
            synchronous: .normal, time: clock.timeSource, log: log)
    }

    @Test("X26 a store tells what it opened, and which tables it brought up to date")
    func opened() throws {
        try withFolder { folder in
            let (path, told) = (folder.file(), Told())
            _ = try store(path, told.log())
            let first = told.taken()
            #expect(first.contains("info store: migrated the tables of 'notes' from 0 to 1"), "\(first)")
            #expect(first.last == "info store: opened \(path) as main")
            _ = try store(path, told.log())
            #expect(told.taken() == ["info store: opened \(path) as main"])
            try RawConnection(path).run("UPDATE place SET inode = inode + 1")
            _ = try store(path, told.log())
            #expect(told.taken().contains { $0.hasPrefix("warning store: the database was copied, moved") })
        }
    }

    @Test("A2 a handler that holds up its step is reported by name")
    func long() throws {
        try withFolder { folder in
            let (told, clock) = (Told(), VirtualClock())
            let store = try store(folder.file(), told.log(), [Dawdle.self], clock: clock)
            _ = told.taken()
            for time in [4, 6] {
                Dawdle.wait.withLock { $0 = { clock.advance(by: .milliseconds(time)) } }
                let handler = try store.bind(Dawdle().durable)
                try store.step { try $0.end(handler, .result, with: Job("x")) }
            }
            let lines = told.taken()
            #expect(lines.count == 1 && lines[0].hasPrefix("info handlers: log.dawdle took 6 ms"), "\(lines)")
        }
    }

    @Test("X26 a handler that does not run to its end is reported with its name, row, run and reason")
    func unfinished() throws {
        try withFolder { folder in
            let (told, clock) = (Told(), VirtualClock())
            let store = try store(folder.file(), told.log(), clock: clock)
            let retried = try store.bind(Flaky<Thrice>(name: "r").durable)
            let failed = try store.bind(Flaky<Never>(name: "f").durable)
            let unknown = try store.bind(
                Durable<Job>(name: "test.unknown", version: 1, arguments: [0x7B, 0x7D]))
            let fine = try store.bind(Say(name: "s").durable)
            _ = told.taken()
            for id in [retried, failed, unknown, fine] {
                _ = try store.step { try $0.end(id, .result, with: Job()) }
            }
            let lines = told.taken()
            #expect(lines.count == 3, "\(lines)")
            #expect(
                lines[0].hasPrefix(
                    "info handlers: 'test.flaky.Thrice' (\(retried)) failed in run 1, again at "))
            #expect(lines[0].hasSuffix(": r failed 1"))
            #expect(
                lines[1]
                    == "error handlers: 'test.flaky.Never' (\(failed)) is in quarantine after 1 runs: f failed 1"
            )
            #expect(
                lines[2].hasPrefix(
                    "warning handlers: 'test.unknown' (\(unknown)) is parked: no handler named"))
        }
    }

    @Test("X26 what is undone is not reported, and what is not wanted is not made")
    func undone() throws {
        try withFolder { folder in
            let told = Told()
            let store = try store(folder.file(), told.log(from: .warning))
            let id = try store.bind(Flaky<Never>(name: "f").durable)
            _ = told.taken()
            #expect(throws: Failure.self) {
                try store.step { step in
                    _ = try step.end(id, .result, with: Job())
                    throw Failure()
                }
            }
            #expect(told.taken() == [])
            let retried = try store.bind(Flaky<Thrice>(name: "r").durable)
            _ = try store.step { try $0.end(retried, .result, with: Job()) }
            #expect(told.taken() == [], "info is below what is wanted")
        }
    }

    @Test("X26 handlers that an older program had parked are reported when they are called again")
    func requeued() throws {
        try withFolder { folder in
            let (path, told) = (folder.file(), Told())
            do {
                let old = try store(path, told.log(), [])
                let id = try old.bind(Say(name: "s").durable)
                _ = try old.step { try $0.end(id, .result, with: Job()) }
            }
            _ = told.taken()
            _ = try store(path, told.log())
            #expect(
                told.taken().contains(
                    "info handlers: 1 handlers that an older program had parked are called again"))
        }
    }
}
