/// A store as it is at one moment, lent to the closure that reads it; see ``StoreReader/read(_:)``.
///
/// ```swift
/// let waiting = try StoreReader(path: "app.db").read { snapshot in
///     try snapshot.first("SELECT count(*) FROM handler") { $0.integer(0) }
/// }
/// ```
public struct StoreSnapshot: ~Copyable {
    let connection: Connection
    /// The wall clock when the look began, in milliseconds since 1970.
    public let now: Int64

    init(_ connection: Connection, now: Int64) {
        self.connection = connection
        self.now = now
    }

    /// Whether there is a table of that name; the tables of modules that a program does without are not there.
    ///
    /// - Parameter name: The table's name.
    /// - Returns: Whether it is there.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func hasTable(_ name: String) throws(HandlerError) -> Bool {
        try first("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name) {
            (_) throws(HandlerError) in true
        } ?? false
    }

    /// The first row of a result, or nil.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It cannot write.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads the row that it is lent.
    /// - Returns: What `read` returns; nil when there is no row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    public func first<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        try connection.first(sql, values, read)
    }

    /// All rows of a result.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It cannot write.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads each row in turn.
    /// - Returns: What `read` returned for each row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    public func all<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        try connection.all(sql, values, read)
    }

    /// A handler that has not ended, as it stands, with secrets masked; nil when it has ended or never existed.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: How it stands.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func status(of id: HandlerID) throws(HandlerError) -> HandlerStatus? {
        try connection.statuses("id = ?", [id]).first
    }

    /// Handlers in a state, the oldest first; see ``Step/handlers(in:after:limit:)``.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - limit: The most to return, from 1.
    /// - Returns: The handlers, with secrets masked.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func handlers(in state: HandlerStatus.State, limit: Int = 100) throws(HandlerError)
        -> [HandlerStatus]
    {
        // Pending rows are in no index by state, and are nearly all rows.
        let indexed = state == .pending ? "" : "state <> 0 AND "
        return try connection.statuses(indexed + "state = ? ORDER BY id LIMIT ?", [state.stored, limit])
    }

    /// The tombstone of a handler; nil while it has not ended.
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: How it ended; nil also when the tombstone was forgotten since.
    /// - Throws: ``HandlerError`` with the codes of the store; `databaseNewer` for an outcome that this program does
    ///   not know.
    public func ending(of id: HandlerID) throws(HandlerError) -> Ending? { try connection.ending(of: id) }
}
