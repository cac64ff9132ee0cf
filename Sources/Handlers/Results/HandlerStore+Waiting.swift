/// Waiting for the endings of handlers.
extension HandlerStore {
    /// Waits until a handler has ended, in this process or another one.
    ///
    /// ```swift
    /// let ending = try await store.ending(of: id)
    /// print(ending.outcome)
    /// ```
    ///
    /// It returns at once for one that has ended before, as long as its ending is kept.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: How it ended.
    /// - Throws: ``HandlerError`` `noSuchHandler` when it never existed or its ending was forgotten, or with the codes of the store;
    ///   `CancellationError`.
    public func ending<Context>(of id: HandlerID<Context>) async throws -> Ending {
        try watchChanges()
        return try await listeners.endings.withNews(of: AnyHandlerID(id)) { news in
            var isAnnounced = false
            while true {
                // Counted before it looks, so that no ending in between is missed.
                let seen = news.count
                // Only the first look writes; the others wait for no writer. Beside other machines a read may see what their standby
                // has not confirmed, so the ending is taken in a step, which waits for that.
                if isAnnounced, let ending = try read({ try $0.ending(of: id) }), !hasOtherMachines {
                    return ending
                }
                if try !isAnnounced || !read({ try $0.isWaiting(id) }) {
                    if let ending = try step({ try $0.transaction.handlers.awaitEnding(of: AnyHandlerID(id)) }
                    ) {
                        return ending
                    }
                    isAnnounced = true
                }
                try await news.wait(beyond: seen)
            }
        }
    }

    /// Waits until a handler has ended, and reads its result.
    ///
    /// ```swift
    /// let receipt = try await store.value(of: id, as: Payment.self)
    /// ```
    ///
    /// - Parameters:
    ///   - id: The handler's row.
    ///   - type: The type of the result; inferred where the context says it.
    /// - Returns: What it returned.
    /// - Throws: ``CallError`` by its code when it failed; ``HandlerError`` `noResult` when it ended otherwise or returned nothing,
    ///   `wrongArgument` when the result has another type; else like ``ending(of:)``.
    public func value<Value: Decodable, Context>(
        of id: HandlerID<Context>, as type: Value.Type = Value.self
    ) async throws -> Value { try await ending(of: id).result(as: type) }
}

extension ReadableStore where Self: ~Copyable {
    fileprivate func isWaiting<Context>(_ id: HandlerID<Context>) throws(HandlerError) -> Bool {
        try first("SELECT 1 FROM handler WHERE id = ?", id) { _ in true } ?? false
    }
}

extension HandlerTable {
    /// Returns the ending of a handler, or has it announced.
    func awaitEnding(of id: AnyHandlerID) throws(HandlerError) -> Ending? {
        if let relations = try relations(of: id) {
            if !relations.contains(.awaited) { try add(.awaited, to: id) }
            return nil
        }
        guard let ending = try Step(transaction).ending(of: id) else { throw try noSuchHandler(id) }
        return ending
    }
}
