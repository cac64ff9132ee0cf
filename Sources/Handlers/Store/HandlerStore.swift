import Platform
import Synchronization

/// The SQLite database with bound handlers and the application's own tables.
///
/// One store is one file; several processes may open the same file. Every change is a ``step(_:)``; what only looks is a
/// ``read(_:)``.
///
/// ```swift
/// let store = try HandlerStore(path: "app.db", registry: .discovered())
/// let id = try store.step { try $0.bind(Greet(name: "Juliet").durable) }
/// try store.step { try $0.end(id, .result, with: Reply(word: "Hello")) }
/// ```
public final class HandlerStore: Sendable {
    /// Durability of a commit.
    ///
    /// ```swift
    /// let store = try HandlerStore(path: "app.db", registry: .discovered(), synchronous: .normal)
    /// ```
    public enum Synchronous: String, Sendable {
        /// Commits survive a loss of power. The default.
        case full = "FULL"
        /// Commits survive the death of the process; a loss of power may undo the last ones. So the first opening after each
        /// boot treats the database as one that was restored from a backup: new sessions start, OMEMO's among them.
        case normal = "NORMAL"
    }

    /// Role of a process.
    ///
    /// ```swift
    /// let store = try HandlerStore(path: "app.db", registry: .discovered(), role: .worker)
    /// ```
    public enum Role: String, Sendable {
        /// The program itself, which may run every handler.
        case main
        /// A short-lived worker, woken by a push for example: it leaves handlers with the availability `mainOnly`.
        case worker
    }

    /// The path of the database file; of another engine's database, its place and name.
    public let path: String
    /// Where its rows are.
    package let database: any StoreDatabase
    /// The connections of ``look(_:)``.
    let lookers: ReaderPool
    /// The handlers that this program knows.
    package let registry: HandlerRegistry
    /// Role of this process.
    package let role: Role
    /// The clocks of this store.
    package let time: TimeSource
    package let system: SystemServices
    let log: HandlerLog?
    /// Slot of this store among the processes that have the file open. It is replaced while `lock` is held, too.
    let presence: Mutex<any StorePresence>
    // Touched only while `lock` is held, except in `init`.
    nonisolated(unsafe) var isSuspended = false
    let schemas: [Schema]
    /// One suspension or resumption at a time.
    let suspending = Mutex<Void>(())
    // Touched only while `lock` is held, except in `init`.
    nonisolated(unsafe) let connection: Connection
    let lock = Mutex<Void>(())
    /// The thread inside a step, to refuse a nested step instead of a deadlock.
    private let threadInStep = Atomic<UInt>(0)
    /// The runners, listeners and consumers of events of this process.
    let listeners = StoreListeners()
    /// What happened to handlers in steps of this process.
    private let counter = ActivityCounter()
    private struct WeakPart {
        weak var value: AnyObject?
    }

    /// By type; see ``shared(_:)``.
    private let sharedParts = Mutex<[ObjectIdentifier: WeakPart]>([:])
    /// The modules whose tables and handlers it was opened with.
    package let modules: Set<Name>
    /// Files that other users could access until this store was opened: the database and files beside it.
    package let narrowedFiles: [String]
    struct Watch {
        /// Whether anybody needs it.
        var isWanted = false
        var running: (any ProcessWatch)?
    }

    /// Watch of the commits and the ends of other processes.
    let watch = Mutex(Watch())

