import CSQLite

/// A connection to a file of SQLite, with its prepared statements; closed when it goes.
final class SQLiteConnection: SQLConnection {
    /// The maximum number of prepared statements. A program has a fixed set of them; only one that builds SQL from values
    /// gets here, and then all are prepared again.
    static let statementLimit = 200

    let database: OpaquePointer
    package let path: String
    /// Kept: SQLite uses its file system until the database is closed.
    private let files: any StoreFiles
    private let control: TransactionControl
    /// Whether others had access to the file until it was opened.
    var wasNarrowed = false
    // Looked up on every call, and never while it changes.
    @exclusivity(unchecked) private var statements = StatementCache()
    /// Whether each commit is synced.
    var syncsCommits = true
    /// The number of frames from which on a commit is followed by a checkpoint.
    var checkpointAt: Int32 = 0
    /// Whether a sync has failed, which no later one makes up for; see ``mendLog()``.
    var hasFailedSync = false
    /// Whether nothing of the dead is left in the log that must be written again.
    var isLogSettled = false
    private var isClosed = false

    /// Takes the handle over.
    init(owning database: OpaquePointer, path: String, files: any StoreFiles) {
        self.database = database
        self.files = files
        self.path = path
        control = TransactionControl(database)
    }

    deinit { close() }

    /// Closes the database, with its locks, and is of no use any more.
    func close() {
        if isClosed { return }
        isClosed = true
        statements.removeAll()
        control.finalize()
        sqlite3_close_v2(database)
    }

    /// - Parameter milliseconds: How long SQLite waits for another process's lock.
    func setBusyTimeout(_ time: Duration) {
        sqlite3_busy_timeout(database, Int32(clamping: time.milliseconds))
    }

    // MARK: The transaction

    package func begin() throws(HandlerError) {
        try checkPlace()
        try open(.begin)
        guard hasFailedSync else { return }
        try rollingBackOnError { () throws(HandlerError) in try mendLog() }
    }

    package func beginReading() throws(HandlerError) {
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

    package func commit() throws(HandlerError) {
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

    package func runsAgain() -> Bool { false }

    /// Gives the transaction up, if SQLite has not done so by itself. It fails for want of memory.
    package func rollBack() {
        if isInTransaction { try? control.run(.rollBack) }
    }

    package func savepoint() throws(HandlerError) { try control.run(.savepoint) }

    package func release() throws(HandlerError) { try control.run(.release) }

    package func undo() throws(HandlerError) {
        try control.run(.rollBackToSavepoint)
        try control.run(.release)
    }

    /// False after SQLite gave a transaction up by itself, as it does when the disk is full.
    package var isInTransaction: Bool { sqlite3_get_autocommit(database) == 0 }

    /// Whether it was opened for reading.
    private var isReadOnly: Bool { sqlite3_db_readonly(database, "main") == 1 }

    package var hasUnresolvedForeignKeys: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(database, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    // MARK: Statements

    func execute(_ sql: String, _ values: [any SQLConvertible]) throws(HandlerError) -> Int {
        let before = sqlite3_total_changes(database)
        let statement = try claimStatement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() {}
        // sqlite3_changes keeps the count of an earlier statement when this one changed no rows by its nature.
        return sqlite3_total_changes(database) == before ? 0 : Int(sqlite3_changes(database))
    }

    @inline(__always) func run(
        _ sql: String, _ values: [any SQLConvertible], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        let statement = try claimStatement(sql)
        defer { statement.reset() }
        try run(statement, values, row)
    }

    @inline(__always) private func run(
        _ statement: Statement, _ values: [any SQLConvertible],
        _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        try statement.bind(values)
        while try statement.step() {
            if try row(statement.row) { continue }
            // Without memory a column reads as empty, and only the next call on the statement would say so.
            if sqlite3_errcode(database) == SQLITE_NOMEM {
                throw sqliteError(database, code: SQLITE_NOMEM, doing: "reading '\(statement.sql)'")
            }
            // A change such as DELETE … RETURNING must run to its end, and PRAGMA journal_mode commits with its last step; a query
            // may stop here.
            if !statement.isReadOnly { while try statement.step() {} }
            return
        }
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

    package var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(database) }

    package func execute(_ sql: String, binding values: [SQLValue]) throws(HandlerError) -> Int {
        try execute(sql, values as [any SQLConvertible])
    }

    /// Runs a statement without counting the rows that it changes.
    func write(_ sql: String, _ values: [any SQLConvertible]) throws(HandlerError) {
        let statement = try claimStatement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() {}
    }

    package func write(_ sql: String, binding values: [SQLValue]) throws(HandlerError) {
        try write(sql, values as [any SQLConvertible])
    }

    package func insert(_ sql: String, binding values: [SQLValue]) throws(HandlerError) -> Int64 {
        try write(sql, binding: values)
        return lastInsertedRow
    }

    package func run(
        _ sql: String, binding values: [SQLValue], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        try run(sql, values as [any SQLConvertible], row)
    }

    package func runOnce(
        _ sql: String, binding values: [SQLValue], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        try run(Statement(sql, in: database, isPersistent: false), values, row)
    }

    package func runScript(_ sql: String, of place: String) throws(HandlerError) {
        control.isRefused = true
        defer { control.isRefused = false }
        let code = sqlite3_exec(database, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw preparingError(database, code: code, doing: "running \(place)") }
    }

    package func hasTable(_ name: String) throws(HandlerError) -> Bool {
        try firstOnce("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", [name]) { _ in true }
            ?? false
    }

    package func newestID(in table: String) throws(HandlerError) -> Int64 {
        try firstOnce("SELECT seq FROM sqlite_sequence WHERE name = ?", [table]) { $0.integer(0) } ?? 0
    }
}
