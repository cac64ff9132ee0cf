import Handlers

/// The texts of the migrations that made the tables of a database. SQLite keeps the text of tables by itself, PostgreSQL does not; from
/// these a move to SQLite makes tables of modules that its program does not know.
enum MigrationTexts {
    /// The migration of ``NodeTable/schema`` that makes the table.
    static let table = """
        -- The texts of the migrations of all modules, in their order. Those without module are what a move has found in SQLite.
        CREATE TABLE migration_text(
            id INTEGER PRIMARY KEY,
            module TEXT NOT NULL,
            version INTEGER NOT NULL,
            script TEXT NOT NULL,
            UNIQUE(module, version));
        """

    /// Whether there are the texts of all modules.
    static func areKept(_ schemas: [Schema], in connection: any SQLConnection) throws(HandlerError) -> Bool {
        let counts = try counts(in: connection)
        return schemas.allSatisfy { counts[$0.module] ?? 0 >= $0.migrations.count }
    }

    private static func counts(in connection: any SQLConnection) throws(HandlerError) -> [Name: Int] {
        let rows = try connection.allOnce("SELECT module, count(*) FROM migration_text GROUP BY module") {
            ($0.foreignText(0), Int($0.integer(1)))
        }
        return Dictionary(rows, uniquingKeysWith: max)
    }

    /// Keeps the texts of modules.
    static func keep(_ schemas: [Schema], in connection: any SQLConnection) throws(HandlerError) {
        for schema in schemas { try keep(schema.migrations, of: schema.module, in: connection) }
    }

    /// Keeps the texts of tables whose modules are not known.
    static func keep(_ scripts: [String], of module: Name = "", in connection: any SQLConnection)
        throws(HandlerError)
    {
        for (index, script) in scripts.enumerated() {
            try connection.executeOnce(
                "INSERT INTO migration_text(module, version, script) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [module, index + 1, script])
        }
    }

    /// The texts that make the tables of modules, in their order; nil where they were not kept.
    static func scripts(
        of modules: [Name: Int], in connection: any SQLConnection
    ) throws(HandlerError) -> [String]? {
        let counts = try counts(in: connection)
        let areAll = modules.allSatisfy { counts[$0.key] ?? 0 >= $0.value }
        guard areAll || counts[""] != nil else { return nil }
        return try connection.allOnce("SELECT module, version, script FROM migration_text ORDER BY id") {
            (module: $0.foreignText(0), version: Int($0.integer(1)), script: $0.text(2))
        }.filter { areAll ? $0.version <= modules[$0.module] ?? 0 : $0.module.isEmpty }.map(\.script)
    }
}