    /// Opens or creates a store.
    ///
    /// What a process that died had leased is free again, and handlers that were parked because an older program did
    /// not know them are requeued.
    ///
    /// - Parameters:
    ///   - path: The database file; created with mode 0600 when it does not exist. Its folder must exist. It also
    ///     holds SQLite's own files, and `<path>-processes` and `<path>-signal`, by which processes notice each other.
    ///   - registry: The handlers that this program knows.
    ///   - schemas: The tables of modules and of the application, migrated when needed.
    ///   - role: What part this process has.
    ///   - synchronous: When a commit counts as done.
    ///   - busyTimeout: How long to wait for another process's transaction, 0 or more; a part of a millisecond is dropped.
    ///   - time: The clocks; tests pass their own.
    ///   - log: Log of the store and its handlers; nil for none.
    /// - Throws: ``HandlerError`` with the codes `databaseUnavailable`, `databaseReadOnly`, `databaseCorrupt`,
    ///   `databaseForeign`, `databaseNewer` (nothing is changed), `databaseLocked` or `storageFailed`;
    ///   `duplicateSchema` when two schemas are of one module; `sql` when a migration fails, which changes nothing.
    public convenience init(
        path: String, registry: HandlerRegistry, schemas: [Schema] = [], role: Role = .main,
        synchronous: Synchronous = .full, busyTimeout: Duration = .seconds(5), time: TimeSource = .system,
        log: HandlerLog? = nil
    ) throws {
        try self.init(
            path: path, registry: registry, schemas: schemas, role: role, synchronous: synchronous,
            busyTimeout: busyTimeout, time: time, log: log, system: SystemServices())
    }

    /// Opens or creates a store on other services than those of the machine.
    package convenience init(
        path: String, registry: HandlerRegistry, schemas: [Schema], role: Role, synchronous: Synchronous,
        busyTimeout: Duration, time: TimeSource, log: HandlerLog?, system: SystemServices,
        toMove: Bool = false
    ) throws {
        let database = try SQLiteDatabase(
            path: path, synchronous: synchronous, busyTimeout: busyTimeout, system: system)
        try self.init(
            database, registry: registry, schemas: schemas, role: role, time: time, log: log, system: system,
            toMove: toMove)
    }

    /// Opens or creates a store in a database of any engine.
    ///
    /// - Parameter toMove: Whether also one is opened that is being moved.
    package init(
        _ database: any StoreDatabase, registry: HandlerRegistry, schemas: [Schema], role: Role,
        time: TimeSource, log: HandlerLog?, system: SystemServices, toMove: Bool = false
    ) throws {
        self.database = database
        lookers = database.readers.another()
        path = database.path
        self.system = system
        self.log = log
        self.schemas = [.handlers] + schemas
        registry.register(ofModules: schemas.flatMap(\.handlers))
        modules = Set(schemas.map(\.module))
        self.registry = registry
        self.role = role
        let time = database.clocks(time)
        self.time = time
        let migrated = try database.migrate(to: self.schemas)
        connection = Connection(database.connection)
        presence = Mutex(try Self.takePlace(in: database, time))
        narrowedFiles = database.narrowedFiles
        try settle(toMove: toMove)
        logMigrated(migrated)
        log?.write(.info, .store) { "opened \(path) as \(role)" }
        for file in narrowedFiles { log?.write(.warning, .store) { PrivateFile.narrowed(file) } }
    }

    deinit {
        if isSuspended { return }
        // Before the slot is given back, which is no news for this store.
        watch.withLock { $0.running.take() }?.cancel()
        lookers.close()
        leave()
    }

    static func takePlace(
        in database: any StoreDatabase, _ time: TimeSource
    ) throws(HandlerError) -> any StorePresence {
        try database.takePlace { (slot, runningCall) throws(HandlerError) in
            try database.connection.recover(slot: slot, runningCall, now: time.wall())
        }
    }

    /// Does what follows once the store has its place.
    func settle(toMove: Bool) throws {
        // After the place is taken: a move looks who has one after it has marked the store.
        if !toMove { try MoveMark.refuse(in: database.connection) }
        try recoverDead()
        try database.settle(in: self)
        try requeueKnown()
    }

    func logMigrated(_ migrated: [String]) {
        for tables in migrated { log?.write(.info, .store) { "migrated the tables of \(tables)" } }
    }

    /// Ends the use of the database and gives the place back.
    func leave() {
        storeActivity()
        database.close()
        let slot = slot
        // A runner that was not closed may have left something. A slot that keeps anything is not clean: the next who
        // looks at it recovers that.
        if (try? connection.engine.leave(slot: slot.number, now: time.wall())) != nil { slot.leave() }
    }

