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
            if try writeLogAgain() {
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
    /// - Returns: Whether there is a log.
    private func writeLogAgain() throws(HandlerError) -> Bool {
        let log = try WriteAheadLog(of: database, pageSize: firstOnce("PRAGMA page_size") { $0.integer(0) })
        return try log.writeAgain { (code) throws(HandlerError) in
            guard code != SQLITE_OK else { return }
            throw sqliteError(nil, code: code, doing: "writing the log again", path: path)
        }
    }

    /// Moves the log into the database as far as nobody reads it. What fails here a later checkpoint does.
    ///
    /// After the tables were made, so that no process that comes after a kill has to read them in the log.
    func checkpoint() { sqlite3_wal_checkpoint_v2(database, nil, SQLITE_CHECKPOINT_PASSIVE, nil, nil) }
}
