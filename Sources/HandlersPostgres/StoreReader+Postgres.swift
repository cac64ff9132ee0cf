public import Handlers

extension StoreReader {
    /// Makes a reader of a store on PostgreSQL. The server is not asked before ``/Handlers/StoreReader/read(_:)``, which opens a connection
    /// for each read.
    ///
    /// It reads on a standby, too, the state that has come there. It is no node, and no machine waits for it.
    ///
    /// ```swift
    /// let reader = try StoreReader(postgres: "host=pg2 dbname=bots")
    /// let quarantined = try reader.read { try $0.handlers(in: .quarantined) }
    /// ```
    ///
    /// - Parameters:
    ///   - settings: A connection string of libpq, or its URI.
    ///   - schemas: The tables that will be read, beside the runtime's own; a store need not have them.
    ///   - time: The clocks; tests pass their own.
    /// - Throws: ``/Handlers/HandlerError`` with the code `databaseUnavailable` for a connection string that cannot be read.
    public convenience init(
        postgres settings: String, schemas: [Schema] = [], time: TimeSource = .system
    ) throws {
        try self.init(PostgresSettings(settings, durability: nil), schemas: schemas, time: time)
    }

    convenience init(_ settings: PostgresSettings, schemas: [Schema], time: TimeSource) {
        var options = settings
        options.readsStandbys = true
        self.init(
            ReadablePostgres(options: options),
            schemas: [NodeTable.schema] + schemas, time: options.clock.source(time))
    }
}

/// A database of PostgreSQL that a reader reads.
private struct ReadablePostgres: ReadableDatabase {
    let options: PostgresSettings

    var path: String { options.name }

    func read<R>(_ body: (any SQLConnection) throws -> R) throws -> R {
        try body(PostgresConnection(options, isReader: true))
    }

    func processes(in snapshot: borrowing Snapshot) throws(HandlerError) -> [StoreProcess] {
        try NodeTable.nodes(in: snapshot)
    }

    func stepLockHolder(in snapshot: borrowing Snapshot) throws(HandlerError) -> StepLockHolder? {
        try StepLock.holder(in: snapshot)
    }
}
