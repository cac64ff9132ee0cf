/// A store's database in a file of SQLite, which several processes may open.
///
/// `@unchecked Sendable`: the connection is used and replaced while the store's lock is held, `isSettled` and `processes` change while it
/// is opened.
final class SQLiteDatabase: StoreDatabase, @unchecked Sendable {
    private(set) var file: SQLiteConnection
    let path: String
    let filePath: String
    let readers: ReaderPool
    private let synchronous: HandlerStore.Synchronous
    private let busyTimeout: Duration
    private let system: SystemServices
    /// The processes that have the file open; nil before this one has a place among them.
    private(set) var processes: (any ProcessPresence)?
    /// Whether the log holds nothing of the dead any more that must be written again.
    private var isSettled = false

    init(
        path: String, synchronous: HandlerStore.Synchronous, busyTimeout: Duration, system: SystemServices
    ) throws(HandlerError) {
        (self.synchronous, self.busyTimeout, self.system) = (synchronous, busyTimeout, system)
        let files = system.files
        file = try SQLiteConnection(
            path: path, synchronous: synchronous, busyTimeout: busyTimeout, files: files)
        self.path = file.path
        let filePath = file.filePath
        self.filePath = filePath
        let number = files.number(of: filePath)
        readers = ReaderPool { _ throws(HandlerError) in
            let reader = try SQLiteConnection(reading: filePath, busyTimeout: busyTimeout, files: files)
            // Each read asks whether the name still leads to the connection's file, but not to the store's.
            guard files.number(of: filePath) == number else { throw reader.hasMoved() }
            try reader.executeOnce("PRAGMA cache_size = -\(SQLiteConnection.readerCacheSize)")
            return reader
        }
    }

    var connection: any SQLConnection { file }
    var traits: EngineTraits { .file }
    var narrowedFiles: [String] {
        (file.wasNarrowed ? [file.filePath] : []) + (processes?.narrowedFiles ?? [])
    }

    func migrate(to schemas: [Schema]) throws(HandlerError) -> [String] {
        try Schema.checkModules(of: schemas)
        // Looks before it locks: the usual start finds everything in place and must not wait for a writer.
        if try Schema.areCurrent(schemas, in: file) { return [] }
        // Before anything else is added to what a dead process has left.
        try settleLog()
        var migrated: [String] = []
        try file.begin()
        try file.rollingBackOnError { () throws(HandlerError) in
            try MoveMark.refuseOld(in: file)
            // Looks again: another process may have been first.
            if try !file.isOwn() {
                try file.executeOnce("PRAGMA application_id = \(SQLiteConnection.applicationID)")
            }
            migrated = try Schema.migrate(schemas, in: file)
            try file.settle(in: system.files.number(of: file.filePath))
            try file.commit()
        }
        file.checkpoint()
        return migrated
    }

    func takePlace(
        _ recover: (_ slot: Int, _ runningCall: RunningCall?) throws(HandlerError) -> Void
    ) throws(HandlerError) -> any StorePresence {
        let presence = try system.presence(
            file.filePath,
            { () throws(HandlerError) in
                // What one has left that failed before it had a slot, or that was closed after a failure.
                if !isSettled, try file.hasLog { try settleLog() }
            },
            { (slot, runningCall) throws(HandlerError) in
                if !isSettled { try settleLog() }
                try recover(slot, runningCall)
            })
        processes = presence
        return presence
    }

    func prepareRecovery() throws(HandlerError) { try settleLog() }

    private func settleLog() throws(HandlerError) {
        try file.settleLog()
        isSettled = true
    }

    func settle(in store: HandlerStore) throws {
        // What another process recovers at this moment, this one may have read already.
        if !isSettled, processes?.hasUnrecovered == true { try settleLog() }
        file.setLogSettled()
        try recognizeCopy(in: store, synchronous, system.boot)
    }

    func close() {
        readers.close()
        file.finishLog()
    }

    func closeConnection() { file.close() }

    func connectAgain() throws(HandlerError) {
        isSettled = false
        // By its name, as the first time: a file that took its place meanwhile is found to be a copy, or another program's.
        file = try SQLiteConnection(
            path: path, synchronous: synchronous, busyTimeout: busyTimeout, files: system.files)
    }
}
