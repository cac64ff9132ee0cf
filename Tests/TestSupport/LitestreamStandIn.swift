import CSQLite

/// Does to a database what Litestream 0.5 does, in this process and without a network.
///
/// Source: `db.go` of Litestream: the functions `init`, `acquireReadLock`, `execCheckpoint` and `bumpLitestreamSeq`.
package final class LitestreamStandIn {
    /// Holds a read transaction nearly always, so that no other process starts the log again unseen.
    private let reading: RawConnection
    private let writing: RawConnection

    /// Creates the two tables of Litestream, and starts to read.
    package init(_ path: String) throws {
        (reading, writing) = (try RawConnection(path), try RawConnection(path))
        for connection in [reading, writing] { try connection.run("PRAGMA wal_autocheckpoint = 0") }
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
    package func restore(to path: String) throws { try writing.copyPages(to: RawConnection(path)) }
}

extension RawConnection {
    /// Keeps the log when the last connection is closed, which removes it otherwise.
    fileprivate func keepLog() {
        var isOn: Int32 = 1
        sqlite3_file_control(database, "main", SQLITE_FCNTL_PERSIST_WAL, &isOn)
    }

    fileprivate func copyPages(to copy: RawConnection) throws {
        guard let backup = sqlite3_backup_init(copy.database, "main", database, "main") else {
            throw copy.failure
        }
        sqlite3_backup_step(backup, -1)
        guard sqlite3_backup_finish(backup) == SQLITE_OK else { throw copy.failure }
    }
}
