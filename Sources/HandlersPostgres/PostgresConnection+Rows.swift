import Handlers

/// The ids of rows, and the tables that there are.
extension PostgresConnection {
    var lastInsertedRow: Int64 {
        get throws(HandlerError) {
            let sql = "SELECT pg_catalog.lastval()"
            return try result(of: sql, []).flatMap { (result) throws(HandlerError) in
                result.rowCount == 1 ? Row(try result.row(0, of: sql)).integer(0) : nil
            } ?? 0
        }
    }

    func newestID(in table: String) throws(HandlerError) -> Int64 {
        var newest: Int64 = 0
        let sql = """
            SELECT coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.pg_get_serial_sequence(
                ?1::text, a.attname::text)::regclass), 0::bigint)
            FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = pg_catalog.to_regclass(?1::text)::oid AND a.attidentity <> ''::"char"
            """
        try run(sql, binding: [.text(table)]) { (row) throws(HandlerError) in
            newest = row.integer(0)
            return true
        }
        return newest
    }

    func hasTable(_ name: String) throws(HandlerError) -> Bool {
        if knownTables.contains(Name(name)) { return true }
        let isThere = try findTable(name)
        // One that the open step has made may be undone; all others stay.
        if isThere, !hasWritten { knownTables.insert(Name(name)) }
        return isThere
    }

    private func findTable(_ name: String) throws(HandlerError) -> Bool {
        var isThere = false
        try run("SELECT pg_catalog.to_regclass(?::text) IS NOT NULL", binding: [.text(name)]) {
            (row) throws(HandlerError) in
            isThere = row.integer(0) != 0
            return true
        }
        return isThere
    }

    /// Asks each time: a read sees the state of the database at its first query.
    func checkIsStore() throws(HandlerError) {
        guard try findTable("module_schema") else {
            throw HandlerError(
                .databaseForeign,
                "the database \(path) holds no store; open it once with the program that it belongs to")
        }
    }

    /// Draws the id before, so that nobody waits for the INSERT.
    func insert(_ sql: String, binding values: [SQLValue]) throws(HandlerError) -> Int64 {
        guard let insert = drawnIDs.insert(sql) else {
            throw HandlerError(
                .sql, "'\(sql)' is no INSERT INTO table(columns) VALUES (…) of one row; write it so")
        }
        let id = try drawID(for: insert.table)
        try write(insert.sql, binding: values + [.integer(id)])
        return id
    }

    private func drawID(for table: String) throws(HandlerError) -> Int64 {
        if let next = drawnIDs.take(for: table) { return next }
        var ids: [Int64] = []
        try run(DrawnIDs.drawing, binding: [.text(table)]) { (row) throws(HandlerError) in
            ids.append(row.integer(0))
            return true
        }
        drawnIDs.add(ids, for: table)
        guard let next = drawnIDs.take(for: table) else {
            throw HandlerError(.sql, "the table '\(table)' has no column id that the database fills")
        }
        return next
    }
}

/// Ids of new rows that were drawn from the database ahead, many at once.
struct DrawnIDs {
    private static let atOnce = 128
    static let drawing =
        """
        SELECT pg_catalog.nextval(pg_catalog.pg_get_serial_sequence(?::text, 'id'::text)::regclass)
        FROM pg_catalog.generate_series(1, \(atOnce))
        """

    /// The next one last, by table.
    private var ids: [Name: [Int64]] = [:]
    /// The statements of ``PostgresConnection/insert(_:binding:)`` with their ids.
    private var inserts: [ForeignText: (table: String, sql: String)] = [:]

    /// The INSERT with its id; nil for another statement.
    mutating func insert(_ sql: String) -> (table: String, sql: String)? {
        guard let insert = inserts[ForeignText(sql)] ?? PostgresText.insert(sql) else { return nil }
        inserts[ForeignText(sql)] = insert
        return insert
    }

    mutating func take(for table: String) -> Int64? { ids[Name(table)]?.popLast() }

    mutating func add(_ drawn: [Int64], for table: String) { ids[Name(table)] = drawn.reversed() }

    /// Forgets what was drawn: a server that was promoted may give the same again.
    mutating func forget() { ids = [:] }
}
