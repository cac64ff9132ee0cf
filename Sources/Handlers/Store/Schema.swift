/// The tables of one module: one migration script for each version.
///
/// Opening a store runs the missing migrations in one transaction. A database with more versions than the program knows is
/// refused with ``HandlerError`` `databaseNewer`, and nothing is changed.
///
/// ```swift
/// let schema = Schema(module: "notes", migrations: ["CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)"])
/// let store = try HandlerStore(path: path, registry: registry, schemas: [schema])
/// ```
public struct Schema: Sendable {
    /// The module's name in the store; unique and never changed.
    package let module: Name
    /// SQL scripts; the one at index `n` leads from version `n` to `n + 1`. A released script never changes.
    package let migrations: [String]
    /// The module's own handlers; every store that has its tables knows them. The limit of a chain does not end them.
    package let handlers: [any DurableHandler.Type]
    /// Prepares the module's rows for a move to another database, in the store that is left, whose file has that path: removes what
    /// belongs to the place and not to the store. Refuses, by throwing, a store that is older than what others know of it.
    package var leave: (@Sendable (_ step: borrowing Step, _ filePath: String) throws -> Void)?

    /// Describes the tables of a module.
    ///
    /// - Parameters:
    ///   - module: The module's name in the store; unique and never changed.
    ///   - migrations: SQL scripts; the one at index `n` leads from version `n` to `n + 1`. Append new ones, and
    ///     never change one that was released.
    ///   - handlers: The module's handlers in plain form, so that a store with its tables knows them. The limit of a chain does
    ///     not end them; see ``Step/withChainLimit(_:_:)``.
    public init(module: String, migrations: [String], handlers: [any DurableHandler.Type] = []) {
        self.module = Name(module)
        self.migrations = migrations
        self.handlers = handlers
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
                or_else BLOB,                           -- a Durable<Invalidation>
                kind INTEGER NOT NULL,                  -- 0 once, 1 standing
                state INTEGER NOT NULL DEFAULT 0,       -- 0 pending, 1 parked, 2 quarantined, 3 leased
                bound_at INTEGER NOT NULL,
                trace INTEGER,                          -- the root of its chain; NULL when it is that itself
                scope TEXT,                             -- whose environment its context needs
                lane INTEGER NOT NULL DEFAULT 0,         -- a Lane: who may call it when it is due
                due INTEGER,                            -- when a runner calls or expires it
                live_due INTEGER,                       -- the same in the scope's live time
                period INTEGER,                         -- of a periodic timer
                attempts INTEGER NOT NULL DEFAULT 0,    -- calls that failed
                deaths INTEGER NOT NULL DEFAULT 0,      -- processes that died while it ran
                culprit INTEGER,                        -- the fingerprint of the call in which one died
                call BLOB,                              -- a StoredCall; NULL while nobody has called it
                input BLOB,                             -- the context of that call
                reason TEXT,                            -- why it was set aside
                lease INTEGER,                          -- the seat of the process that runs it
                epoch INTEGER NOT NULL DEFAULT 0);      -- raised with each lease
            CREATE INDEX handler_set_aside ON handler(state, lease) WHERE state <> 0;
            CREATE INDEX handler_due ON handler(scope, lane, due) WHERE due IS NOT NULL;
            CREATE INDEX handler_live_due ON handler(scope, live_due) WHERE live_due IS NOT NULL;
            CREATE TABLE ending(
                handler INTEGER PRIMARY KEY,
                name TEXT NOT NULL,
                outcome INTEGER NOT NULL,
                reason TEXT,
                ended_at INTEGER NOT NULL,
                trace INTEGER);
            CREATE TABLE live_clock(
                scope TEXT PRIMARY KEY,
                live INTEGER NOT NULL,                  -- milliseconds of live time
                credited INTEGER NOT NULL) WITHOUT ROWID; -- the monotonic clock when `live` was right
            CREATE TABLE live_seat(
                scope TEXT NOT NULL,
                seat INTEGER NOT NULL,                  -- of a process in which the scope lives
                PRIMARY KEY(scope, seat)) WITHOUT ROWID;
            CREATE TABLE event(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                name TEXT NOT NULL,
                scope TEXT,
                payload BLOB NOT NULL,
                posted_at INTEGER NOT NULL);
            CREATE INDEX event_name ON event(name, scope, id);
            CREATE TABLE identity(name TEXT NOT NULL);
            INSERT INTO identity(name) VALUES (lower(hex(randomblob(16))));
            """,
            """
            -- Which file this is, see `FileNumber`: one that was put back from a backup, or copied, has another. `copies` counts that.
            CREATE TABLE place(inode INTEGER, copies INTEGER NOT NULL);
            INSERT INTO place(inode, copies) VALUES (NULL, 0);
            -- The newest handler at the time when the name was given; a copy has another name for those that follow.
            ALTER TABLE identity ADD COLUMN newest INTEGER NOT NULL DEFAULT 0;
            -- What a clock that was set back may have put off for too long; see `Transaction.hasten`.
            CREATE INDEX handler_put_off ON handler(due)
                WHERE due IS NOT NULL AND period IS NULL AND state = 0 AND call IS NOT NULL
                    AND (attempts > 0 OR deaths > 0 OR input IS NOT NULL);
            """,
            """
            -- How many bytes are kept of a call of a standing handler; NULL in the rows of handlers themselves.
            ALTER TABLE handler ADD COLUMN size INTEGER;
            CREATE INDEX handler_kept ON handler(name, state, id, size) WHERE size IS NOT NULL;
            -- Quarantined calls that made way for newer ones, by the handler's name.
            CREATE TABLE dropped_call(
                name TEXT PRIMARY KEY,
                calls INTEGER NOT NULL,
                bytes INTEGER NOT NULL,
                last_at INTEGER NOT NULL) WITHOUT ROWID;
            """,
            """
            -- One word for one idea: connected time, slots of processes.
            DROP INDEX handler_live_due;
            ALTER TABLE handler RENAME COLUMN live_due TO connected_due;
            CREATE INDEX handler_connected_due ON handler(scope, connected_due) WHERE connected_due IS NOT NULL;
            ALTER TABLE live_clock RENAME TO connected_clock;
            ALTER TABLE connected_clock RENAME COLUMN live TO connected;
            ALTER TABLE live_seat RENAME TO connected_slot;
            ALTER TABLE connected_slot RENAME COLUMN seat TO slot;
            -- Handlers that wait for no call: leased, parked or quarantined. And the calls of standing handlers, with their size.
            DROP INDEX handler_set_aside;
            CREATE INDEX handler_state ON handler(state, lease) WHERE state <> 0;
            DROP INDEX handler_kept;
            CREATE INDEX handler_call_size ON handler(name, state, id, size) WHERE size IS NOT NULL;
            """,
            """
            -- The boot in which commits were made without a sync; NULL while all commits are synced. See `StoredPlace`.
            ALTER TABLE place ADD COLUMN boot TEXT;
            """,
            """
            -- `Relations`: what other tables hold of a handler. Most have none, and pay for no more than this column.
            ALTER TABLE handler ADD COLUMN relations INTEGER NOT NULL DEFAULT 0;
            -- Names that the program gives handlers; only one that has not ended has it.
            CREATE TABLE handler_key(
                key TEXT PRIMARY KEY,
                handler INTEGER NOT NULL UNIQUE) WITHOUT ROWID;
            -- Of endings: the key of the handler, and what it returned, as JSON.
            CREATE TABLE ending_detail(
                handler INTEGER PRIMARY KEY,
                key TEXT,
                result BLOB);
            CREATE INDEX ending_detail_key ON ending_detail(key, handler) WHERE key IS NOT NULL;
            -- Timers that follow a calendar; their period is 0.
            CREATE TABLE calendar(
                handler INTEGER PRIMARY KEY,
                expression TEXT NOT NULL,
                time_zone TEXT NOT NULL,
                missed INTEGER NOT NULL,                -- a MissedTimes
                is_paused INTEGER NOT NULL DEFAULT 0);
            -- Handlers that are called when others have ended, and these others.
            CREATE TABLE handler_join(
                handler INTEGER PRIMARY KEY,
                waiting INTEGER NOT NULL,               -- children that have not ended
                needed INTEGER);                        -- results for which it still waits; NULL for all endings
            CREATE TABLE join_child(
                handler INTEGER PRIMARY KEY,
                parent INTEGER NOT NULL,
                position INTEGER NOT NULL);
            CREATE UNIQUE INDEX join_child_parent ON join_child(parent, position);
            -- What workflows have done and wait for; see `Flow`.
            CREATE TABLE journal(
                handler INTEGER NOT NULL,
                position INTEGER NOT NULL,
                operation TEXT NOT NULL,
                waiter INTEGER,                         -- the handler that fills the place
                value BLOB,                             -- JSON; NULL until the place is filled
                error TEXT,                             -- instead of a value
                at INTEGER NOT NULL,
                PRIMARY KEY(handler, position)) WITHOUT ROWID;
            -- Signals that came before the handler with their key.
            CREATE TABLE early_signal(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                key TEXT NOT NULL,
                value BLOB NOT NULL,
                expires_at INTEGER NOT NULL);
            CREATE INDEX early_signal_key ON early_signal(key, id);
            CREATE INDEX early_signal_expiry ON early_signal(expires_at);
            -- Lanes with limits. The column `handler.lane` is older and another idea: a `Caller`.
            CREATE TABLE lane(
                name TEXT PRIMARY KEY,
                concurrency INTEGER,                    -- NULL for any number
                rate INTEGER,                           -- starts in each period; NULL for any number
                rate_period INTEGER,                    -- milliseconds
                running INTEGER NOT NULL,               -- entries with a place
                paid_until INTEGER NOT NULL,            -- when the token bucket is full again; see `LaneGate`
                token_waiter INTEGER,                   -- the entry with a place that waits for its token
                token_at INTEGER) WITHOUT ROWID;        -- when it has one
            -- Handlers in lanes.
            CREATE TABLE lane_entry(
                handler INTEGER PRIMARY KEY,
                lane TEXT NOT NULL,
                state INTEGER NOT NULL,                 -- a LaneState
                rank INTEGER NOT NULL,                  -- the lowest starts first
                order_key TEXT,
                position INTEGER);                      -- among those with its order key; NULL while it is not one of them
            CREATE INDEX lane_entry_state ON lane_entry(lane, state, rank, handler);
            CREATE INDEX lane_entry_order ON lane_entry(lane, order_key, position) WHERE position IS NOT NULL;
            -- Chains with a limit; each is there while it has members.
            CREATE TABLE chain_limit(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                deadline INTEGER NOT NULL,              -- by the wall clock
                duration INTEGER NOT NULL,              -- what the program said
                alarm INTEGER);                         -- the timer that ends its members; NULL while none needs one
            -- Their handlers.
            CREATE TABLE chain_member(
                handler INTEGER PRIMARY KEY,
                chain INTEGER NOT NULL,
                ends INTEGER NOT NULL);                 -- whether the limit ends it, or it only hands on the limit
            CREATE INDEX chain_member_chain ON chain_member(chain, ends, handler);
            """,
            """
            -- See `MoveMark`: the last move of the store to another database, and where it goes; NULL where it has arrived.
            ALTER TABLE place ADD COLUMN move TEXT;
            ALTER TABLE place ADD COLUMN moves_to TEXT;
            ALTER TABLE place ADD COLUMN has_moved INTEGER NOT NULL DEFAULT 0;
            """,
            """
            -- Of a parked handler: what the program lacked that parked it, see `Lack`.
            ALTER TABLE handler ADD COLUMN lacks INTEGER;
            ALTER TABLE handler ADD COLUMN lacks_name TEXT;
            ALTER TABLE handler ADD COLUMN lacks_version INTEGER;
            -- Of endings: why the handler failed, see `CallError`; NULL for one that did not fail.
            ALTER TABLE ending_detail ADD COLUMN code TEXT;
            ALTER TABLE ending_detail ADD COLUMN error TEXT;
            -- Starts of a lane at once after a pause; NULL for as many as its rate has.
            ALTER TABLE lane ADD COLUMN rate_at_once INTEGER;
            -- Shares of lanes, see `Lanes+Shares.swift`. The clock of a lane is NULL until an entry with a share waits in it.
            ALTER TABLE lane ADD COLUMN share_clock INTEGER;
            ALTER TABLE lane_entry ADD COLUMN share TEXT;
            ALTER TABLE lane_entry ADD COLUMN weight INTEGER;
            CREATE INDEX lane_entry_share ON lane_entry(lane, share, state, rank, handler) WHERE share IS NOT NULL;
            CREATE TABLE lane_share(
                lane TEXT NOT NULL,
                share TEXT NOT NULL,                    -- '' for the entries without one
                tag INTEGER NOT NULL,                   -- the lowest has its turn
                PRIMARY KEY(lane, share)) WITHOUT ROWID;
            CREATE INDEX lane_share_tag ON lane_share(lane, tag, share);
            -- When a process died last while it ran the handler; see `RetryPolicy.deathWindow`.
            ALTER TABLE handler ADD COLUMN died_at INTEGER;
            -- What async handlers have saved of their progress; see `AsyncCall.save`.
            CREATE TABLE handler_progress(
                handler INTEGER PRIMARY KEY,
                value BLOB NOT NULL,                    -- JSON
                note TEXT,                              -- for people
                at INTEGER NOT NULL);
            -- The number of a result in the order in which they came to the workflow; 0 for a wait that the workflow canceled. See `FlowRun`.
            ALTER TABLE journal ADD COLUMN delivery INTEGER;
            CREATE INDEX journal_delivery ON journal(handler, delivery) WHERE delivery IS NOT NULL;
            CREATE INDEX journal_waiter ON journal(waiter) WHERE value IS NULL AND error IS NULL;
            -- When the process that runs the handler leased it.
            ALTER TABLE handler ADD COLUMN leased_at INTEGER;
            -- The last failures of handlers; see `Failures`.
            CREATE TABLE handler_failure(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                handler INTEGER NOT NULL,
                attempt INTEGER NOT NULL,
                at INTEGER NOT NULL,
                run INTEGER,                            -- milliseconds; NULL for a call in a step
                slot INTEGER NOT NULL,                  -- of the process that ran it
                error TEXT NOT NULL);
            CREATE INDEX handler_failure_handler ON handler_failure(handler, id);
            -- Changes by hand; see `RepairRecord`.
            CREATE TABLE handler_repair(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                at INTEGER NOT NULL,
                author TEXT NOT NULL,
                way TEXT NOT NULL,                      -- a RepairAuthor.Way
                reason TEXT,
                action TEXT NOT NULL,
                handler INTEGER,                        -- NULL for a lane
                name TEXT NOT NULL,                     -- of the handler or lane, or the key of a signal
                state INTEGER);                         -- of the handler before the change
            CREATE INDEX handler_repair_handler ON handler_repair(handler, id) WHERE handler IS NOT NULL;
            -- Statistics by name; see `ActivityTable`.
            CREATE TABLE handler_activity(
                start INTEGER NOT NULL,                 -- of ten minutes; 0 for all time
                name TEXT NOT NULL,
                bound INTEGER NOT NULL,
                results INTEGER NOT NULL,               -- handlers that ended, by their outcome
                errors INTEGER NOT NULL,
                timeouts INTEGER NOT NULL,
                invalidated INTEGER NOT NULL,
                retried INTEGER NOT NULL,               -- calls that failed, by what followed
                parked INTEGER NOT NULL,
                quarantined INTEGER NOT NULL,
                failed INTEGER NOT NULL,
                waits BLOB NOT NULL,                    -- Durations
                runs BLOB NOT NULL,
                PRIMARY KEY(start, name)) WITHOUT ROWID;
            ALTER TABLE lane ADD COLUMN is_paused INTEGER NOT NULL DEFAULT 0;
            -- Handlers end in another order than that in which they were bound.
            CREATE INDEX ending_ended_at ON ending(ended_at, handler);
            """,
        ])

    /// Refuses two schemas of one module, and one whose name is too long.
    package static func checkModules(of schemas: [Schema]) throws(HandlerError) {
        var modules: Set<Name> = []
        for schema in schemas { try NameBounds.check(schema.module.string, of: "a module") }
        for schema in schemas where !modules.insert(schema.module).inserted {
            throw HandlerError(
                .duplicateSchema,
                "two schemas are of the module '\(schema.module)', and each would take the other's tables for its own; name them apart"
            )
        }
    }

    /// Whether all tables have their newest version.
    package static func areCurrent(
        _ schemas: [Schema], in connection: any SQLConnection
    ) throws(HandlerError) -> Bool {
        guard try connection.hasTable("module_schema") else { return false }
        var areCurrent = true
        // All are read, so that a newer one is refused before anything waits for the write lock.
        for schema in schemas where try schema.version(in: connection) < schema.migrations.count {
            areCurrent = false
        }
        return areCurrent
    }

    /// Brings the tables of modules to their newest versions, inside the caller's transaction.
    ///
    /// - Returns: Says of each module from which version to which it was brought.
    package static func migrate(
        _ schemas: [Schema], in connection: any SQLConnection
    ) throws(HandlerError) -> [String] {
        try connection.runScript(
            "CREATE TABLE IF NOT EXISTS module_schema(module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
            of: "the table of versions")
        var migrated: [String] = []
        for schema in schemas {
            let found = try schema.migrate(connection)
            guard found < schema.migrations.count else { continue }
            migrated.append("'\(schema.module)' from \(found) to \(schema.migrations.count)")
        }
        return migrated
    }

    /// Brings this module's tables to the newest version, inside the caller's transaction.
    ///
    /// - Returns: The version that the tables had.
    private func migrate(_ connection: any SQLConnection) throws(HandlerError) -> Int {
        let found = try version(in: connection)
        guard found < migrations.count else { return found }
        for index in found..<migrations.count {
            let place = "migration \(index + 1) of module '\(module)'"
            try connection.runScript(migrations[index], of: place)
        }
        try connection.executeOnce(
            "INSERT INTO module_schema(module, version) VALUES (?, ?) ON CONFLICT(module) DO UPDATE SET version = excluded.version",
            [module, migrations.count])
        return found
    }

    /// The version of this module's tables; 0 when there are none.
    ///
    /// - Throws: ``HandlerError`` with code `databaseNewer` when this program does not know that version, `databaseCorrupt` for
    ///   one that cannot be.
    func version(in connection: any SQLConnection) throws(HandlerError) -> Int {
        let found =
            try connection.firstOnce("SELECT version FROM module_schema WHERE module = ?", [module]) {
                Int($0.integer(0))
            } ?? 0
        guard found >= 0 else {
            throw HandlerError(
                .databaseCorrupt,
                "the database \(connection.path) says that the tables of module '\(module)' have version \(found), which there is not; put a backup back"
            )
        }
        guard found <= migrations.count else {
            throw HandlerError(
                .databaseNewer,
                "the database \(connection.path) was written by a newer version of this program (module '\(module)' has version \(found), this program knows \(migrations.count)); update the program, nothing was changed"
            )
        }
        return found
    }
}
