import CSQLite

extension Connection {
    /// The bytes of a log before its first frame.
    private static let logHeader = 32

    /// Makes the commits durable that dead processes left in the write-ahead log, and voids those that nobody sees.
    ///
    /// A process that dies before its sync, or after one that failed, leaves a whole commit in the log. Two things go wrong with it:
    ///
    /// 1. The system keeps what it could not write, and no later sync writes it (fsync(2), "ERRORS"). The next process reads the
    ///    commit and adds its own after it; a loss of power then takes both. So the log is written again before the next sync.
    /// 2. Processes that were alive do not see the commit, and the first process after them does: a lease in it would belong to a
    ///    slot that was recovered long ago. So a commit of this process takes its place.
    ///
    /// While another process has the write lock nothing happens: the commit of that process takes the place.
    func settleLog() throws(HandlerError) {
        if BuiltInFault.trustLog.isOn { return }
        let patience = busyTimeout
        setBusyTimeout(0)
        defer { setBusyTimeout(patience) }
        do throws(HandlerError) {
            try begin()
        } catch  where error.code == .databaseLocked {
            return
        }
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

    /// Writes the frames again that a recovery would read; what follows them is left from an earlier, longer log.
    ///
    /// - Returns: Whether there is a log.
    private func writeLogAgain() throws(HandlerError) -> Bool {
        var log: UnsafeMutablePointer<sqlite3_file>?
        sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log)
        guard let log, let methods = log.pointee.pMethods?.pointee else { return false }
        var size: Int64 = 0
        try check(methods.xFileSize(log, &size))
        guard size >= Self.logHeader else { return size > 0 }
        let frame = 24 + Int(try firstOnce("PRAGMA page_size") { $0.integer(0) } ?? 4096)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(frame, Self.logHeader), alignment: 1)
        defer { buffer.deallocate() }
        // Every frame carries the salt of the header (sqlite.org/fileformat2.html, section 4.1).
        try check(methods.xRead(log, buffer.baseAddress, Int32(Self.logHeader), 0))
        let salt = Array(buffer[16..<24])
        try check(methods.xWrite(log, buffer.baseAddress, Int32(Self.logHeader), 0))
        for offset in stride(from: Int64(Self.logHeader), through: size - Int64(frame), by: frame) {
            try check(methods.xRead(log, buffer.baseAddress, Int32(frame), offset))
            guard buffer[8..<16].elementsEqual(salt) else { break }
            try check(methods.xWrite(log, buffer.baseAddress, Int32(frame), offset))
        }
        return true
    }

    private func check(_ code: Int32) throws(HandlerError) {
        guard code == SQLITE_OK else {
            throw sqliteError(nil, code: code, doing: "writing the log again", path: path)
        }
    }
}
