/// A readable state of the store: a ``Step``, or a ``Snapshot`` without the write lock.
///
/// A function that only reads takes either:
///
/// ```swift
/// func contacts(in source: borrowing some Readable) throws -> [String] {
///     try source.all("SELECT name FROM contact ORDER BY name") { $0.text(0) }
/// }
/// let shown = try store.read { try contacts(in: $0) }
/// let known = try store.step { step in try contacts(in: step) }
/// ```
public protocol ReadableStore: ~Copyable {
    /// Returns the first row of a result, or nil.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It is prepared once and kept, so do not build it from values.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads the row that it is lent.
    /// - Returns: What `read` returns; nil when there is no row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    func first<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T?

    /// Returns all rows of a result.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It is prepared once and kept, so do not build it from values.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads each row in turn.
    /// - Returns: What `read` returned for each row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    func all<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T]

    /// The wall clock, the same for the whole step or read.
    var now: Timestamp { get }
}

/// The parameter type of a reading function, a ``Step`` or a ``Snapshot``. See ``ReadableStore``.
public typealias Readable = ReadableStore & ~Copyable

// MARK: Handlers

extension ReadableStore where Self: ~Copyable {
    /// Returns the ending of a handler, or nil while it has not ended.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: How it ended; nil also when the ending was forgotten since.
    /// - Throws: ``HandlerError`` with the codes of the store; `databaseNewer` for an outcome that this program does
    ///   not know.
    public func ending<Context>(of id: HandlerID<Context>) throws(HandlerError) -> Ending? {
        try first(Ending.select("handler = ?"), id, read: Ending.read)
    }

    /// Returns the newest ending of a handler with a key. Nil if none has ended, or the ending was forgotten since. One that was replaced
    /// had given up its key.
    ///
    /// - Parameter key: The key.
    /// - Returns: How it ended.
    /// - Throws: ``HandlerError`` with the codes of the store; `databaseNewer` for an outcome that this program does
    ///   not know.
    public func ending(ofKey key: String) throws(HandlerError) -> Ending? {
        try first(
            Ending.select("ending_detail.key = ? ORDER BY ending_detail.handler DESC LIMIT 1"), key,
            read: Ending.read)
    }

    /// Returns the status of a handler. Nil if it has ended or never existed.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: The status, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func status<Context>(of id: HandlerID<Context>) throws(HandlerError) -> HandlerStatus? {
        try first(HandlerStatus.select("id = ?"), id, read: HandlerStatus.read)
    }

    /// Returns the status of the handler with a key. Nil if no handler that has not ended has it.
    ///
    /// - Parameter key: The key.
    /// - Returns: The status, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func status(ofKey key: String) throws(HandlerError) -> HandlerStatus? {
        try first(
            HandlerStatus.select("id = (SELECT handler FROM handler_key WHERE key = ?)"), key,
            read: HandlerStatus.read)
    }

    /// Handlers that have not ended, the oldest first.
    ///
    /// ```swift
    /// for handler in try step.handlers(named: "shop.thank", arguments: ["customer": "Ada"]) {
    ///     try step.invalidate(handler.id, reason: .cancelled)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - state: The state; nil for any.
    ///   - name: The stored name; nil for any.
    ///   - trace: The root of the chain to which they belong; nil for any.
    ///   - lane: The lane in which they are; nil for any or none.
    ///   - arguments: Bound arguments that they have, with equal values; empty for any.
    ///   - start: The row after which to begin, to read a long list in parts.
    ///   - limit: The most to return, from 1.
    /// - Returns: The handlers, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    /// - Complexity: In the number of handlers that have not ended; all are read until the limit is reached.
    public func handlers(
        in state: HandlerStatus.State? = nil, named name: String? = nil, trace: AnyHandlerID? = nil,
        lane: String? = nil, arguments: Record = [:], after start: AnyHandlerID? = nil, limit: Int = 100
    ) throws(HandlerError) -> [HandlerStatus] {
        let condition = HandlerStatus.condition(in: state, lane: lane)
        let query = HandlerStatus.select(
            """
            \(condition) AND id > ? AND name = coalesce(?, name) AND coalesce(trace, id) = coalesce(?, trace, id)
            ORDER BY id LIMIT ?
            """)
        var (found, last): ([HandlerStatus], AnyHandlerID) = ([], start ?? AnyHandlerID(rawValue: 0))
        while found.count < limit {
            // Only what has no condition of its own is read in pieces.
            let piece = arguments.isEmpty ? limit : HandlerStatus.piece
            let rows = try all(query, lane ?? "", last, name, trace, piece) {
                (row) throws(HandlerError) in (status: try HandlerStatus.read(row), arguments: row.blob(3))
            }
            for row in rows where found.count < limit {
                if try row.status.holds(arguments, row.arguments) { found.append(row.status) }
            }
            guard rows.count == piece, let end = rows.last?.status.id else { break }
            last = end
        }
        return found
    }

    /// Returns the quarantined calls that were dropped because newer ones came: 1000 calls of a standing handler are kept, and
    /// 8 MiB.
    ///
    /// - Returns: One for each handler, in the order of their names.
    /// - Throws: ``HandlerError`` with the codes of the store.
    package func droppedCalls() throws(HandlerError) -> [DroppedCalls] {
        try all("SELECT name, calls, bytes, last_at FROM dropped_call ORDER BY name") { row in
            DroppedCalls(
                name: row.text(0), calls: Int(row.quantity(1)), bytes: row.quantity(2),
                lastAt: row.timestamp(3))
        }
    }
}
