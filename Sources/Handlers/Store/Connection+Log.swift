import CSQLite

extension Connection {
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
        do throws(HandlerError) {
            if try writeLogAgain(isWhole: !syncsCommits) {
                // A value that is set again is written nonetheless.
                try executeOnce("PRAGMA application_id = \(Connection.applicationID)")
            }
            try commit()
        } catch {
            rollBack()
            throw error
        }
    }

    /// Writes the frames again that may not be on the disk.
    ///
    /// - Parameter isWhole: Whether any frame may not be there, because commits are not synced.
    /// - Returns: Whether there is a log.
    func writeLogAgain(isWhole: Bool) throws(HandlerError) -> Bool {
        let log = try WriteAheadLog(of: database, pageSize: firstOnce("PRAGMA page_size") { $0.integer(0) })
        return try log.writeAgain(isWhole: isWhole) { (code) throws(HandlerError) in
            guard code != SQLITE_OK else { return }
            throw sqliteError(nil, code: code, doing: "writing the log again", path: path)
        }
    }

    /// - Parameter isOn: Whether the last connection that is closed moves the log into the database. For SQLite it does; for one that
    ///   was opened to write, only from when the log is settled.
    func setCheckpointsAtClose(_ isOn: Bool) { _ = dh_config_checkpoint_at_close(database, isOn ? 1 : 0) }

    /// Moves the log into the database as far as nobody reads it. What fails here a later checkpoint does.
    ///
    /// After the tables were made, so that no process that comes after a kill has to read them in the log.
    func checkpoint() { sqlite3_wal_checkpoint_v2(database, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil) }

    /// Takes the checkpoints after commits over from SQLite, where these are the only syncs of the log.
    ///
    /// SQLite forgets one that fails, and believes the next. Then a loss of power during that one finds pages in the database
    /// whose frames the log lacks: a broken database. So the log is written again before it.
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
                let connection = Unmanaged<Connection>.fromOpaque(me).takeUnretainedValue()
                if frames >= connection.checkpointAt { connection.checkpointUnsynced() }
                return SQLITE_OK
            }, me)
    }

    private func checkpointUnsynced() {
        // The next transaction writes it.
        if hasUnwrittenLog { return }
        let code = sqlite3_wal_checkpoint_v2(database, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
        if code & 0xff == SQLITE_IOERR { hasUnwrittenLog = true }
    }

    /// Before the database is closed, moves what was committed without a sync into it.
    ///
    /// - Returns: False when the next process must write the log again.
    func finishLog() -> Bool {
        if syncsCommits { return !hasLeftCommit }
        if hasUnwrittenLog, (try? begin()) != nil { rollBack() }
        checkpointUnsynced()
        if hasUnwrittenLog { setCheckpointsAtClose(false) }
        return !hasUnwrittenLog
    }
}
