/// A call that failed for good: its retries are used up, or it killed too many processes, or it cannot be made at all.
///
/// It is posted in the step in which the handler is quarantined or its invalidation handler is scheduled, for the program as
/// a whole. `onFailure` of the runner that serves the handler's scope gets it after the commit.
///
/// ```swift
/// for try await delivery in store.events(HandlerFailure.self) { page(delivery.event.description) }
/// ```
///
/// Of those that nobody consumes the newest `kept` are kept.
public struct HandlerFailure: DurableEvent, Error, Hashable, CustomStringConvertible {
    public static let id = "handlers.failed"
    /// Number of events that are stored while nothing consumes them.
    package static let kept = 1000
    /// The longest ``error`` in bytes, and the longest ``name`` and scope: a row that rotted may hold more than an event.
    static let errorBytes = 1024
    static let nameBytes = 1024

    /// The row of the call: that of the handler, or the call's own row if the handler is a standing one.
    public let handler: AnyHandlerID
    /// The stored name of the handler; at most 1024 bytes.
    public let name: String
    /// The scope in which the handler was bound, at most 1024 bytes. Nil for the program as a whole.
    public let scope: HandlerScope?
    /// The number of runs since the handler was bound or requeued.
    public let attempts: Int
    /// The number of these runs in which the process died.
    public let deaths: Int
    /// Last error, or the reason why the handler cannot be called. At most 1024 bytes.
    public let error: String
    /// The code of that error. Nil for a handler that was not called, and in an event of an earlier version.
    public let code: ErrorCode<CallError>?
    /// Whether the handler ends as invalidated with the reason `failed`. Otherwise its row is quarantined.
    public let isInvalidated: Bool

    /// The failure in one line: name, row, runs, deaths, error and the next action.
    public var description: String {
        let runs = "\(attempts) \(attempts == 1 ? "run" : "runs")"
        let next =
            isInvalidated
            ? "its invalidation handler runs" : "the row is in quarantine; requeue or discard it"
        return
            "the handler '\(name)' (row \(handler)) failed for good after \(runs), \(deaths) deaths: \(error); \(next)"
    }
}

extension HandlerCalls {
    /// Posts the event of a final failure and keeps it for the runners of this process.
    ///
    /// - Parameters:
    ///   - error: Why.
    ///   - counts: How many times it was run, and died; nil where the row still says that.
    func report(
        _ handler: AnyHandlerID, _ error: CallError, counts: (runs: Int, deaths: Int)? = nil,
        isInvalidated: Bool = false
    ) throws(HandlerError) {
        try report(
            handler, error.message, code: error.code, counts: counts, isInvalidated: isInvalidated)
    }

    func report(
        _ handler: AnyHandlerID, _ error: String, code: ErrorCode<CallError>? = nil,
        counts: (runs: Int, deaths: Int)? = nil, isInvalidated: Bool = false
    ) throws(HandlerError) {
        let failure = try connection.first(
            "SELECT name, scope, attempts, deaths FROM handler WHERE id = ?", [handler]
        ) { row in
            HandlerFailure(
                handler: handler, name: row.text(0).cut(toBytes: HandlerFailure.nameBytes),
                scope: row.optionalText(1).map { .init(rawValue: $0.cut(toBytes: HandlerFailure.nameBytes)) },
                attempts: counts?.runs ?? Int(row.quantity(2)),
                deaths: counts?.deaths ?? Int(row.quantity(3)),
                error: error.cut(toBytes: HandlerFailure.errorBytes), code: code,
                isInvalidated: isInvalidated)
        }
        guard let failure else { return }
        try connection.write(
            """
            DELETE FROM event WHERE name = ?1 AND scope IS NULL AND id <=
                (SELECT id FROM event WHERE name = ?1 AND scope IS NULL ORDER BY id DESC LIMIT 1 OFFSET ?2)
            """, [HandlerFailure.id, HandlerFailure.kept - 1])
        try Step(transaction).post(failure)
        transaction.failures.append(failure)
    }

    func report(_ unfinished: UnfinishedCall, of handler: AnyHandlerID) throws(HandlerError) {
        try report(
            handler, unfinished.reason.words, code: unfinished.error?.code,
            counts: (unfinished.runs, unfinished.deaths),
            isInvalidated: unfinished.runsOrElse)
    }
}
