import CSQLite

/// Does to a database what Litestream 0.5 does, in this process and without a network.
///
/// Source: `db.go` of Litestream: the functions `init`, `acquireReadLock`, `execCheckpoint` and `bumpLitestreamSeq`.
package final class LitestreamStandIn {
    package struct Failure: Error { package var message: String }

    /// Holds a read transaction nearly always, so that no other process starts the log again unseen.
    private let reading: Handle
    private let writing: Handle

    /// Creates the two tables of Litestream, and starts to read.
    package init(_ path: String) throws {
        (reading, writing) = (try Handle(path), try Handle(path))
        // Otherwise the last connection that is closed removes the log.
        writing.keepLog()
        try writing.run("CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        try writing.run("CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER)")
        try startReading()
    }

    private func startReading() throws { try reading.run("BEGIN; SELECT COUNT(1) FROM _litestream_seq") }

    /// Moves the log into the database, `PASSIVE` or `TRUNCATE`, and writes the first frame of the next one.
    package func checkpoint(_ mode: String) throws {
        try reading.run("ROLLBACK")
        try writing.run("PRAGMA wal_checkpoint(\(mode))")
        try startReading()
        try writing.run(
            "INSERT INTO _litestream_seq (id, seq) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET seq = seq + 1"
        )
    }

    /// Writes the pages of the last commit to a new file, as a restore of the replica would.
    package func restore(to path: String) throws { try writing.copyPages(to: Handle(path)) }

    /// A connection.
    private final class Handle {
        private let database: OpaquePointer

        init(_ path: String) throws {
            var database: OpaquePointer?
            guard sqlite3_open(path, &database) == SQLITE_OK, let database else {
                throw Failure(message: "cannot open \(path)")
            }
            self.database = database
            sqlite3_busy_timeout(database, 60_000)
            sqlite3_wal_autocheckpoint(database, 0)
        }

        deinit { sqlite3_close(database) }

        private var failure: Failure { Failure(message: String(cString: sqlite3_errmsg(database))) }

        func run(_ sql: String) throws {
            guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
        }

        func keepLog() {
            var isOn: Int32 = 1
            sqlite3_file_control(database, "main", SQLITE_FCNTL_PERSIST_WAL, &isOn)
        }

        func copyPages(to copy: Handle) throws {
            guard let backup = sqlite3_backup_init(copy.database, "main", database, "main") else {
                throw copy.failure
            }
            sqlite3_backup_step(backup, -1)
            guard sqlite3_backup_finish(backup) == SQLITE_OK else { throw copy.failure }
        }
    }
}
