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
        try first("SELECT name, outcome, reason, ended_at, trace FROM ending WHERE handler = ?", id) {
            (row) throws(HandlerError) in try Ending(AnyHandlerID(id), row)
        }
    }

    /// Returns the status of a handler. Nil if it has ended or never existed.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: The status, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func status<Context>(of id: HandlerID<Context>) throws(HandlerError) -> HandlerStatus? {
        try first(HandlerStatus.select("id = ?"), id, read: HandlerStatus.read)
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
        in state: HandlerStatus.State? = nil, after start: AnyHandlerID? = nil, limit: Int = 100
    ) throws(HandlerError) -> [HandlerStatus] {
        let condition = state.map { "\($0.stored.condition) AND " } ?? ""
        return try all(
            HandlerStatus.select("\(condition)id > ? ORDER BY id LIMIT ?"),
            start ?? AnyHandlerID(rawValue: 0), limit, read: HandlerStatus.read)
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
