/// Repair of quarantined and parked handlers.
extension Step {
    /// Requeues a parked or quarantined handler with the call that it waits for.
    ///
    /// A ``HandlerRunner`` calls it at once. One whose call could not be kept waits to be called again.
    ///
    /// - Parameter id: The handler's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when there is no such row or it is not quarantined.
    public func requeue<Context>(_ id: HandlerID<Context>) throws {
        try transaction.repairs.requeue(AnyHandlerID(id))
    }

    /// Gives all handlers that are parked or in quarantine another chance.
    ///
    /// - Parameter name: The stored name of those to requeue; nil for all.
    /// - Returns: How many there were.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func requeueAll(named name: String? = nil) throws -> Int {
        try transaction.repairs.requeueAll(named: name)
    }

    /// Ends a handler without running anything, not even its invalidation: for a row that nothing can repair.
    ///
    /// Use `invalidate` with the reason `discarded` where its invalidation can
    /// still run. Its ending says the same.
    ///
    /// - Parameter id: The handler's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when it has ended or never existed.
    public func discard<Context>(_ id: HandlerID<Context>) throws(HandlerError) {
        try transaction.invalidations.discard(AnyHandlerID(id))
    }
}
