import CSQLite
import Platform

extension SQLiteConnection {
    /// "DHnd": marks a database as one of this library.
    static let applicationID: Int64 = 0x4448_6e64
    /// The size in bytes that a longer log is cut to: several times what a usual checkpoint leaves.
    private static let logLimit = 16 << 20
    /// The cache of a connection that only reads, in KiB.
    static let readerCacheSize = 512

    /// Opens the file, creating it with mode 0600, and checks that it is a database this library may write.
    convenience init(
        path: String, synchronous: HandlerStore.Synchronous, busyTimeout: Duration, files: any StoreFiles
    ) throws(HandlerError) {
        guard !path.isEmpty, path != ":memory:" else {
            throw HandlerError(
                .databaseUnavailable,
                "a store is a file, and '\(path)' names none; give the path of a database file")
        }
        try files.prepare(path)
        // SQLite gives names such as "file:…" a meaning of their own; a path with a slash is a file.
        let name = path.hasPrefix("/") ? path : "./" + path
        // From here on the deinit closes the handle when something throws.
        try self.init(
            opening: name, of: path, flags: SQLITE_OPEN_READWRITE | FileProtection.databaseFlag, files)
        setBusyTimeout(busyTimeout)
        // What a dead process has left in the log must be written again before it is moved into the database.
        setCheckpointsAtClose(false)
        // SQLite opens a file that it may not write for reading.
        guard sqlite3_db_readonly(database, "main") != 1 else {
            throw readOnlyError(path, Errno.permissionDenied.description)
        }
        try retryingWhileLocked(for: busyTimeout, files) { () throws(HandlerError) in
            try configure(synchronous, files)
        }
    }

    /// - Parameter name: The name of the file for SQLite, which may be a URI.
    convenience init(
        opening name: String, of path: String, flags: Int32, _ files: any StoreFiles
    ) throws(HandlerError) {
        var database: OpaquePointer?
        let code = sqlite3_open_v2(
            name, &database, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, files.virtualFileSystem)
        guard code == SQLITE_OK, let database else {
            let error = sqliteError(database, code: code, doing: "opening", path: path)
            sqlite3_close_v2(database)
            throw error
        }
        self.init(owning: database, path: path, files: files)
    }

    private func configure(
        _ synchronous: HandlerStore.Synchronous, _ files: any StoreFiles
    ) throws(HandlerError) {
        // A rollback journal that is deleted may come back with a loss of power, and would undo what is in the log by then.
        if try !isOwn() { try executeOnce("PRAGMA synchronous = EXTRA") }
        wasNarrowed = files.makePrivate(path)
        // WAL lets a reader such as `inspect` look without stopping the writer; FULL makes a commit survive a
        // loss of power, so nothing that was acknowledged to a server can roll back.
        let mode = try firstOnce("PRAGMA journal_mode = WAL") { $0.text(0) }
        guard mode == "wal" else {
            throw HandlerError(
                .databaseUnavailable,
                "the database \(path) cannot keep a write-ahead log here (its journal mode stays \(mode ?? "unknown")); put it on a local file system"
            )
        }
        try sync(synchronous)
        syncsCommits = synchronous == .full
        takeOverCheckpoints()
        try executeOnce("PRAGMA foreign_keys = ON")
        // Small on purpose: a worker woken by a push has 24 MiB for everything.
        try executeOnce("PRAGMA cache_size = -2048")
        // A long reader, such as a backup program, makes the log grow; afterwards it gives the disk back.
        try executeOnce("PRAGMA journal_size_limit = \(Self.logLimit)")
    }

    /// Sets the durability of the commits that follow.
    func sync(_ synchronous: HandlerStore.Synchronous) throws(HandlerError) {
        try executeOnce("PRAGMA synchronous = \(Self.durability(synchronous))")
    }

    private static func durability(_ synchronous: HandlerStore.Synchronous) -> String {
        if BuiltInFault.missingSync.isOn { return "OFF" }
        return BuiltInFault.syncLate.isOn ? HandlerStore.Synchronous.normal.rawValue : synchronous.rawValue
    }

    /// Returns whether the database carries this library's mark; false for one without tables.
    ///
    /// - Throws: ``HandlerError`` with code `databaseForeign` for one that belongs to another program.
    func isOwn() throws(HandlerError) -> Bool {
        let mark = try firstOnce("PRAGMA application_id") { $0.integer(0) }
        if mark == Self.applicationID { return true }
        // One statement, so that both answers are of the same moment while another process creates the tables.
        let found = try firstOnce(
            "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id"
        ) { ($0.integer(0), $0.integer(1)) }
        let (owner, tables) = found ?? (0, 0)
        if owner == Self.applicationID { return true }
        guard owner == 0 && tables == 0 else {
            throw HandlerError(
                .databaseForeign,
                "the file \(path) is a database of another program; give the store a file of its own")
        }
        return false
    }

    /// The file's own path, from the root and without links: where the files beside it are, by whatever name it was opened.
    var filePath: String { sqlite3_db_filename(database, "main").map { String(cString: $0) } ?? path }

    /// Throws if the database file was unlinked or renamed since it was opened: commits to it would be lost.
    func checkPlace() throws(HandlerError) {
        var hasMoved: Int32 = 0
        sqlite3_file_control(database, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        guard hasMoved == 0 else { throw self.hasMoved() }
    }

    func hasMoved() -> HandlerError {
        HandlerError(
            .databaseUnavailable,
            "the database \(filePath) was moved, deleted or replaced while this program has it open; nothing more is written to the old file. End every program that has it open before a backup is put back, and start again"
        )
    }

    /// Repeats what failed because another process held a lock: SQLite does not wait by itself where two connections
    /// that turn a new file into a WAL database could wait for each other.
    private func retryingWhileLocked(
        for time: Duration, _ files: any StoreFiles, _ body: () throws(HandlerError) -> Void
    ) throws(HandlerError) {
        var pauses = time.milliseconds
        while true {
            do {
                return try body()
            } catch {
                guard error.code == .databaseLocked, pauses > 0 else { throw error }
                pauses -= 1
                files.pause(microseconds: 1000)
            }
        }
    }
}
