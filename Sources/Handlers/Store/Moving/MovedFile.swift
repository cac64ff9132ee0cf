import CSQLite
import Platform

/// A file of SQLite from which, or to which, a store is moved.
package final class MovedFile: MovedDatabase {
    private let file: SQLiteConnection
    private var triggers: [(name: String, sql: String)] = []

    /// Opens the file of a store for reading.
    package init(reading path: String) throws(HandlerError) {
        file = try SQLiteConnection(
            reading: FileSystem.resolved(path), busyTimeout: .seconds(5), files: SystemFiles())
    }

    /// Opens a file for writing, and creates it if it is missing.
    package init(writing path: String) throws(HandlerError) {
        file = try SQLiteConnection(
            path: path, synchronous: .full, busyTimeout: .seconds(5), files: SystemFiles())
    }

    package var connection: any SQLConnection { file }

    /// The path from the root, whether or not there is a file.
    package static func absolute(_ path: String) -> String {
        if isThere(path) { return FileSystem.resolved(path) }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        let folder = parts.dropLast().joined(separator: "/")
        let root = path.hasPrefix("/") ? "/" : "."
        return FileSystem.resolved(folder.isEmpty ? root : folder) + "/" + (parts.last ?? "")
    }

    package static func isThere(_ path: String) -> Bool { !FileSystem.isMissing(path) }

    /// Throws if the file is a copy, or may lack commits, which no program has noticed yet.
    package func checkIsOriginal() throws(HandlerError) {
        let found = try file.firstOnce("SELECT inode, boot FROM place") { row in
            (inode: row.optionalInteger(0), boot: row.optionalText(1))
        }
        let number = FileNumber.of(file.filePath)
        let isCopy = found?.inode != nil && number != nil && found?.inode != number
        let mayLackCommits = found?.boot != nil && found?.boot != ThisProcess.bootID()
        guard isCopy || mayLackCommits else { return }
        throw HandlerError(
            .databaseForeign,
            "the store \(file.path) is a copy, was put back from a backup, or may lack its last commits since the machine was started again; start its program with it once, so that this is noticed and sessions start again, or move the original. Nothing was changed"
        )
    }

    // MARK: Reading

    package func tables() throws(HandlerError) -> [MovedTable] {
        let names = try file.allOnce(
            """
            SELECT name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_schema
            WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
            """
        ) { (name: $0.text(0), isIdentity: $0.integer(1) != 0) }
        var tables: [MovedTable] = []
        for (name, isIdentity) in names {
            let columns = try file.allOnce(
                "SELECT name, type, pk <> 0 FROM pragma_table_info(?) ORDER BY cid", [name]
            ) { row in
                MovedTable.Column(
                    name: row.text(0), type: row.text(1), isKey: row.integer(2) != 0,
                    isIdentity: isIdentity && row.integer(2) != 0)
            }
            tables.append(MovedTable(name: name, columns: columns))
        }
        return tables
    }

    package func triggersAndViews() throws(HandlerError) -> [String] {
        try file.allOnce(
            """
            SELECT CASE type WHEN 'trigger' THEN tbl_name || '.' || name ELSE name END FROM sqlite_schema
            WHERE type IN ('trigger', 'view') ORDER BY 1
            """
        ) { $0.text(0) }
    }

    package func scripts(
        of tables: Set<String>, _ modules: [Name: Int], withTriggers: Bool
    ) throws(HandlerError) -> [String]? {
        let names = Set(tables.map { $0.lowercased() })
        return try file.allOnce(
            """
            SELECT tbl_name, sql FROM sqlite_schema
            WHERE sql IS NOT NULL AND type IN ('table', 'index', CASE WHEN ? THEN 'trigger' END)
            ORDER BY type <> 'table', rowid
            """, [withTriggers]
        ) { (table: $0.text(0), sql: $0.text(1)) }.filter { names.contains($0.table.lowercased()) }.map(\.sql)
    }

    package func newestID(of table: MovedTable) throws(HandlerError) -> Int64 {
        try file.newestID(in: table.name)
    }

    package func rows(of table: MovedTable, columns: [String]) throws(HandlerError) -> any MovedRows {
        let order = table.order.map { "\(MovedTable.quoted($0.name)) COLLATE BINARY" }.joined(separator: ", ")
        let list = columns.map(MovedTable.quoted).joined(separator: ", ")
        return MovedFileRows(
            try Statement(
                "SELECT \(list) FROM \(MovedTable.quoted(table.name)) ORDER BY \(order)", in: file.database,
                isPersistent: false), columns.count)
    }

    package func refusal(of value: SQLValue, in column: MovedTable.Column) -> String? {
        guard case .real(let real) = value, real.isNaN else { return nil }
        return "is not a number, which SQLite stores as NULL"
    }

    // MARK: Writing

    package func begin() throws(HandlerError) {
        // What a move has left that was killed.
        if try file.hasLog { try file.settleLog() }
        file.setLogSettled()
        try file.begin()
    }

    package func holdsStore() throws(HandlerError) -> Bool {
        guard try file.isOwn() else { return false }
        return try file.hasTable("module_schema")
    }

    package func make(_ schemas: [Schema]) throws(HandlerError) {
        try file.executeOnce("PRAGMA application_id = \(SQLiteConnection.applicationID)")
        _ = try Schema.migrate(schemas, in: file)
    }

    package func make(_ scripts: [String], ofFile: Bool) throws(HandlerError) {
        for script in scripts { try file.runScript(script, of: "the tables of a module") }
    }

    package func startCopying(to tables: [MovedTable]) throws(HandlerError) {
        // It ends with the transaction.
        try file.executeOnce("PRAGMA defer_foreign_keys = ON")
        triggers = try file.allOnce("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'") {
            (name: $0.text(0), sql: $0.text(1))
        }
        for (name, _) in triggers { try file.executeOnce("DROP TRIGGER \(MovedTable.quoted(name))") }
    }

    package func endCopying(to tables: [MovedTable]) throws(HandlerError) {
        for (name, sql) in triggers { try file.runScript(sql, of: "the trigger \(name)") }
        guard file.hasUnresolvedForeignKeys else { return }
        throw HandlerError(
            .sql,
            "rows of the store name others that it does not have (PRAGMA foreign_key_check); mend them, then move it"
        )
    }

    package func raiseNewestID(of table: MovedTable, to id: Int64) throws(HandlerError) {
        guard table.columns.contains(where: \.isIdentity) else { return }
        try file.executeOnce("DELETE FROM sqlite_sequence WHERE name = ?", [table.name])
        try file.executeOnce("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", [table.name, id])
    }

    package func settlePlace() throws(HandlerError) { try file.settle(in: FileNumber.of(file.filePath)) }

    /// Brings what was committed from the log into the file.
    package func close() { file.finishLog() }
}

private final class MovedFileRows: MovedRows {
    private let statement: Statement
    private let count: Int
    private var isOver = false

    init(_ statement: Statement, _ count: Int) {
        (self.statement, self.count) = (statement, count)
    }

    func next() throws(HandlerError) -> [SQLValue?]? {
        if isOver { return nil }
        guard try statement.step() else {
            isOver = true
            statement.reset()
            return nil
        }
        let row = statement.row
        return (0..<count).map { row.value($0) }
    }
}
