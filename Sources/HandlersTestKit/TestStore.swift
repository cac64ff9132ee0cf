public import Handlers
import Synchronization

/// A store for one test: on a clock that the test turns, with a runner that the test drives.
///
/// ```swift
/// try await withTestStore(registry: HandlerRegistry([Remind.self]), schemas: [shop]) { test in
///     let id = try test.store.step { step in
///         try step.schedule(Remind(customer: "Ada").durable, after: .seconds(86_400))
///     }
///     try await test.advance(by: .seconds(86_400))      // a day passes at once
///     #expect(try test.store.read { try $0.ending(of: id) }?.outcome == .result)
/// }
/// ```
///
/// ``withTestStore(registry:schemas:role:clock:configuration:isolation:_:)`` makes it. What is due is called by
/// ``advance(by:)`` and ``runDue()``, and by nothing else.
public final class TestStore: Sendable {
    /// The longest wait of ``runDue()`` and ``advance(by:)`` for async handlers at one virtual time, by the machine's clock.
    package static let longestRun = Duration.seconds(60)

    private struct Program {
        let store: HandlerStore
        let runner: HandlerRunner
    }

    /// The database file, in a folder of its own.
    public let path: String
    /// The clock that store and runner read. Turning it by hand skips what would happen on the way: prefer
    /// ``advance(by:)``.
    public let clock: VirtualClock
    private let schemas: [Schema]
    private let role: HandlerStore.Role
    private let configuration: HandlerRunner.Configuration
    private let program: Mutex<Program>

    init(
        path: String, registry: HandlerRegistry, schemas: [Schema], role: HandlerStore.Role,
        clock: VirtualClock, configuration: HandlerRunner.Configuration
    ) throws {
        (self.path, self.schemas, self.role, self.clock) = (path, schemas, role, clock)
        self.configuration = configuration
        program = Mutex(try Self.open(path, registry, schemas, role, clock, configuration))
    }

    private static func open(
        _ path: String, _ registry: HandlerRegistry, _ schemas: [Schema], _ role: HandlerStore.Role,
        _ clock: VirtualClock, _ configuration: HandlerRunner.Configuration
    ) throws -> Program {
        // No test is about a loss of power, and syncing each commit takes most of its time.
        let store = try HandlerStore(
            path: path, registry: registry, schemas: schemas, role: role, synchronous: .normal,
            time: clock.timeSource)
        return Program(store: store, runner: try HandlerRunner(store, configuration))
    }

    /// The store; another one after ``restart(registry:)``.
    public var store: HandlerStore { program.withLock { $0.store } }

    /// Its runner, for environments and connected time; another one after ``restart(registry:)``.
    public var runner: HandlerRunner { program.withLock { $0.runner } }

    /// Calls all due handlers, and waits for their async handlers.
    ///
    /// Due by wall clock or connected time.
    ///
    /// - Returns: The time until something is due by either of them; nil when nothing is.
    /// - Throws: `HandlerError` when the store fails, or with the code `handlers-run-on` when async handlers run for longer
    ///   than a minute; `CancellationError`.
    @discardableResult
    public func runDue() async throws -> Duration? { try await runDue(within: Self.longestRun) }

    package func runDue(within time: Duration) async throws -> Duration? {
        do {
            return try await runner.finishDue(within: time)
        } catch is CancellationError {
            try Task.checkCancellation()
            throw HandlerError(
                .handlersRunOn,
                "async handlers still ran after \(time); let what they wait for happen, or end by itself"
            )
        }
    }

    /// Lets time pass as it does for a running program: stops at each moment at which something is due, and calls it there.
    ///
    /// Connected time of the program as a whole passes with it, so requests and handlers with a timeout expire.
    ///
    /// - Parameter duration: Zero or more; a part of a millisecond is dropped.
    /// - Throws: What ``runDue()`` throws; the clock then shows the time at which that happened.
    public func advance(by duration: Duration) async throws {
        var left = Duration.milliseconds(duration.milliseconds)
        var rest = try await runDue()
        while left > .zero {
            let stop = min(left, rest ?? left)
            clock.advance(by: stop)
            left -= stop
            rest = try await runDue()
        }
    }

    /// Ends the program and starts it again: its store and runner are closed, and others open the same file.
    ///
    /// What handlers keep in memory is gone, as are attached environments. The clock goes on.
    ///
    /// - Parameter registry: The handlers of the program that starts, such as a newer version; nil for the same ones.
    /// - Throws: `HandlerError` when the file cannot be opened; the old store then stays, without its runner.
    public func restart(registry: HandlerRegistry? = nil) throws {
        try program.withLock { program in
            program.runner.close()
            program = try Self.open(
                path, registry ?? program.store.registry, schemas, role, clock, configuration)
        }
    }

    func close() { program.withLock { $0.runner.close() } }
}

extension ErrorCode<HandlerError> {
    /// Async handlers of a ``TestStore`` ran for longer than ``TestStore/longestRun``.
    package static var handlersRunOn: Self { Self(rawValue: "handlers-run-on") }
}
