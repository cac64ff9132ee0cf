import Handlers

/// A database of PostgreSQL from which, or to which, a store is moved.
final class MovedServer: MovedDatabase {
    /// A sort of many rows, or the check of their references, may take long.
    private static let answerLimit = Duration.seconds(3600)

    private let server: PostgresConnection
    /// The schema into which the tables come.
    private let schema: String
    /// The references between tables that are not checked until the end.
    private var references: [(table: String, name: String, mode: String)] = []

    init(_ settings: PostgresSettings, isReader: Bool) throws(HandlerError) {
        var settings = settings
        settings.answerLimit = Self.answerLimit
        // A lost connection has rolled back, and the move is run again.
        settings.outageLimit = .zero
        server = PostgresConnection(settings, isReader: isReader)
        _ = try server.connected()
        // The other side may take long between two statements.
        try server.executeOnce("SET idle_in_transaction_session_timeout = 0")
        guard
            let schema = try server.firstOnce(
                "SELECT pg_catalog.current_schema()::text", [], { $0.optionalText(0) }) ?? nil
        else {
            throw HandlerError(
                .databaseReadOnly,
                "the role has no schema for tables in \(settings.name) (its search_path names none that there is); make one"
            )
        }
        self.schema = schema
        name = schema == "public" ? settings.name : "\(settings.name) (schema \(schema))"
    }

    /// Names the database, and tells its schemas apart.
    let name: String

    var connection: any SQLConnection { server }

    // MARK: Reading

    private static let schemaID = """
        (SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname = pg_catalog.current_schema())
        """
    private static let ownTables = ["migration_text", "node", "node_lease", "node_step", "step_lock"]

    func tables() throws(HandlerError) -> [MovedTable] {
        let found = try server.allOnce(
            """
            SELECT c.relname::text, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
                a.attidentity <> ''::"char", EXISTS (
                    SELECT 1 FROM pg_catalog.pg_index AS i
                    WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY(i.indkey))
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
            WHERE a.attnum > 0::smallint AND NOT a.attisdropped AND c.relnamespace = \(Self.schemaID)
                AND c.relkind = ANY (ARRAY['r', 'p']::"char"[])
            ORDER BY c.relname::text COLLATE "C", a.attnum
            """
        ) { row in
            (
                table: row.text(0),
                column: MovedTable.Column(
                    name: row.text(1), type: row.text(2), isKey: row.integer(4) != 0,
                    isIdentity: row.integer(3) != 0)
            )
        }
        let columns = Dictionary(grouping: found, by: \.table).mapValues { $0.map(\.column) }
        return columns.keys.sorted().filter { !Self.ownTables.contains($0) }.map {
            MovedTable(name: $0, columns: columns[$0] ?? [])
        }
    }

    func triggersAndViews() throws(HandlerError) -> [String] {
        try server.allOnce(
            """
            SELECT c.relname::text || '.'::text || t.tgname::text
            FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
            WHERE c.relnamespace = \(Self.schemaID) AND NOT t.tgisinternal
            UNION SELECT c.relname::text FROM pg_catalog.pg_class AS c
            WHERE c.relnamespace = \(Self.schemaID) AND c.relkind = ANY (ARRAY['v', 'm']::"char"[]) AND NOT EXISTS (
                SELECT 1 FROM pg_catalog.pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e'::"char")
            ORDER BY 1
            """
        ) { $0.text(0) }
    }

    func scripts(
        of tables: Set<String>, _ modules: [Name: Int], withTriggers: Bool
    ) throws(HandlerError) -> [String]? {
        try MigrationTexts.scripts(of: modules, in: server)
    }

    func newestID(of table: MovedTable) throws(HandlerError) -> Int64 {
        try server.newestID(in: MovedTable.quoted(table.name))
    }

