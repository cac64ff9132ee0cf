/// Looking at handlers, and repairing what was set aside.
extension Step {
    /// Gives a handler that is parked or in quarantine another chance, with what arrived for it.
    ///
    /// A ``HandlerRunner`` calls it at once. One whose call could not be kept waits to be called again.
    ///
    /// - Parameter id: The handler's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when there is no such row or it was not set aside.
    public func requeue(_ id: HandlerID) throws { try transaction.requeue(id) }

    /// Gives all handlers that are parked or in quarantine another chance.
    ///
    /// - Parameter name: The stored name of those to requeue; nil for all.
    /// - Returns: How many there were.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func requeueAll(named name: String? = nil) throws -> Int {
        try transaction.requeueAll(named: name)
    }

    /// Ends a handler without running anything, not even its invalidation: for a row that nothing can repair.
    ///
    /// Use `invalidate` with the reason `discarded` where its invalidation can
    /// still run. Its tombstone says the same.
    ///
    /// - Parameter id: The handler's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when it has ended or never existed.
    public func discard(_ id: HandlerID) throws(HandlerError) { try transaction.discard(id) }

    /// A handler that has not ended, as it stands; nil when it has ended or never existed.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: How it stands, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func status(of id: HandlerID) throws(HandlerError) -> HandlerStatus? {
        try transaction.statuses("id = ?", [id]).first
    }

    /// Handlers that a runner will call or expire by the wall clock: timers, retries, deadlines; the earliest first.
    ///
    /// - Parameter limit: The most to return, from 1.
    /// - Returns: The handlers, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func dueHandlers(limit: Int = 100) throws(HandlerError) -> [HandlerStatus] {
        try transaction.statuses("due IS NOT NULL ORDER BY due, id LIMIT ?", [limit])
    }

    /// Handlers in a state, the oldest first.
    ///
    /// - Parameters:
    ///   - state: The state; nil for any.
    ///   - start: The row after which to begin, to read a long list in parts.
    ///   - limit: The most to return, from 1.
    /// - Returns: The handlers, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func handlers(
        in state: HandlerStatus.State? = nil, after start: HandlerID? = nil, limit: Int = 100
    ) throws(HandlerError) -> [HandlerStatus] {
        let start = start ?? HandlerID(rawValue: 0)
        guard let state else {
            return try transaction.statuses("id > ? ORDER BY id LIMIT ?", [start, limit])
        }
        // Pending rows are in no index by state, and are nearly all rows.
        let indexed = state == .pending ? "" : "state <> 0 AND "
        return try transaction.statuses(
            indexed + "state = ? AND id > ? ORDER BY id LIMIT ?", [state.stored, start, limit])
    }
}
