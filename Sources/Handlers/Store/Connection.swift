import CSQLite

/// One SQLite connection with its prepared statements; closed when it goes.
///
/// `execute`, `first` and `all` run inside a transaction only; outside one they throw instead of committing on
/// their own.
final class Connection {
    /// The maximum number of prepared statements. A program has a fixed set of them; only one that builds SQL from values
    /// gets here, and then all are prepared again.
    static let statementLimit = 200

    let database: OpaquePointer
    let path: String
    private let control: TransactionControl
    /// Whether others had access to the file until it was opened.
    var wasNarrowed = false
    // Looked up on every call, and never while it changes.
    @exclusivity(unchecked) private var statements = StatementCache()
    /// The number of calls of each handler stored since the store was opened, and whether too many waited at the last count.
    var waitingCalls: [String: (count: Int, isCrowded: Bool)] = [:]
    /// The failure of the storage after which the open transaction cannot commit.
    private(set) var failure: HandlerError?
    /// Whether each commit is synced.
    var syncsCommits = true
    /// The number of frames from which on a commit is followed by a checkpoint.
    var checkpointAt: Int32 = 0
    /// Whether a sync has failed, which no later one makes up for; see ``mendLog()``.
    var hasFailedSync = false
    /// Whether nothing of the dead is left in the log that must be written again.
    var isLogSettled = false

    /// Takes the handle over.
    init(owning database: OpaquePointer, path: String) {
        self.database = database
        self.path = path
        control = TransactionControl(database)
    }

    deinit {
        statements.removeAll()
        control.finalize()
        sqlite3_close_v2(database)
    }

    /// - Parameter milliseconds: How long SQLite waits for another process's lock.
    func setBusyTimeout(_ milliseconds: Int32) { sqlite3_busy_timeout(database, milliseconds) }

    // MARK: The transaction

    /// Begins a transaction with the write lock: it never fails half-way because another process wrote.
    func begin() throws(HandlerError) {
        failure = nil
        try checkPlace()
        try open(.begin)
        guard hasFailedSync else { return }
        try rollingBackOnError { () throws(HandlerError) in try mendLog() }
    }

    /// Begins a transaction that only reads: it takes no lock for which a writer would wait, or that it would wait for.
    func beginReading() throws(HandlerError) {
        failure = nil
        try checkPlace()
        try open(.beginReading)
    }

    private func open(_ command: TransactionControl.Command) throws(HandlerError) {
        // What an earlier one could not give up.
        rollBack()
        // Before: what has begun must end also when no memory is left.
        try control.prepare(.rollBack)
        try rollingBackOnError { () throws(HandlerError) in try control.run(command) }
    }

    /// Gives the transaction up when a part of it fails.
    func rollingBackOnError(_ body: () throws(HandlerError) -> Void) throws(HandlerError) {
        do throws(HandlerError) {
            try body()
        } catch {
            rollBack()
            throw error
        }
    }

    /// Commits, unless the storage failed in between.
    func commit() throws(HandlerError) {
        try checkUsable()
        if BuiltInFault.ignoreCommitError.isOn { return (try? control.run(.commit)) ?? rollBack() }
        do throws(HandlerError) {
            try control.run(.commit)
        } catch {
            if error.isStorageFailure { hasFailedSync = true }
            throw error
        }
        // In the checkpoint after the commit. At once: another process may run the next.
        if hasFailedSync, (try? begin()) != nil { rollBack() }
    }

    /// Gives the transaction up, if SQLite has not done so by itself.
    ///
    /// When even that fails, for want of memory, the next one begins with it.
    func rollBack() {
        if isInTransaction { try? control.run(.rollBack) }
    }

    /// Opens a savepoint; they nest, and the two below mean the innermost.
    func savepoint() throws(HandlerError) {
        try guarding { () throws(HandlerError) in try control.run(.savepoint) }
    }

    func release() throws(HandlerError) {
        try guarding { () throws(HandlerError) in try control.run(.release) }
    }

    /// Undoes what was written since the innermost savepoint and closes it.
    func undo() throws(HandlerError) {
        try guarding { () throws(HandlerError) in
            try control.run(.rollBackToSavepoint)
            try control.run(.release)
        }
    }

    /// False after SQLite gave a transaction up by itself, as it does when the disk is full.
    private var isInTransaction: Bool { sqlite3_get_autocommit(database) == 0 }

    /// Whether it was opened for reading.
    private var isReadOnly: Bool { sqlite3_db_readonly(database, "main") == 1 }

    /// Whether the transaction can still commit.
    var isUsable: Bool { failure == nil && isInTransaction }

