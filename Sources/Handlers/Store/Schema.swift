/// The tables of one module and how they came to be: one script for each version.
///
/// ```swift
/// let schema = Schema(module: "notes", migrations: ["CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)"])
/// let store = try HandlerStore(path: path, registry: registry, schemas: [schema])
/// ```
public struct Schema: Sendable {
    /// The module's name in the store; unique and never changed.
    public let module: String
    /// SQL scripts; the one at index `n` leads from version `n` to `n + 1`. A released script never changes.
    public let migrations: [String]

    public init(module: String, migrations: [String]) {
        self.module = module
        self.migrations = migrations
    }

    /// The runtime's own tables.
    static let handlers = Schema(
        module: "handlers",
        migrations: [
            """
            CREATE TABLE handler(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                name TEXT NOT NULL,
                version INTEGER NOT NULL,
                arguments BLOB NOT NULL,
                or_else BLOB,
                kind INTEGER NOT NULL,
                state INTEGER NOT NULL DEFAULT 0,
                attempts INTEGER NOT NULL DEFAULT 0,
                reason TEXT,
                input BLOB,
                bound_at INTEGER NOT NULL);
            CREATE INDEX handler_set_aside ON handler(state) WHERE state <> 0;
            CREATE TABLE ending(
                handler INTEGER PRIMARY KEY,
                name TEXT NOT NULL,
                outcome INTEGER NOT NULL,
                reason TEXT,
                ended_at INTEGER NOT NULL);
            """
        ])

    /// Brings this module's tables to the newest version, inside the caller's transaction.
    func migrate(_ connection: Connection) throws(HandlerError) {
        let found = try version(in: connection)
        guard found < migrations.count else { return }
        for index in found..<migrations.count {
            let place = "migration \(index + 1) of module '\(module)'"
            try connection.executeScript(migrations[index], of: place)
        }
        try connection.executeOnce(
            "INSERT INTO module_schema(module, version) VALUES (?, ?) ON CONFLICT(module) DO UPDATE SET version = excluded.version",
            [module, migrations.count])
    }

    /// The version of this module's tables; 0 when there are none.
    ///
    /// - Throws: ``HandlerError`` with code `databaseNewer` when this program does not know that version.
    func version(in connection: Connection) throws(HandlerError) -> Int {
        let found =
            try connection.firstOnce("SELECT version FROM module_schema WHERE module = ?", [module]) {
                (row) throws(HandlerError) in Int(row.integer(0))
            } ?? 0
        guard found <= migrations.count else {
            throw HandlerError(
                .databaseNewer,
                "the database \(connection.path) was written by a newer version of this program (module '\(module)' has version \(found), this program knows \(migrations.count)); update the program, nothing was changed"
            )
        }
        return found
    }
}
