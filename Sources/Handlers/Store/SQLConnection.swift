/// A connection of an engine to the database of a store: all that a step needs of it.
///
/// ```text
///   Step, Transaction, Snapshot ──▶ Connection ──▶ SQLConnection
///                                                     ▲
///                                                     ╰── SQLiteConnection: a file
/// ```
/// Statements have one text for all engines (``Transaction``). Each function throws ``HandlerError`` with the codes of the store.
package protocol SQLConnection: AnyObject {
    /// Names the database in errors.
    var path: String { get }

    // MARK: Transactions

    /// Begins a transaction with the lock for writing: it never fails half-way because another process wrote.
    func begin() throws(HandlerError)
    /// Begins a transaction that only reads: it takes no lock for which a writer would wait, or that it would wait for.
    func beginReading() throws(HandlerError)
    func commit() throws(HandlerError)
    /// Whether a step that failed and was rolled back is to be run once more: an engine may take fewer precautions at first, and two
    /// steps may have stood in each other's way.
    func runsAgain() throws(HandlerError) -> Bool
    /// Gives the transaction up, if there is one. When even that fails, the next one begins with it.
    func rollBack()
    /// Opens a savepoint; they nest, and the two below mean the innermost.
    func savepoint() throws(HandlerError)
    func release() throws(HandlerError)
    /// Undoes what was written since the innermost savepoint and closes it.
    func undo() throws(HandlerError)
    /// False also after the engine gave a transaction up by itself.
    var isInTransaction: Bool { get }
    /// Whether a deferred foreign key would refuse the commit now.
    var hasUnresolvedForeignKeys: Bool { get }

    // MARK: Statements

    /// Runs a statement and lends each row of its result to `row`, until that returns false. A change runs to its end nonetheless.
    ///
    /// The statement is prepared once and kept.
    func run(
        _ sql: String, binding values: [SQLValue], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError)
    /// Runs a statement and returns the number of rows it has changed.
    func execute(_ sql: String, binding values: [SQLValue]) throws(HandlerError) -> Int
    /// Runs a statement whose count nobody needs, so that it may travel with those that follow. Its error may come with them.
    func write(_ sql: String, binding values: [SQLValue]) throws(HandlerError)
    /// Inserts one row by `INSERT INTO table(columns) VALUES (…)` into a table with a column `id`, which the statement does not name.
    ///
    /// - Returns: The row's id.
    func insert(_ sql: String, binding values: [SQLValue]) throws(HandlerError) -> Int64
    /// The row id of the last row inserted by another statement.
    var lastInsertedRow: Int64 { get throws(HandlerError) }
    /// ``run(_:binding:_:)`` for a statement that is not kept and may run outside of a transaction.
    func runOnce(
        _ sql: String, binding values: [SQLValue], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError)
    /// Whether there is a table of that name.
    func hasTable(_ name: String) throws(HandlerError) -> Bool
    /// The newest id that a table of the store has given to a row; 0 before the first.
    func newestID(in table: String) throws(HandlerError) -> Int64
    /// Refuses a database that holds no store. It reads, so that a transaction sees one state from here on.
    func checkIsStore() throws(HandlerError)
    /// Runs several statements of a migration, without parameters.
    ///
    /// - Parameter place: Names them in an error.
    func runScript(_ sql: String, of place: String) throws(HandlerError)
}

extension SQLConnection {
    /// Gives the transaction up when a part of it fails.
    package func rollingBackOnError(_ body: () throws(HandlerError) -> Void) throws(HandlerError) {
        do throws(HandlerError) {
            try body()
        } catch {
            rollBack()
            throw error
        }
    }

    @discardableResult
    package func execute(_ sql: String, _ values: [any SQLConvertible]) throws(HandlerError) -> Int {
        try execute(sql, binding: values.map(\.sqlValue))
    }

    // MARK: Statements that run once, also outside of a transaction

    package func executeOnce(_ sql: String, _ values: [any SQLConvertible] = []) throws(HandlerError) {
        try runOnce(sql, binding: values.map(\.sqlValue)) { (_) throws(HandlerError) in true }
    }

    package func firstOnce<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        var result: T?
        try runOnce(sql, binding: values.map(\.sqlValue)) { (row) throws(HandlerError) in
            result = try read(row)
            return false
        }
        return result
    }

    package func allOnce<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        var result: [T] = []
        try runOnce(sql, binding: values.map(\.sqlValue)) { (row) throws(HandlerError) in
            result.append(try read(row))
            return true
        }
        return result
    }
}
