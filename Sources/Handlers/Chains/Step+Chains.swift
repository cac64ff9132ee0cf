/// Limits of whole chains: a handler, and all that is bound in its calls.
///
/// ```text
///   withChainLimit ──▶ chain_limit: deadline ◀── alarm, a timer
///                          ▲                        │ is due
///   handler ───────────────┤ chain_member           ▼
///      │ binds in its call │                 each member is due, to be invalidated ──▶ HandlerRunner
///      ╰──▶ handler ───────╯
/// ```
extension Step {
    /// Gives the handlers that `body` binds a time in which they, and all that is bound in their calls, must end.
    ///
    /// ```swift
    /// try store.step { step in
    ///     try step.withChainLimit(.seconds(60)) { try step.schedule(Reminder(text: "tea").durable, after: .zero) }
    /// }
    /// ```
    ///
    /// When the time is over, each handler of the chain that has not ended ends with the outcome `timeout`: what was bound with
    /// ``Durable/orElse(_:)`` runs instead, with the reason ``InvalidationReason/chainLimit``. A ``HandlerRunner`` does that, whatever the
    /// handler waits for, and the task of an async handler that runs is canceled.
    ///
    /// The innermost limit counts: in the call of a handler with a limit, what `body` binds has this limit instead of the inherited one.
    ///
    /// These belong to the chain, and hand on its limit, but end without it:
    /// - A handler that was bound with nothing but its arguments, `step.bind(handler)`, until it is called: the code that keeps its row ends it.
    ///   Give it a key, a timeout or a deadline to have it ended.
    /// - Handlers of modules, which are listed in their ``Schema``.
    ///
    /// These belong to no chain with a limit:
    /// - Standing handlers, periodic timers, and timers that follow a calendar.
    /// - What an invalidation or a compensation binds.
    ///
    /// - Parameters:
    ///   - limit: The time by the wall clock, 0 or more; nil for none, also where one would be inherited.
    ///   - body: Binds the handlers.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; ``HandlerError`` with the codes of the store.
    @discardableResult
    public func withChainLimit<R>(_ limit: Duration?, _ body: () throws -> R) throws -> R {
        guard let limit else { return try transaction.binding(.outsideOfChains, body) }
        return try transaction.chains.limiting(to: limit, body)
    }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns when the time of a handler's chain is over.
    ///
    /// ```swift
    /// if let deadline = try store.read({ try $0.chainDeadline(of: id) }) { print("ends at \(deadline)") }
    /// ```
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: The time by the wall clock; nil when the handler has ended, its chain has no limit, or the time is over and a runner ends the
    ///   handler.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func chainDeadline<Context>(of id: HandlerID<Context>) throws(HandlerError) -> Timestamp? {
        try first(
            """
            SELECT chain_limit.deadline FROM chain_member JOIN chain_limit ON chain_limit.id = chain_member.chain
            WHERE chain_member.handler = ?
            """, id
        ) { $0.timestamp(0) }
    }
}
