import CSQLite
import Glibc

/// One SQLite connection with its prepared statements; closed when it goes.
final class Connection {
    private let database: OpaquePointer
    private var statements: [String: Statement] = [:]
    private let path: String

    /// Opens the file, creating it with mode 0600, and checks that it is a database this library may write.
    init(path: String, synchronous: HandlerStore.Synchronous, busyTimeout: Int32) throws(HandlerError) {
        try Self.createPrivately(path)
        var database: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let code = sqlite3_open_v2(path, &database, flags, nil)
        guard code == SQLITE_OK, let database else {
            let error = sqliteError(database, code: code, doing: "opening", path: path)
            sqlite3_close_v2(database)
            throw error
        }
        self.database = database
        self.path = path
        sqlite3_busy_timeout(database, busyTimeout)
        do {
            try checkOwner()
            // WAL lets a reader such as `inspect` look without stopping the writer; FULL makes a commit survive a
            // loss of power, so nothing that was acknowledged to a server can roll back.
            try execute("PRAGMA journal_mode = WAL")
            try execute("PRAGMA synchronous = \(synchronous.rawValue)")
            try execute("PRAGMA foreign_keys = ON")
            // Small on purpose: a worker woken by a push has 24 MiB for everything.
            try execute("PRAGMA cache_size = -2048")
        } catch {
            // The deinit runs although init throws: every stored property is set.
            throw error
        }
    }

    deinit {
        statements.removeAll()
        sqlite3_close_v2(database)
    }

    /// Rows may hold secrets, so the file is created for its owner alone; SQLite gives -wal and -shm the same mode.
    private static func createPrivately(_ path: String) throws(HandlerError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason = String(cString: strerror(errno))
            switch errno {
            case EACCES, EROFS, EPERM:
                throw HandlerError(
                    .databaseReadOnly,
                    "the database \(path) cannot be written (\(reason)); check its permissions and those of its folder"
                )
            default:
                throw HandlerError(
                    .databaseUnavailable,
                    "the database \(path) cannot be opened (\(reason)); check that its folder exists")
            }
        }
        fchmod(descriptor, 0o600)
        // Closing any descriptor drops this process's POSIX locks on the file: harmless here, before SQLite opens it,
        // as long as one process opens one store per file.
        close(descriptor)
        // O_RDWR succeeds for a superuser even where the file is marked read-only; say so before SQLite fails later.
        guard access(path, W_OK) == 0 else {
            throw HandlerError(
                .databaseReadOnly,
                "the database \(path) cannot be written; check its permissions and those of its folder")
        }
    }

    static let applicationID: Int64 = 0x4448_6e64  // "DHnd"

    private func checkOwner() throws(HandlerError) {
        let owner = try first("PRAGMA application_id") { $0.integer(0) } ?? 0
        if owner == Self.applicationID { return }
        let tables = try first("SELECT count(*) FROM sqlite_schema") { $0.integer(0) } ?? 0
        guard owner == 0 && tables == 0 else {
            throw HandlerError(
                .databaseForeign,
                "the file \(path) is a database of another program; give the store a file of its own")
        }
        try execute("PRAGMA application_id = \(Self.applicationID)")
    }

    // MARK: Running statements

    private func cachedStatement(_ sql: String) throws(HandlerError) -> Statement {
        if let statement = statements[sql] { return statement }
        let statement = try Statement(sql, in: database)
        statements[sql] = statement
        return statement
    }

    func execute(_ sql: String, _ values: [any SQLConvertible] = []) throws(HandlerError) {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() {}
    }

    /// Runs several statements of a migration, without parameters.
    func executeScript(_ sql: String) throws(HandlerError) {
        let code = sqlite3_exec(database, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw sqliteError(database, code: code, doing: "running a migration") }
    }

    func first<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        guard try statement.step() else { return nil }
        let value = try read(statement.row)
        // Runs a statement such as DELETE … RETURNING to its end.
        while try statement.step() {}
        return value
    }

    func all<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        var result: [T] = []
        while try statement.step() { result.append(try read(statement.row)) }
        return result
    }

    /// Rows changed by the last statement.
    var changes: Int { Int(sqlite3_changes(database)) }

    var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(database) }

    /// False after SQLite gave a transaction up by itself, as it does when the disk is full.
    var isInTransaction: Bool { sqlite3_get_autocommit(database) == 0 }
}

/// Turns a SQLite result code into an error that says what to do.
func sqliteError(_ database: OpaquePointer?, code: Int32, doing: String, path: String? = nil) -> HandlerError
{
    let place =
        path ?? database.flatMap { sqlite3_db_filename($0, nil) }.map { String(cString: $0) }
        ?? "the database"
    let detail = database.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(code))
    return switch code & 0xff {
    case SQLITE_BUSY, SQLITE_LOCKED:
        HandlerError(
            .databaseLocked,
            "the database \(place) is locked by another process; wait for it, or stop the process that holds a write transaction open"
        )
    case SQLITE_READONLY, SQLITE_PERM:
        HandlerError(
            .databaseReadOnly,
            "the database \(place) cannot be written (\(detail)); check its permissions and those of its folder"
        )
    case SQLITE_CORRUPT, SQLITE_NOTADB:
        HandlerError(
            .databaseCorrupt,
            "the file \(place) is damaged or no SQLite database (\(detail)); restore it from a copy, or move it away to start anew"
        )
    case SQLITE_CANTOPEN:
        HandlerError(
            .databaseUnavailable,
            "the database \(place) cannot be opened (\(detail)); check that its folder exists")
    case SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM:
        HandlerError(
            .storageFailed,
            "the database \(place) could not be written while \(doing) (\(detail)); free space or check the disk"
        )
    default:
        HandlerError(.sql, "SQLite refused \(doing): \(detail) (code \(code))")
    }
}
