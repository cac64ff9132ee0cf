import CSQLite
import CWorld
import Platform

/// Reads the database of a world from a separate process that uses only SQLite.
///
/// No other process sees its locks or its index of the log. So the last process to close the database still checkpoints, and the
/// first process after a kill still recovers.
final class Observer {
    private let disk: SimulatedDisk
    private let files: SQLiteFileSystem
    private var process: SimulatedDisk.Process
    private var database: OpaquePointer?
    private var statements: [String: OpaquePointer] = [:]
    private var version: Int64 = -1
    /// The disk's activity at the last complete look.
    private var lookedAt = -1
    /// Numbers and lists that were read since the last activity of the disk.
    private var numbers: [String: Int] = [:]
    private var lastLists: String?
    private var numbersAt = -1
    /// The ids of the handlers that end entries of `world_bound`.
    var endingHandlers = WorldApp.endingHandlers
    /// SQL that counts the waiting entries of `world_bound` outside the table of handlers.
    var countOfWaiting = "0"

    init(_ files: SQLiteFileSystem) {
        self.files = files
        disk = files.disk
        process = disk.startObserver()
    }

    deinit { close() }

    /// Closes the connection without an effect on the disk. Normally SQLite would copy the log into the database and sync both.
    func close() {
        disk.kill(process)
        outside {
            for statement in statements.values { sqlite3_finalize(statement) }
            statements = [:]
            if let database { sqlite3_close_v2(database) }
            database = nil
            version = -1
        }
        process = disk.startObserver()
    }

    /// Whether a process has the database open.
    var isUsed: Bool {
        disk.handles.contains { $0.path == SimulatedWorld.path && !$0.process.isObserver }
    }

    /// Reads with a connection that sees the same as a process that opens the database now.
    ///
    /// - Returns: Nil while the database cannot be opened.
    private func reading<R>(_ body: () -> R?) -> R? {
        // A power loss has killed it.
        if process.isDead { close() }
        do throws(Errno) {
            for handle in disk.handles where handle.process === process { try handle.renewMemory() }
        } catch {
            close()
        }
        return outside { open() ? body() : nil }
    }

    /// Runs as the observer, without any faults.
    private func outside<R>(_ body: () -> R) -> R {
        let (before, hook) = (disk.current, disk.onCall)
        let allocations = dh_fail_allocation(0)
        (disk.current, disk.onCall) = (process, nil)
        defer {
            (disk.current, disk.onCall) = (before, hook)
            _ = dh_fail_allocation(allocations)
        }
        return body()
    }

    private func open() -> Bool {
        if database != nil { return true }
        guard disk.contains(SimulatedWorld.path) else { return false }
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(SimulatedWorld.path, &database, flags, files.virtualFileSystem) == SQLITE_OK
        else {
            sqlite3_close_v2(database)
            database = nil
            return false
        }
        // The observer must not checkpoint: only the processes do.
        sqlite3_wal_autocheckpoint(database, 0)
        var persists: Int32 = 1
        sqlite3_file_control(database, "main", SQLITE_FCNTL_PERSIST_WAL, &persists)
        return true
    }

