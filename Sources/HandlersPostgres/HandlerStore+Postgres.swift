public import Handlers

extension HandlerStore {
    /// Opens or creates a store in a database of PostgreSQL, which several machines may have open.
    ///
    /// A machine and its disk may die: another one that has the same database open goes on. The tables are made in the schema that
    /// comes first in the role's `search_path`.
    ///
    /// ```swift
    /// let store = try HandlerStore(
    ///     postgres: "host=pg1,pg2 dbname=bots target_session_attrs=read-write", registry: .discovered())
    /// ```
    ///
    /// A step may run twice here: it runs without precautions at first, and once more when a part of it has to be undone, or when
    /// another machine has changed the same rows. What it writes is stored once. What it does in memory is done twice, so it only
    /// writes rows and returns values.
    ///
    /// - Parameters:
    ///   - settings: A connection string of libpq, or its URI.
    ///   - registry: The handlers that this program knows.
    ///   - schemas: The tables of modules and of the application, in the common text; migrated when needed.
    ///   - role: What part this process has.
    ///   - durability: When a commit counts as done.
    ///   - time: The clocks; tests pass their own.
    ///   - log: Log of the store and its handlers; nil for none.
    /// - Throws: ``/Handlers/HandlerError`` with the codes `databaseUnavailable` (also for a server that is too old or does not keep commits as
    ///   `durability` asks), `databaseReadOnly` (a standby, or missing permission), `databaseNewer`, `databaseLocked` (another
    ///   process holds the lock of steps for 5 s), `databaseMoved` or `storageFailed`. Nothing is changed, unless the connection or
    ///   the standby fails after the migration. `duplicateSchema` when two schemas are of one module; `sql` when a migration
    ///   fails, which changes nothing.
    public convenience init(
        postgres settings: String, registry: HandlerRegistry, schemas: [Schema] = [], role: Role = .main,
        durability: PostgresDurability = .onStandby, time: TimeSource = .system, log: HandlerLog? = nil
    ) throws {
        try self.init(
            PostgresSettings(settings, durability: durability), registry: registry, schemas: schemas,
            role: role, time: time, log: log)
    }

    package convenience init(
        _ settings: PostgresSettings, registry: HandlerRegistry, schemas: [Schema], role: Role,
        time: TimeSource, log: HandlerLog?
    ) throws {
        try self.init(
            PostgresDatabase(settings), registry: registry, schemas: schemas, role: role, time: time,
            log: log,
            system: SystemServices())
    }
}
