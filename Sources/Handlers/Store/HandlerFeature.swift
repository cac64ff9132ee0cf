/// A table beside the rows of handlers, with what follows from it when a handler is bound, called, kept or ends.
///
/// ```text
///   HandlerTable, HandlerCalls ──▶ forEachFeature ──▶ HandlerFeature ◀── Lanes, Chains, Joins, …
/// ```
/// ``HandlerFeatures`` lists all of them. Each is asked of handlers with its relations only, so a handler without relations pays nothing.
protocol HandlerFeature: TransactionTable, SendableMetatype {
    /// The relations of the handlers that it concerns.
    static var relations: Relations { get }

    init(transaction: Transaction)

    /// Completes the row of a new handler.
    func prepare(_ row: inout HandlerRow) throws(HandlerError)
    /// A new handler was stored.
    func bound(_ id: AnyHandlerID, _ row: HandlerRow) throws(HandlerError)
    /// Returns whether a due handler may be called now.
    func mayCall(_ id: AnyHandlerID) throws(HandlerError) -> Bool
    /// Returns whether a call of a standing handler must wait for an earlier one.
    func mustQueue(_ id: AnyHandlerID) throws(HandlerError) -> Bool
    /// Calls a due handler in its own way; asked of all handlers.
    ///
    /// - Returns: False for one that is called as others are.
    func deliver(
        _ row: DueRow, _ definition: Definition?, _ call: StoredCall,
        _ environment: (any HandlerEnvironment)?
    ) throws -> Bool
    /// A handler is about to be invalidated, in its call.
    func invalidating(_ id: AnyHandlerID, _ invalidation: Invalidation) throws
    /// Handlers are about to be due, to be invalidated; asked of all handlers.
    ///
    /// - Parameter rows: Selects their ids.
    func canceling(_ rows: String, _ values: [any SQLConvertible]) throws(HandlerError)
    /// A handler that could not run, or failed, was kept.
    func kept(_ id: AnyHandlerID, _ stored: StoredHandler, _ unfinished: UnfinishedCall) throws(HandlerError)
    /// A call of a standing handler was stored in a row of its own.
    func stored(
        _ call: AnyHandlerID, of id: AnyHandlerID, _ unfinished: UnfinishedCall
    ) throws(HandlerError)
    /// A handler was quarantined outside of a call.
    func quarantined(_ id: AnyHandlerID) throws(HandlerError)
    /// A handler has ended.
    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError)
    /// A handler has ended without its invalidation; asked of all handlers, after `ended`.
    func discarded(_ stored: StoredHandler) throws(HandlerError)
}

extension HandlerFeature {
    func prepare(_ row: inout HandlerRow) throws(HandlerError) {}
    func bound(_ id: AnyHandlerID, _ row: HandlerRow) throws(HandlerError) {}
    func mayCall(_ id: AnyHandlerID) throws(HandlerError) -> Bool { true }
    func mustQueue(_ id: AnyHandlerID) throws(HandlerError) -> Bool { false }
    func deliver(
        _ row: DueRow, _ definition: Definition?, _ call: StoredCall,
        _ environment: (any HandlerEnvironment)?
    ) throws -> Bool { false }
    func invalidating(_ id: AnyHandlerID, _ invalidation: Invalidation) throws {}
    func canceling(_ rows: String, _ values: [any SQLConvertible]) throws(HandlerError) {}
    func kept(_ id: AnyHandlerID, _ stored: StoredHandler, _ unfinished: UnfinishedCall) throws(HandlerError)
    {}
    func stored(
        _ call: AnyHandlerID, of id: AnyHandlerID, _ unfinished: UnfinishedCall
    ) throws(HandlerError) {}
    func quarantined(_ id: AnyHandlerID) throws(HandlerError) {}
    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {}
    func discarded(_ stored: StoredHandler) throws(HandlerError) {}
}

extension TransactionTable {
    /// Runs `body` for each feature that concerns a handler with these relations.
    func forEachFeature<E: Error>(
        of relations: Relations, _ body: (any HandlerFeature) throws(E) -> Void
    ) throws(E) {
        if relations.isEmpty { return }
        for feature in HandlerFeatures.all where !feature.relations.isDisjoint(with: relations) {
            try body(feature.init(transaction: transaction))
        }
    }
}
