/// A failure of a handler that was tried again, quarantined or invalidated.
///
/// ```swift
/// for failure in try store.read({ try $0.failures(of: id) }) { print(failure.attempt, failure.error) }
/// ```
public struct FailedAttempt: Hashable, Sendable {
    /// The number of the run, from 1, since the handler was bound or requeued. 0 if it was not run.
    public let attempt: Int
    /// When it failed, by the wall clock.
    public let at: Timestamp
    /// How long the run took; nil for a call inside a step.
    public let run: Duration?
    /// The slot of the process that ran it, or the number of its node.
    public let slot: Int
    /// The error; at most 1024 bytes.
    public let error: String
}

/// The last failures of handlers. They stay until the ending of the handler is forgotten.
struct Failures: TransactionTable {
    let transaction: Transaction
    /// The maximum number of failures of a handler that are kept.
    static let kept = 5
    /// The maximum size of an error in bytes.
    static let longestError = 1024

    /// Stores the failure of a call, unless the handler was not called or no program knows it.
    func add(_ unfinished: UnfinishedCall, of handler: AnyHandlerID) throws(HandlerError) {
        if unfinished.isQueued || unfinished.state == .parked { return }
        try add(handler, attempt: unfinished.runs, unfinished.reason, run: unfinished.run)
    }

    func add(
        _ handler: AnyHandlerID, attempt: Int, _ error: StoredReason, run: Duration? = nil
    ) throws(HandlerError) {
        try connection.write(
            "INSERT INTO handler_failure(handler, attempt, at, run, slot, error) VALUES (?, ?, ?, ?, ?, ?)",
            [
                handler, attempt, now, run?.milliseconds, transaction.slot.number,
                error.words.cut(toBytes: Self.longestError),
            ])
        try connection.write(
            """
            DELETE FROM handler_failure WHERE handler = ?1 AND id <=
                (SELECT id FROM handler_failure WHERE handler = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
            """, [handler, Self.kept])
    }

    /// Forgets the failures of a handler that leaves no ending.
    func forget(_ handler: AnyHandlerID) throws(HandlerError) {
        try connection.write("DELETE FROM handler_failure WHERE handler = ?", [handler])
    }

    /// Forgets the failures of handlers in a range of rows whose endings are forgotten.
    func prune(after start: AnyHandlerID, through end: Int64) throws(HandlerError) {
        try connection.write(
            """
            DELETE FROM handler_failure WHERE handler > ? AND handler <= ?
                AND NOT EXISTS (SELECT 1 FROM ending WHERE ending.handler = handler_failure.handler)
                AND NOT EXISTS (SELECT 1 FROM handler WHERE handler.id = handler_failure.handler)
            """, [start, end])
    }
}

extension TransactionTable {
    var failures: Failures { Failures(transaction: transaction) }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns the last failures of a handler, the newest first: at most five.
    ///
    /// They stay after the handler has ended, for as long as its ending.
    ///
    /// - Parameter id: The handler's row; of a call of a standing handler, the row of the call.
    /// - Returns: The failures; empty for a handler that never failed.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func failures<Context>(of id: HandlerID<Context>) throws(HandlerError) -> [FailedAttempt] {
        try all(
            "SELECT attempt, at, run, slot, error FROM handler_failure WHERE handler = ? ORDER BY id DESC", id
        ) {
            FailedAttempt(
                attempt: Int($0.quantity(0)), at: $0.timestamp(1), run: $0.optionalDuration(2),
                slot: Int($0.quantity(3)), error: $0.text(4))
        }
    }
}