    private func rows(_ sql: String, _ mark: Int = 0, _ body: (OpaquePointer) -> Void) -> Bool {
        var statement = statements[sql]
        if statement == nil {
            guard sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK else { return false }
            statements[sql] = statement
        }
        guard let statement else { return false }
        defer { sqlite3_reset(statement) }
        if sqlite3_bind_parameter_count(statement) > 0 { sqlite3_bind_int64(statement, 1, Int64(mark)) }
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: body(statement)
            case SQLITE_DONE: return true
            default: return false
            }
        }
    }

    private func text(_ row: OpaquePointer, _ column: Int32) -> String {
        sqlite3_column_text(row, column).map { String(cString: $0) } ?? ""
    }

    /// Reads the rows that were committed since the last look.
    ///
    /// - Returns: Nil if there are none, or the database cannot be read at the moment.
    func look(after marks: WorldModel.Marks) -> WorldModel.Look? {
        if disk.activity == lookedAt { return nil }
        var isComplete = false
        defer { if isComplete { lookedAt = disk.activity } }
        return reading {
            var current: Int64 = -2
            guard rows("PRAGMA data_version", 0, { current = sqlite3_column_int64($0, 0) }) else {
                return nil
            }
            isComplete = current == version
            if isComplete { return nil }
            var look = WorldModel.Look()
            let ending = endingHandlers.map { "'\($0)'" }.joined(separator: ", ")
            guard rows("BEGIN", 0, { _ in }) else { return nil }
            defer { _ = rows("COMMIT", 0) { _ in } }
            let isRead =
                rows("SELECT n, kind, stanza, process FROM world_bound WHERE n > ?1 ORDER BY n", marks.bound)
            { row in
                let stanza = sqlite3_column_type(row, 2) == SQLITE_NULL ? nil : self.text(row, 2)
                look.bound.append(
                    (Int(sqlite3_column_int64(row, 0)), text(row, 1), stanza, text(row, 3)))
            }
                && rows(
                    "SELECT row, n, outcome, process FROM world_ended WHERE row > ?1 ORDER BY row",
                    marks.ended,
                    { row in
                        look.ended.append(
                            (
                                Int(sqlite3_column_int64(row, 0)), Int(sqlite3_column_int64(row, 1)),
                                text(row, 2),
                                text(row, 3)
                            ))
                    })
                && rows(
                    "SELECT row, stanza, process FROM world_received WHERE row > ?1 ORDER BY row",
                    marks.received,
                    { row in
                        look.received.append((Int(sqlite3_column_int64(row, 0)), text(row, 1), text(row, 2)))
                    })
                && rows(
                    // The entry of a workflow ends before the workflow itself.
                    """
                    SELECT count(*) + (\(countOfWaiting)) - (SELECT count(*) FROM journal
                        WHERE operation = 'step \(WorldApp.Errand.end)' AND value IS NOT NULL)
                    FROM handler WHERE name IN (\(ending))
                    """, 0,
                    { look.waiting = Int(sqlite3_column_int64($0, 0)) })
                && rows(
                    """
                    SELECT (SELECT count(*) FROM request WHERE session < session.number)
                        + (SELECT count(*) FROM outbox WHERE session < session.number) FROM session
                    """, 0, { look.ofLostSessions = Int(sqlite3_column_int64($0, 0)) })
                && rows("SELECT epoch FROM ownership", 0, { look.epoch = Int(sqlite3_column_int64($0, 0)) })
                && rows("SELECT copies FROM place", 0, { look.copies = Int(sqlite3_column_int64($0, 0)) })
            guard isRead else { return nil }
            version = current
            isComplete = true
            return look
        }
    }

    /// The newest row of each table; zeros while there are none.
    func marks() -> WorldModel.Marks {
        func last(_ table: String) -> Int { number("SELECT max(rowid) FROM \(table)") ?? 0 }
        return WorldModel.Marks(
            bound: last("world_bound"), ended: last("world_ended"), received: last("world_received"))
    }

    /// All rows of the application; nil while they cannot be read.
    func stored() -> WorldModel.Stored? {
        reading {
            var stored = WorldModel.Stored()
            let isRead =
                rows("SELECT n, kind, stanza, process FROM world_bound") { row in
                    stored.bound[Int(sqlite3_column_int64(row, 0))] = .init(
                        kind: text(row, 1), stanza: text(row, 2), process: text(row, 3))
                }
                && rows("SELECT n FROM world_ended ORDER BY row") {
                    stored.ended.append(Int(sqlite3_column_int64($0, 0)))
                }
                && rows("SELECT stanza FROM world_received ORDER BY row") {
                    stored.received.append(WorldModel.id(text($0, 0)))
                }
            return isRead ? stored : nil
        }
    }

    /// The result lines of `PRAGMA integrity_check`; nil while the database cannot be read.
    func integrity() -> [String]? {
        reading {
            var sentences: [String] = []
            // Reads from the disk, not from SQLite's cache.
            sqlite3_db_release_memory(database)
            return rows("PRAGMA integrity_check", 0) { sentences.append(text($0, 0)) } ? sentences : nil
        }
    }

    /// The roster and the block list of the account, in the form of ``WorldLists/text``.
    func lists() -> String {
        if numbersAt == disk.activity, let lastLists { return lastLists }
        let lists: String? = reading {
            var items: [String] = []
            _ = rows("SELECT jid || '=' || coalesce(name, '') FROM roster_item ORDER BY jid") {
                items.append(text($0, 0))
            }
            _ = rows("SELECT jid FROM blocked ORDER BY jid") { items.append(text($0, 0)) }
            return items.joined(separator: " ")
        }
        forgetOld()
        lastLists = lists
        return lists ?? ""
    }

    /// All rows; nil while they cannot be read.
    func contents() -> Contents? {
        guard let integrity = integrity() else { return nil }
        return reading {
            var contents = Contents(isWhole: integrity == ["ok"])
            var names = [Contents.schema]
            let hasNames = rows("SELECT name FROM sqlite_schema WHERE type = 'table'") {
                names.append(text($0, 0))
            }
            guard hasNames else { return nil }
            for name in names {
                // A flipped bit may have put a quote into the name.
                let quoted = name.replacing("\"", with: "\"\"")
                let isRead = rows("SELECT * FROM \"\(quoted)\"") { row in
                    contents.tables[name, default: []].append(
                        (0..<sqlite3_column_count(row)).map { text(row, $0) })
                }
                if !isRead { return nil }
            }
            return contents
        }
    }

    /// The number of rows of each table.
    func counts() -> [(table: String, rows: Int)] {
        reading {
            var tables: [String] = []
            _ = rows(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
            ) {
                tables.append(text($0, 0))
            }
            return tables.map { table in
                var count = 0
                _ = rows("SELECT count(*) FROM \(table)") { count = Int(sqlite3_column_int64($0, 0)) }
                return (table, count)
            }
        } ?? []
    }

    /// A number from the database.
    func number(_ sql: String) -> Int? {
        if numbersAt == disk.activity, let number = numbers[sql] { return number }
        let number: Int? = reading {
            var number: Int?
            _ = rows(sql, 0) { number = Int(sqlite3_column_int64($0, 0)) }
            return number
        }
        forgetOld()
        if let number { numbers[sql] = number }
        return number
    }

    private func forgetOld() {
        if numbersAt != disk.activity { (numbers, lastLists, numbersAt) = ([:], nil, disk.activity) }
    }
}