    func rows(of table: MovedTable, columns: [String]) throws(HandlerError) -> any MovedRows {
        let order = table.order.map { column in
            // Otherwise the rules of a language order them, and SQLite has none.
            let isText = Self.texts.contains { column.type.hasPrefix($0) }
            return "\(MovedTable.quoted(column.name))\(isText ? " COLLATE \"C\"" : "") NULLS FIRST"
        }.joined(separator: ", ")
        let list = columns.map(MovedTable.quoted).joined(separator: ", ")
        return try MovedServerRows(
            "SELECT \(list) FROM \(MovedTable.quoted(table.name)) ORDER BY \(order)", server)
    }

    private static let texts = ["text", "character"]
    private static let integers = ["bigint", "integer", "smallint", "numeric", "boolean"]

    func refusal(of value: SQLValue, in column: MovedTable.Column) -> String? {
        switch value {
        case .null: return nil
        case .integer:
            if Self.integers.contains(where: column.type.hasPrefix) { return nil }
            return "is an integer, and the column has the type \(column.type)"
        case .real:
            if column.type == "double precision" { return nil }
            return "is a floating-point number, and the column has the type \(column.type)"
        case .text(let text):
            guard Self.texts.contains(where: column.type.hasPrefix) else {
                return "is a text, and the column has the type \(column.type)"
            }
            return text.utf8.contains(0) ? "has a character NUL, which no text in PostgreSQL may have" : nil
        case .blob:
            if column.type == "bytea" { return nil }
            return "is bytes, and the column has the type \(column.type)"
        }
    }

    // MARK: Writing

    /// It takes the lock of steps, so programs that open the database wait, and fail, until the store is there.
    func begin() throws(HandlerError) { try server.beginMaking() }

    func holdsStore() throws(HandlerError) -> Bool { try server.hasTable("module_schema") }

    func make(_ schemas: [Schema]) throws(HandlerError) {
        _ = try Schema.migrate([NodeTable.schema] + schemas, in: server)
        try MigrationTexts.keep([NodeTable.schema] + schemas, in: server)
    }

    func make(_ scripts: [String], ofFile: Bool) throws(HandlerError) {
        for script in scripts {
            if ofFile {
                try make(script)
            } else {
                try server.runScript(script, of: "the tables of a module")
            }
        }
        try MigrationTexts.keep(scripts, in: server)
    }

    /// Makes a table or an index of a file, which may be anybody's.
    private func make(_ text: String) throws(HandlerError) {
        guard PostgresText.makesTableOrIndex(text) else {
            throw HandlerError(
                .databaseForeign,
                "a table or an index of the store that is left is not made by one CREATE TABLE or CREATE INDEX with simple functions (\(text.prefix(200))), so it is not made here; make it in the schema of a module. Nothing was changed"
            )
        }
        server.noteWrite()
        // By itself, so that the server takes one statement and no more.
        try server.control(PostgresText.translated(text))
    }

    func startCopying(to tables: [MovedTable]) throws(HandlerError) {
        references = try server.allOnce(
            """
            SELECT c.relname::text, f.conname::text, CASE WHEN NOT f.condeferrable THEN 'NOT DEFERRABLE'::text
                WHEN f.condeferred THEN 'DEFERRABLE INITIALLY DEFERRED'::text
                ELSE 'DEFERRABLE INITIALLY IMMEDIATE'::text END
            FROM pg_catalog.pg_constraint AS f JOIN pg_catalog.pg_class AS c ON c.oid = f.conrelid
            WHERE f.contype = 'f'::"char" AND c.relnamespace = \(Self.schemaID)
            """
        ) { (table: $0.text(0), name: $0.text(1), mode: $0.text(2)) }.filter { reference in
            // Those of other programs in the schema stay as they are.
            tables.contains { $0.name == reference.table }
        }
        for reference in references { try alter(reference, "DEFERRABLE INITIALLY DEFERRED") }
        try setTriggers(of: tables, "DISABLE")
    }

    func endCopying(to tables: [MovedTable]) throws(HandlerError) {
        try server.control("SET CONSTRAINTS ALL IMMEDIATE")
        for reference in references { try alter(reference, reference.mode) }
        try setTriggers(of: tables, "ENABLE")
    }

    private func alter(_ reference: (table: String, name: String, mode: String), _ mode: String)
        throws(HandlerError)
    {
        try server.control(
            "ALTER TABLE \(MovedTable.quoted(reference.table)) ALTER CONSTRAINT \(MovedTable.quoted(reference.name)) \(mode)"
        )
    }

    private func setTriggers(of tables: [MovedTable], _ state: String) throws(HandlerError) {
        for table in tables {
            try server.control("ALTER TABLE \(MovedTable.quoted(table.name)) \(state) TRIGGER USER")
        }
    }

    func raiseNewestID(of table: MovedTable, to id: Int64) throws(HandlerError) {
        guard let column = table.columns.first(where: \.isIdentity) else { return }
        try server.executeOnce(
            "SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence(?::text, ?::text)::regclass, ?::bigint)",
            [MovedTable.quoted(table.name), column.name, id])
    }

    func settlePlace() {}
    func close() {}
}

/// The rows of a query, of which only some are in memory: results are read whole.
private final class MovedServerRows: MovedRows {
    /// The bytes that are fetched at once, about.
    private static let piece = 1 << 20
    private static let mostRows = 1000

    private let server: PostgresConnection
    private let query: String
    private var rows: [[SQLValue]] = []
    private var position = 0
    /// How many rows are fetched at once.
    private var count = 16
    private var isOver = false

    init(_ query: String, _ server: PostgresConnection) throws(HandlerError) {
        (self.query, self.server) = (query, server)
        try server.control("DECLARE moved NO SCROLL CURSOR FOR \(query)")
    }

    func next() throws(HandlerError) -> [SQLValue?]? {
        if position == rows.count {
            guard try fetch() else { return nil }
        }
        defer { position += 1 }
        return rows[position]
    }

    private func fetch() throws(HandlerError) -> Bool {
        if isOver { return false }
        let query = query
        let count = count
        let result = try server.using("reading '\(query)'") { (link) throws(PostgresError) in
            try link.send("FETCH \(count) FROM moved")
            return try link.receive()
        }
        (rows, position) = ([], 0)
        for index in 0..<(result?.rowCount ?? 0) {
            if let row = try result?.row(index, of: query) { rows.append(row) }
        }
        guard !rows.isEmpty else {
            isOver = true
            try server.control("CLOSE moved")
            return false
        }
        let size = rows.reduce(0) { $0 + $1.reduce(0) { $0 + $1.size } } / rows.count + 1
        self.count = min(max(1, Self.piece / size), Self.mostRows)
        return true
    }
}

extension SQLValue {
    /// Its bytes, about.
    fileprivate var size: Int {
        switch self {
        case .null, .integer, .real: 8
        case .text(let text): text.utf8.count
        case .blob(let bytes): bytes.count
        }
    }
}
