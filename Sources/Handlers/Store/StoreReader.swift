import CSQLite
import Platform

/// Reader of a store that another program owns. It writes, migrates, recovers and calls nothing, and blocks no process.
/// A program that has the store open uses ``HandlerStore/read(_:)``.
///
/// It reads beside running programs, also while one of them is stopped inside a transaction, and files that may not be
/// written, such as a copy.
///
/// ```swift
/// let reader = try StoreReader(path: "app.db")
/// let quarantined = try reader.read { try $0.handlers(in: .quarantined) }
/// ```
public final class StoreReader {
    private let database: any ReadableDatabase
    private let schemas: [Schema]
    private let time: TimeSource

    /// Makes a reader; the file is not touched before ``read(_:)``.
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - schemas: The tables that will be read, beside the runtime's own; a store need not have them.
    ///   - busyTimeout: How long to wait, 0 or more, while another process opens the database after
    ///     a crash; no other lock makes a reader wait.
    ///   - time: The clocks; tests pass their own.
    public convenience init(
        path: String, schemas: [Schema] = [], busyTimeout: Duration = .seconds(1), time: TimeSource = .system
    ) {
        self.init(
            ReadableFile(path: path, busyTimeout: busyTimeout), schemas: schemas, time: time)
    }

    /// Makes a reader of a database of any engine.
    package init(_ database: any ReadableDatabase, schemas: [Schema], time: TimeSource) {
        self.database = database
        self.schemas = [.handlers] + schemas
        self.time = time
    }

    /// Names the database: the path of the file, or an address without a password.
    package var path: String { database.path }

    /// Shows `body` the store as it is at one moment.
    ///
    /// A commit that comes meanwhile is not seen and not held up; only the log of the database grows until `body` is
    /// done. On PostgreSQL vacuum keeps old rows until then.
    ///
    /// - Parameter body: Reads. It runs a second time when the file was opened by a program while it ran.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; ``HandlerError`` with the codes `databaseUnavailable` (also when there is no file),
    ///   `databaseForeign` (no store), `databaseCorrupt`, `databaseNewer`, `databaseOlder`, `databaseLocked` or `sql`.
    public func read<R>(_ body: (borrowing Snapshot) throws -> R) throws -> R {
        try database.read { connection in
            try Snapshot.lend(
                of: Connection(connection), time,
                check: { () throws(HandlerError) in
                    try connection.checkIsStore()
                    try connection.checkVersions(of: schemas)
                }, to: body)
        }
    }

    /// Returns the processes that have the store open, by their slots.
    ///
    /// - Parameter snapshot: What ``read(_:)`` lends.
    package func processes(in snapshot: borrowing Snapshot) throws(HandlerError) -> [StoreProcess] {
        try database.processes(in: snapshot)
    }

    /// Returns who holds the lock for which the steps of all machines wait; nil for nobody, and for a file.
    ///
    /// - Parameter snapshot: What ``read(_:)`` lends.
    package func stepLockHolder(in snapshot: borrowing Snapshot) throws(HandlerError) -> StepLockHolder? {
        try database.stepLockHolder(in: snapshot)
    }
}

/// A database in a file of SQLite, which other processes may have open.
private struct ReadableFile: ReadableDatabase {
    let path: String
    let busyTimeout: Duration

    func read<R>(_ body: (any SQLConnection) throws -> R) throws -> R {
        // Nobody has it open, so the file is all there is, and reading it needs no lock and no file beside it.
        if let before = FileState.atRest(path) {
            let result = Result { try body(SQLiteConnection(readingFileAtRest: path)) }
            if FileState.atRest(path) == before { return try result.get() }
        }
        return try body(SQLiteConnection(reading: path, busyTimeout: busyTimeout, files: SystemFiles()))
    }

    /// Of processes on another machine nothing is known.
    func processes(in snapshot: borrowing Snapshot) -> [StoreProcess] { StoreProcess.all(of: path) }
}

/// The state of a database file, to detect changes between two checks.
private struct FileState: Equatable {
    var inode: UInt64
    var size: Int64
    var modified: Int64

    /// Nil while a program has the file open, or was killed and left a log: a write-ahead log is there from the first
    /// access on, and the last one who closes the database removes it.
    static func atRest(_ path: String) -> FileState? {
        guard FileSystem.isMissing(path + "-wal"), let status = try? FileStatus(path) else { return nil }
        return FileState(inode: status.inode, size: status.size, modified: status.modified)
    }
}

extension SQLiteConnection {
    /// Opens a database for reading beside others that have it open.
    convenience init(reading path: String, busyTimeout: Duration, files: any StoreFiles) throws(HandlerError)
    {
        try self.init(reading: path.hasPrefix("/") ? path : "./" + path, of: path, flags: 0, files)
        setBusyTimeout(busyTimeout)
    }

    /// Opens a database that no process has open, for reading: SQLite then takes no lock and opens no log.
    convenience init(readingFileAtRest path: String) throws(HandlerError) {
        try self.init(
            reading: Self.uri(path) + "?immutable=1", of: path, flags: SQLITE_OPEN_URI, SystemFiles())
    }

    private convenience init(
        reading name: String, of path: String, flags: Int32, _ files: any StoreFiles
    ) throws(HandlerError) {
        try files.checkReadable(path)
        try self.init(opening: name, of: path, flags: SQLITE_OPEN_READONLY | flags, files)
    }

    /// In a URI three characters have a meaning of their own.
    private static func uri(_ path: String) -> String {
        let escapes: [Character: String] = ["%": "%25", "?": "%3f", "#": "%23"]
        return (path.hasPrefix("/") ? "file:" : "file:./") + path.map { escapes[$0] ?? String($0) }.joined()
    }

    /// Refuses what is no store.
    package func checkIsStore() throws(HandlerError) {
        guard try firstOnce("PRAGMA application_id", [], { $0.integer(0) }) == Self.applicationID else {
            throw HandlerError(
                .databaseForeign,
                "the file \(path) holds no store: \(try isEmpty ? "it is empty" : "it is a database of another program")"
            )
        }
    }

    private var isEmpty: Bool {
        get throws(HandlerError) {
            try firstOnce("SELECT count(*) FROM sqlite_schema", [], { $0.integer(0) }) == 0
        }
    }
}

extension SQLConnection {
    /// Refuses a store with tables of another shape than this program knows.
    fileprivate func checkVersions(of schemas: [Schema]) throws(HandlerError) {
        for schema in schemas {
            // Version 0 means that the store does without this module.
            let version = try schema.version(in: self)
            guard version == 0 || version == schema.migrations.count else { throw older(schema, version) }
        }
        try MoveMark.refuse(in: self)
    }

    private func older(_ schema: Schema, _ version: Int) -> HandlerError {
        HandlerError(
            .databaseOlder,
            "the database \(path) was written by an older version (module '\(schema.module)' has version \(version), this program knows \(schema.migrations.count)); start the program that it belongs to, which brings it up to date, or look with the older version. Nothing was changed"
        )
    }
}