    /// Whether a deferred foreign key would refuse the commit now.
    var hasUnresolvedForeignKeys: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(database, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    private func checkUsable() throws(HandlerError) {
        if let failure { throw failure }
        guard isInTransaction else {
            throw HandlerError(
                .storageFailed,
                "the transaction in \(path) was given up by SQLite; nothing of this step is kept, run it again"
            )
        }
    }

    /// Remembers a failure of the storage, so that code that ignores the error cannot commit half of a step.
    @inline(__always) private func guarding<R>(_ body: () throws(HandlerError) -> R) throws(HandlerError) -> R
    {
        do {
            try checkUsable()
            return try body()
        } catch { throw remembered(error) }
    }

    private func remembered(_ error: HandlerError) -> HandlerError {
        if failure == nil, error.isStorageFailure { failure = error }
        return error
    }

    // MARK: Statements of a step

    @discardableResult
    func execute(_ sql: String, _ values: [any SQLConvertible] = []) throws(HandlerError) -> Int {
        let before = sqlite3_total_changes(database)
        try withStatement(sql, values) { (statement) throws(HandlerError) in
            while try advance(statement) {}
        }
        // sqlite3_changes keeps the count of an earlier statement when this one changed no rows by its nature.
        return sqlite3_total_changes(database) == before ? 0 : Int(sqlite3_changes(database))
    }

    func first<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        try withStatement(sql, values) { (statement) throws(HandlerError) in
            guard try advance(statement) else { return nil }
            let value = try read(statement.row)
            // Without memory a column reads as empty, and only the next call on the statement would say so.
            if sqlite3_errcode(database) == SQLITE_NOMEM {
                throw remembered(sqliteError(database, code: SQLITE_NOMEM, doing: "reading '\(sql)'"))
            }
            // A change such as DELETE … RETURNING must run to its end; a query may stop here.
            if !statement.isReadOnly { while try advance(statement) {} }
            return value
        }
    }

    func all<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        try withStatement(sql, values) { (statement) throws(HandlerError) in
            var result: [T] = []
            while try advance(statement) { result.append(try read(statement.row)) }
            return result
        }
    }

    private func advance(_ statement: Statement) throws(HandlerError) -> Bool {
        try guarding { () throws(HandlerError) in try statement.step() }
    }

    @inline(__always) private func withStatement<R>(
        _ sql: String, _ values: [any SQLConvertible], _ body: (Statement) throws(HandlerError) -> R
    ) throws(HandlerError) -> R {
        let statement = try guarding { () throws(HandlerError) in try claimStatement(sql) }
        defer { statement.reset() }
        do { try statement.bind(values) } catch { throw remembered(error) }
        return try body(statement)
    }

    /// The prepared statement of `sql`, marked as in use until it is reset.
    private func claimStatement(_ sql: String) throws(HandlerError) -> Statement {
        let cached = statements.statement(sql)
        if let cached, !cached.isInUse {
            cached.isInUse = true
            return cached
        }
        control.isRefused = true
        defer { control.isRefused = false }
        let statement = try Statement(sql, in: database)
        guard statement.isReadOnly || !isReadOnly else {
            throw HandlerError(.sql, "a snapshot only reads, and '\(sql)' writes; run it in a step")
        }
        statement.isInUse = true
        // A query that runs itself again for one of its own rows gets a statement of its own for that time.
        if cached != nil { return statement }
        if statements.count >= Self.statementLimit { statements.removeAll() }
        statements.insert(statement)
        return statement
    }

    var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(database) }

    // MARK: Statements that run once, also outside a transaction

    func executeOnce(_ sql: String, _ values: [any SQLConvertible] = []) throws(HandlerError) {
        let statement = try Statement(sql, in: database, isPersistent: false)
        try statement.bind(values)
        while try statement.step() {}
    }

    func firstOnce<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        let statement = try Statement(sql, in: database, isPersistent: false)
        try statement.bind(values)
        guard try statement.step() else { return nil }
        let value = try read(statement.row)
        // SQLite commits a change such as PRAGMA journal_mode with its last step, and that may fail.
        if !statement.isReadOnly { while try statement.step() {} }
        return value
    }

    func allOnce<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        let statement = try Statement(sql, in: database, isPersistent: false)
        try statement.bind(values)
        var result: [T] = []
        while try statement.step() { result.append(try read(statement.row)) }
        return result
    }

    /// Runs several statements of a migration, without parameters.
    func executeScript(_ sql: String, of place: String) throws(HandlerError) {
        control.isRefused = true
        defer { control.isRefused = false }
        let code = sqlite3_exec(database, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw sqliteError(database, code: code, doing: "running \(place)") }
    }
}
