/// A database as a move of a store sees it: tables with rows, whatever they mean.
///
/// ```text
///   StoreMove ──▶ MovedDatabase ──▶ SQLConnection, with one transaction
///                    ▲
///                    ├── MovedFile: a file of SQLite
///                    ╰── MovedServer: a database of PostgreSQL
/// ```
package protocol MovedDatabase: AnyObject {
    var connection: any SQLConnection { get }

    /// The tables but those of the engine, in the order of their names.
    func tables() throws(HandlerError) -> [MovedTable]
    /// The triggers, as `table.trigger`, and views, but for those of extensions.
    func triggersAndViews() throws(HandlerError) -> [String]
    /// The statements that make tables, in their order, with their indices; nil where the database does not have them.
    ///
    /// - Parameters:
    ///   - modules: The modules of the tables, with their versions.
    ///   - withTriggers: Whether they are for SQLite, and so may have its triggers.
    func scripts(
        of tables: Set<String>, _ modules: [Name: Int], withTriggers: Bool
    ) throws(HandlerError) -> [String]?
    /// The newest id that a table has given to a row; 0 before the first, and where the database does not keep it.
    func newestID(of table: MovedTable) throws(HandlerError) -> Int64
    /// Lends the rows of a table, in the order of its primary key, or else of all columns. It is the same in all databases.
    func rows(of table: MovedTable, columns: [String]) throws(HandlerError) -> any MovedRows
    /// Why a column cannot hold a value; nil where it can.
    func refusal(of value: SQLValue, in column: MovedTable.Column) -> String?

    /// Begins the transaction that brings the store, with the lock for writing. The database may be empty, or hold anything.
    func begin() throws(HandlerError)
    /// Whether it holds a store. To be called in the transaction.
    func holdsStore() throws(HandlerError) -> Bool
    /// Makes the tables of modules.
    func make(_ schemas: [Schema]) throws(HandlerError)
    /// Makes tables of unknown modules.
    ///
    /// - Parameter ofFile: Whether the scripts are the statements of a file, each of which makes one thing.
    func make(_ scripts: [String], ofFile: Bool) throws(HandlerError)
    /// Has references between rows be checked at the end, and triggers rest until then.
    func startCopying(to tables: [MovedTable]) throws(HandlerError)
    /// Checks references between rows.
    func endCopying(to tables: [MovedTable]) throws(HandlerError)
    /// Has the rows that follow get ids that are higher than this one.
    func raiseNewestID(of table: MovedTable, to id: Int64) throws(HandlerError)
    /// Makes the row of `place` that of this database.
    func settlePlace() throws(HandlerError)
    /// Ends its use, after the commit.
    func close()
}

/// A table of a database.
package struct MovedTable: Sendable {
    package struct Column: Sendable {
        package let name: String
        /// The declared type.
        package let type: String
        package let isKey: Bool
        /// Whether the database gives the column a number of its own where none is given.
        package let isIdentity: Bool

        package init(name: String, type: String, isKey: Bool, isIdentity: Bool) {
            (self.name, self.type, self.isKey, self.isIdentity) = (name, type, isKey, isIdentity)
        }
    }

    package let name: String
    package let columns: [Column]

    package init(name: String, columns: [Column]) {
        (self.name, self.columns) = (name, columns)
    }

    package static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }

    /// The columns by which rows are ordered.
    package var order: [Column] {
        let keys = columns.filter(\.isKey)
        return keys.isEmpty ? columns : keys
    }
}

/// The rows of a table, one after the other.
package protocol MovedRows: AnyObject {
    /// The next row; nil after the last one. A value is nil where it is a text that is no UTF-8.
    func next() throws(HandlerError) -> [SQLValue?]?
}
