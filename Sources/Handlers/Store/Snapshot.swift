/// The last committed state of the store, lent to a closure.
///
/// It cannot be copied or kept, and nothing can be written through it. ``HandlerStore/read(_:)`` and
/// ``StoreReader/read(_:)`` lend one.
///
/// ```swift
/// let waiting = try store.read { try $0.first("SELECT count(*) FROM handler") { $0.integer(0) } }
/// ```
public struct Snapshot: Readable {
    let connection: Connection
    public let now: Timestamp

    private init(_ connection: Connection, now: Timestamp) {
        self.connection = connection
        self.now = now
    }

    /// Lends the last committed state of a database to `body`.
    ///
    /// - Parameter check: Reads something, so that the state is fixed from here on: BEGIN alone fixes none.
    static func lend<R>(
        of connection: Connection, _ time: TimeSource, check: () throws(HandlerError) -> Void,
        to body: (borrowing Snapshot) throws -> R
    ) throws -> R {
        try connection.beginReading()
        defer { connection.rollBack() }
        try check()
        return try body(Snapshot(connection, now: time.wall()))
    }

    /// Returns the first row of a result, or nil.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It cannot write.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads the row that it is lent.
    /// - Returns: What `read` returns; nil when there is no row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement and for
    ///   one that writes.
    public func first<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        try connection.first(sql, values, read)
    }

    /// Returns all rows of a result.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It cannot write.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads each row in turn.
    /// - Returns: What `read` returned for each row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement and for
    ///   one that writes.
    public func all<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        try connection.all(sql, values, read)
    }

    /// Returns the newest id that a table has given to a row; 0 before the first.
    package func newestID(in table: String) throws(HandlerError) -> Int64 {
        try connection.engine.newestID(in: table)
    }

    /// Returns whether a table of that name exists. Tables of modules that no program used do not.
    ///
    /// - Parameter name: The table's name.
    /// - Returns: Whether it is there.
    /// - Throws: ``HandlerError`` with the codes of the store.
    package func hasTable(_ name: String) throws(HandlerError) -> Bool {
        try connection.engine.hasTable(name)
    }
}