    /// Slot of this store among the processes that have the file open.
    var slot: any StorePresence { presence.withLock { $0 } }

    /// Reports that commits of this process are missing.
    package func report(loss text: String) { log?.write(.error, .store) { text } }

    /// Reports what its database has found.
    package func report(_ level: LogLevel, _ text: String) { log?.write(level, .store) { text } }

    /// How often commits of this process were found missing since the store was opened; to be read in a step.
    package var losses: Int { database.losses }

    /// Frees what processes that died had leased, and counts their deaths against the handlers that they ran.
    package func recoverDead() throws(HandlerError) {
        let now = time.wall()
        var (isPrepared, isAnythingFree) = (false, false)
        try slot.recoverDead { (slot, runningCall) throws(HandlerError) in
            try lock.withLock { (_) throws(HandlerError) in
                if isSuspended { throw HandlerError.storeSuspended }
                if !isPrepared { try database.prepareRecovery() }
                isPrepared = true
                if try recover(slot, runningCall, now) {
                    isAnythingFree = true
                    log?.write(.warning, .handlers) {
                        "the process in slot \(slot) died\(runningCall == nil ? "" : " while it ran a handler"); what it held is free"
                    }
                }
            }
        }
        if isAnythingFree {
            slot.notifyOthers()
            listeners.addAllDue()
        }
    }

    private func recover(
        _ slot: Int, _ runningCall: RunningCall?, _ now: Timestamp
    ) throws(HandlerError) -> Bool {
        while true {
            do throws(HandlerError) {
                return try connection.engine.recover(slot: slot, runningCall, now: now)
            } catch {
                guard try connection.engine.runsAgain() else { throw error }
            }
        }
    }

    /// Lends the connection to the store's file outside of steps, while none runs.
    func betweenSteps<R>(_ body: (SQLiteConnection) throws(HandlerError) -> R) throws(HandlerError) -> R {
        try lock.withLock { (_) throws(HandlerError) in
            if isSuspended { throw HandlerError.storeSuspended }
            guard let file = connection.engine as? SQLiteConnection else {
                throw HandlerError(
                    .databaseForeign, "\(path) is no file of SQLite; open the store with its path")
            }
            return try body(file)
        }
    }

    #if DEBUG || Failpoints
        /// From now on steps refuse to store some rows; nil for none.
        ///
        /// - Parameters:
        ///   - code: The error: one that the row is to blame for, or one of the store itself.
        ///   - refuses: Says so of a statement that changes something, and of its values.
        package func refuseRows(
            with code: ErrorCode<HandlerError> = .sql,
            _ refuses: ((_ sql: String, _ values: [SQLValue]) -> Bool)?
        ) {
            lock.withLock { _ in
                connection.refuses = refuses.map { refuses in { refuses($0, $1) ? code : nil } }
            }
        }
    #endif

    /// The number of workflows that are suspended in the memory of this process.
    package var suspendedWorkflows: Int { connection.keptRuns.count }

    /// Sets how many bytes suspended workflows may need; see ``HandlerRunner/Configuration/workflowMemory``.
    func setWorkflowMemory(_ limit: Int) { connection.keptRuns.setLimit(max(0, limit)) }

    /// Whether the calling thread is inside a step of this store.
    var isInStep: Bool { threadInStep.load(ordering: .relaxed) == ThreadID.current.number }

    private func requeueKnown() throws {
        // Looks before it locks, as the usual start finds nothing.
        let parked = try connection.engine.firstOnce(
            "SELECT 1 FROM handler WHERE \(Transaction.State.parked.condition)"
        ) { _ in true }
        guard parked != nil else { return }
        let count = try step { try $0.transaction.repairs.requeueKnown() }
        guard count > 0 else { return }
        log?.write(.info, .handlers) { "\(count) handlers that an older program had parked are called again" }
    }

