extension HandlerStore {
    /// The number of reads of a store that run at once; further ones wait.
    package static let maximumReads = 4

    /// Lends `body` the store as it was committed last, without the write lock.
    ///
    /// A read waits for no writer, not for one whose process is frozen inside a step either, and no writer waits for a read. So
    /// it is the way to show something:
    ///
    /// ```swift
    /// let contacts = try account.store.read { try account.roster.items(in: $0) }
    /// ```
    ///
    /// All of `body` sees one state; what is committed meanwhile, by this process or another, only the next read sees. A handler
    /// reads through its step, which sees what it has written; a read inside a step is refused.
    ///
    /// Four reads of a store run at once, each on a connection of its own that is opened for the first and then kept; one more
    /// waits until another has ended. While a read lasts, the log of the database cannot be written back past the state that the
    /// read sees, so the log grows with each commit: read what is to be shown, and show it after the read.
    ///
    /// On PostgreSQL `body` runs again when its connection was lost, or when tables have changed since the connection was used last. A
    /// database that is away is waited for as by a step, up to 30 s.
    ///
    /// - Parameter body: The work; short and synchronous. It may start a step of this store, which commits apart from the read; then it
    ///   does not run again, and throws what it would have run again for.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; ``HandlerError`` when the store fails, or `nestedStep` inside a step or another read.
    public func read<R>(_ body: (borrowing Snapshot) throws -> R) throws -> R {
        try read(isFixed: true, body)
    }

    /// Like ``read(_:)``, but on a server `body` sees the state of its first statement, not that of the call, which saves a round trip.
    package func peek<R>(_ body: (borrowing Snapshot) throws -> R) throws -> R {
        try read(isFixed: !traits.stepsAreCostly, body)
    }

    private func read<R>(isFixed: Bool, _ body: (borrowing Snapshot) throws -> R) throws -> R {
        guard !isInStep else {
            throw HandlerError(
                .nestedStep,
                "a read was started inside a step; read through the step, which sees what it has written")
        }
        return try database.readers.read(time, isFixed: isFixed, body)
    }

    /// Lends a transaction for reading alone. On a server it is a read, as a step has the steps of all machines wait; in a file it is a
    /// step, which costs no more and needs no second connection. Where a read fails, as the server is away or takes no more
    /// connections, a step waits for it.
    func look<R>(_ body: (Transaction) throws -> R) throws -> R {
        guard traits.stepsAreCostly else { return try step { try body($0.transaction) } }
        do {
            return try lookers.read(time, isFixed: false) { snapshot in
                try body(
                    Transaction(
                        connection: snapshot.connection, registry: registry, role: role, slot: slot, log: log,
                        time: time))
            }
        } catch let error as HandlerError where error.isStorageFailure {
            return try step { try body($0.transaction) }
        }
    }
}
