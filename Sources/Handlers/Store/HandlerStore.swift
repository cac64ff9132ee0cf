import Glibc
import Synchronization

/// The SQLite database that holds bound handlers, whatever they wait for, and the application's own tables.
///
/// One store is one file; several processes may open the same file. Every change is a ``step(_:)``.
///
/// ```swift
/// let store = try HandlerStore(path: "app.db", registry: .discovered())
/// let id = try store.step { try $0.bind(Greet(name: "Juliet").durable) }
/// try store.step { try $0.end(id, .result, with: Reply(word: "Hello")) }
/// ```
public final class HandlerStore: Sendable {
    /// When a commit counts as done.
    public enum Synchronous: String, Sendable {
        /// When it survives a loss of power. The default.
        case full = "FULL"
        /// When it survives the death of the process; a loss of power may undo the last commits.
        case normal = "NORMAL"
    }

    /// The path of the database file.
    public let path: String
    /// The handlers that this program knows.
    public let registry: HandlerRegistry
    // Touched only while `lock` is held, except in `init`.
    private nonisolated(unsafe) let connection: Connection
    private let lock = Mutex<Void>(())
    /// The thread inside a step, to refuse a nested one instead of waiting for itself for ever.
    private let threadInStep = Atomic<UInt>(0)
    private let wallClock: @Sendable () -> Int64

    /// Opens or creates a store.
    ///
    /// - Parameters:
    ///   - path: The database file; created with mode 0600 when it does not exist. Its folder must exist.
    ///   - registry: The handlers that this program knows.
    ///   - schemas: The tables of modules and of the application, migrated when needed.
    ///   - synchronous: When a commit counts as done.
    ///   - busyTimeout: How long to wait for another process's transaction, in milliseconds, 0 or more.
    ///   - wallClock: Milliseconds since 1970; tests pass their own.
    /// - Throws: ``HandlerError`` with the codes `databaseUnavailable`, `databaseReadOnly`, `databaseCorrupt`,
    ///   `databaseForeign`, `databaseNewer` (nothing is changed), `databaseLocked` or `storageFailed`;
    ///   `duplicateSchema` when two schemas are of one module; `sql` when a migration fails, which changes nothing.
    public init(
        path: String, registry: HandlerRegistry, schemas: [Schema] = [], synchronous: Synchronous = .full,
        busyTimeout: Int = 5000, wallClock: @escaping @Sendable () -> Int64 = HandlerStore.systemWallClock
    ) throws(HandlerError) {
        self.path = path
        self.registry = registry
        self.wallClock = wallClock
        let connection = try Connection(
            path: path, synchronous: synchronous, busyTimeout: Int32(clamping: busyTimeout))
        try Self.migrate(connection, to: [.handlers] + schemas)
        self.connection = connection
    }

    /// Milliseconds since 1970.
    public static func systemWallClock() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    private static func migrate(_ connection: Connection, to schemas: [Schema]) throws(HandlerError) {
        try checkModules(schemas)
        // Looks before it locks: the usual start finds everything in place and must not wait for a writer.
        if try isCurrent(connection, schemas) { return }
        try connection.begin()
        do throws(HandlerError) {
            // Looks again: another process may have been first.
            if try !connection.isOwn() {
                try connection.executeOnce("PRAGMA application_id = \(Connection.applicationID)")
            }
            try connection.executeOnce(
                "CREATE TABLE IF NOT EXISTS module_schema(module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID"
            )
            for schema in schemas { try schema.migrate(connection) }
            try connection.commit()
        } catch {
            connection.rollBack()
            throw error
        }
    }

    private static func isCurrent(_ connection: Connection, _ schemas: [Schema]) throws(HandlerError) -> Bool
    {
        let exists = try connection.firstOnce("SELECT 1 FROM sqlite_schema WHERE name = 'module_schema'") {
            (_) throws(HandlerError) in true
        }
        guard exists != nil else { return false }
        var isCurrent = true
        // All are read, so that a newer one is refused before anything waits for the write lock.
        for schema in schemas where try schema.version(in: connection) < schema.migrations.count {
            isCurrent = false
        }
        return isCurrent
    }

    private static func checkModules(_ schemas: [Schema]) throws(HandlerError) {
        var modules: Set<String> = []
        for schema in schemas where !modules.insert(schema.module).inserted {
            throw HandlerError(
                .duplicateSchema,
                "two schemas are of the module '\(schema.module)', and each would take the other's tables for its own; name them apart"
            )
        }
    }

    /// Runs `body` in one transaction: it commits when `body` returns and leaves no trace when it throws.
    ///
    /// - Parameter body: The work; short and synchronous, because other steps wait for it.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; ``HandlerError`` when the store fails, or `nestedStep` inside a step.
    @discardableResult
    public func step<R>(_ body: (borrowing Step) throws -> R) throws -> R {
        let thread = UInt(pthread_self())
        guard threadInStep.load(ordering: .relaxed) != thread else {
            throw HandlerError(
                .nestedStep,
                "a step was begun inside a step; pass the outer step on and write through that one")
        }
        var committed: Result<(R, [() -> Void]), any Error>?
        lock.withLock { _ in
            threadInStep.store(thread, ordering: .relaxed)
            committed = Result { try runLocked(body) }
            threadInStep.store(0, ordering: .relaxed)
        }
        // The closure above always runs and always assigns.
        let (value, actions) = try committed!.get()
        for action in actions { action() }
        return value
    }

    /// Runs and commits one step. Returns what is to be done after the lock is given back.
    private func runLocked<R>(_ body: (borrowing Step) throws -> R) throws -> (R, [() -> Void]) {
        try connection.begin()
        // Begun before the clock is read: the wait for other processes is over.
        let transaction = Transaction(connection: connection, registry: registry, now: wallClock())
        do {
            let result = try body(Step(transaction))
            if let failure = transaction.nestedFailure { throw failure }
            try Failpoint.beforeCommit.hit()
            try connection.commit()
            try Failpoint.afterCommit.hit()
            return (result, transaction.afterCommit)
        } catch {
            connection.rollBack()
            throw error
        }
    }
}