    /// Returns what the parts of a module share that use this store. It lives for as long as one of them keeps it, and it may keep
    /// the store.
    ///
    /// - Parameter make: Makes it for the first of them.
    package func shared<S: AnyObject & Sendable>(_ make: () throws -> S) rethrows -> S {
        try sharedParts.withLock { parts in
            if let known = parts[ObjectIdentifier(S.self)]?.value as? S { return known }
            let new = try make()
            parts[ObjectIdentifier(S.self)] = WeakPart(value: new)
            return new
        }
    }

    /// From now on runners and listeners are woken by what other processes commit, too.
    package func watchChanges() throws(HandlerError) {
        try watch.withLock { (watch) throws(HandlerError) in
            watch.isWanted = true
            guard watch.running == nil else { return }
            watch.running = try slot.watchOthers(system.driver) { [listeners] in listeners.wakeAll() }
        }
    }

    /// Runs `body` in one transaction: it commits when `body` returns and leaves no trace when it throws.
    ///
    /// - Parameter body: The work; short and synchronous, because other steps wait for it.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; ``HandlerError`` when the store fails, or `nestedStep` inside a step.
    @discardableResult
    public func step<R>(_ body: (borrowing Step) throws -> R) throws -> R {
        let thread = ThreadID.current.number
        guard !isInStep else {
            throw HandlerError(
                .nestedStep,
                "a step was started inside a step; pass the outer step on and write through it")
        }
        database.readers.startsStep()
        var committed: Result<(R, Transaction), any Error>?
        lock.withLock { _ in
            threadInStep.store(thread, ordering: .relaxed)
            committed = Result { try runLocked(body) }
            threadInStep.store(0, ordering: .relaxed)
        }
        // The closure above always runs and always assigns.
        let (value, transaction) = try committed!.get()
        counter.add(transaction.happenings)
        for action in transaction.afterCommit { action() }
        for failure in transaction.failures { listeners.report(failure) }
        if transaction.hasNewEvents { listeners.news.announce() }
        for id in transaction.awaited { listeners.endings.announce(id) }
        let due = transaction.newDue
        if !due.isEmpty || !due.repeated.isEmpty { listeners.addDue(due) }
        return value
    }

    /// Runs and commits one step. Returns also what is to be done after the lock is given back.
    private func runLocked<R>(_ body: (borrowing Step) throws -> R) throws -> (R, Transaction) {
        while true {
            do {
                return try runOnce(body)
            } catch {
                guard try connection.engine.runsAgain() else { throw error }
            }
        }
    }

    private func runOnce<R>(_ body: (borrowing Step) throws -> R) throws -> (R, Transaction) {
        if isSuspended { throw HandlerError.storeSuspended }
        let slot = slot
        try connection.begin()
        // Begun before the clock is read: the wait for other processes is over.
        let transaction = Transaction(
            connection: connection, registry: registry, role: role, slot: slot, log: log,
            time: time)
        do {
            let result = try body(Step(transaction))
            if let failure = transaction.nestedFailure { throw failure }
            try transaction.storeChanges()
            let counted = counter.due(transaction.now)
            if let counted { try transaction.ifStorable { try transaction.activity.add(counted) } }
            try Failpoint.beforeCommit.hit()
            try connection.commit()
            if let counted { counter.stored(counted, at: transaction.now) }
            // Other processes may have rows to call, events to deliver, or wait for an ending.
            if !transaction.newDue.isEmpty || transaction.hasNewEvents || !transaction.awaited.isEmpty {
                slot.notifyOthers()
            }
            try Failpoint.afterCommit.hit()
            return (result, transaction)
        } catch {
            connection.rollBack()
            throw error
        }
    }

    /// Stores what was counted since the last time: the store is about to close. These are statistics, so an error loses them.
    private func storeActivity() {
        guard let counted = counter.due(time.wall(), isLast: true), (try? connection.begin()) != nil
        else { return }
        let transaction = Transaction(
            connection: connection, registry: registry, role: role, slot: slot, log: nil, time: time)
        do {
            try transaction.activity.add(counted)
            try connection.commit()
        } catch {
            connection.rollBack()
        }
    }
}
