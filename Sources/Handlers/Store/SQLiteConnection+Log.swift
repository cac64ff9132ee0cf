import CSQLite

extension SQLiteConnection {
    /// Makes the commits durable that dead processes left in the write-ahead log, and voids those that nobody sees.
    ///
    /// A process that dies before its sync, or after one that failed, leaves a whole commit in the log. Two things go wrong with it:
    ///
    /// 1. The system keeps what it could not write, and no later sync writes it (fsync(2), "ERRORS"). The next process reads the
    ///    commit and adds its own after it; a loss of power then takes both. So the log is written again before the next sync.
    /// 2. Processes that were alive do not see the commit, and the first process after them does: a lease in it would belong to a
    ///    slot that was recovered long ago. So a commit of this process takes its place.
    ///
    /// It waits for the write lock: whoever has it may roll back, and would leave everything as it is.
    func settleLog() throws(HandlerError) {
        if BuiltInFault.trustLog.isOn { return }
        try begin()
        try rollingBackOnError { () throws(HandlerError) in
            if try writeLogAgain(isWhole: hasUnsyncedCommits()) {
                // A value that is set again is written nonetheless.
                try executeOnce("PRAGMA application_id = \(SQLiteConnection.applicationID)")
            }
            try commit()
        }
    }

    /// Whether this store, or another one in this boot, commits without a sync.
    private func hasUnsyncedCommits() throws(HandlerError) -> Bool {
        if !syncsCommits { return true }
        do throws(HandlerError) {
            return try firstOnce("SELECT boot IS NOT NULL FROM place") { $0.integer(0) != 0 } ?? false
        } catch {
            // With a failure of the storage SQLite gives up the transaction. A new database has no such table yet.
            if error.isStorageFailure { throw error }
            return false
        }
    }

    /// Whether the log holds commits, as far as this connection has read it.
    var hasLog: Bool { get throws(HandlerError) { try log.lastFrame(checkLog) > 0 } }

    /// Writes the frames again that may not be on the disk.
    ///
    /// - Parameter isWhole: Whether any frame may not be there, because commits are not synced.
    /// - Returns: Whether there is a log.
    private func writeLogAgain(isWhole: Bool) throws(HandlerError) -> Bool {
        try log.writeAgain(isWhole: isWhole, checkLog)
    }

    /// Writes all of the log again after a sync has failed, and lets the next checkpoint copy all of it again.
    func mendLog() throws(HandlerError) {
        let log = try log
        _ = try log.writeAgain(isWhole: true, checkLog)
        // Otherwise another process copies it at this moment, and the next transaction tries again.
        if log.copyAllAgain() { hasFailedSync = false }
    }

    private var log: WriteAheadLog {
        get throws(HandlerError) {
            try WriteAheadLog(of: database, pageSize: firstOnce("PRAGMA page_size") { $0.integer(0) })
        }
    }

    private func checkLog(_ code: Int32) throws(HandlerError) {
        guard code != SQLITE_OK else { return }
        throw sqliteError(nil, code: code, doing: "writing the log again", path: path)
    }

    /// Records that nothing of the dead is left in the log that must be written again.
    func setLogSettled() {
        isLogSettled = true
        setCheckpointsAtClose(true)
    }

    /// - Parameter isOn: Whether the last connection that is closed moves the log into the database. For SQLite it does; for one that
    ///   was opened to write, only from when the log is settled.
    func setCheckpointsAtClose(_ isOn: Bool) { _ = dh_config_checkpoint_at_close(database, isOn ? 1 : 0) }

    /// Moves the log into the database as far as nobody reads it. A failure is remembered in ``hasFailedSync``.
    ///
    /// After the tables were made, so that no process that comes after a kill has to read them in the log.
    func checkpoint() {
        // The next transaction mends that.
        if hasFailedSync { return }
        let code = sqlite3_wal_checkpoint_v2(database, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
        if code & 0xff == SQLITE_IOERR { hasFailedSync = true }
    }

    /// Takes the checkpoints after commits over from SQLite, which forgets one that fails and believes the syncs of the next.
    ///
    /// Then a loss of power finds a broken database: pages are in it whose frames the log lacks, or the frames are gone whose pages
    /// it lacks.
    ///
    /// - Parameter frames: From how many frames on a commit is followed by one. SQLite's own number is 1000.
    func takeOverCheckpoints(at frames: Int32 = 1000) {
        checkpointAt = frames
        // The connection closes the database before it goes.
        let me = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_wal_hook(
            database,
            { me, _, _, frames in
                guard let me else { return SQLITE_OK }
                let connection = Unmanaged<SQLiteConnection>.fromOpaque(me).takeUnretainedValue()
                if frames >= connection.checkpointAt { connection.checkpoint() }
                return SQLITE_OK
            }, me)
    }

    /// Brings the log into order before the database is closed. Where that fails, it stays for the next process, which settles it.
    func finishLog() {
        guard isLogSettled else { return }
        if hasFailedSync, (try? begin()) != nil { rollBack() }
        // The last connection that is closed does the same, and says nothing when it fails: what was not synced is lost then.
        if !syncsCommits { checkpoint() }
        if hasFailedSync { setCheckpointsAtClose(false) }
    }
}
