import Handlers
import Platform
import Synchronization

/// A store's place among those that have the database open, on any machine: a row of the table `node`.
///
/// A node holds a lock in the server for as long as its connection lives. Others try the lock, and take one whose lock is free for
/// dead: they delete its row, after which it cannot commit any more.
final class PostgresNodes: ProcessPresence, @unchecked Sendable {
    /// Above the ids, so that no other program's lock is meant by accident: "DHnd".
    static let lockBase: Int64 = 0x4448_6e64 << 32
    static let channel = "durable_handlers"

    static let schema = Schema(
        module: "nodes",
        migrations: [
            """
            -- The stores that have the database open, and the dead that were not recovered.
            CREATE TABLE node(
                id INTEGER PRIMARY KEY,
                started_at INTEGER NOT NULL,
                handler INTEGER,                        -- what it runs, where that is written down
                digest INTEGER);
            -- The newest step that each has committed.
            CREATE TABLE node_step(
                node INTEGER PRIMARY KEY REFERENCES node(id) ON DELETE CASCADE,
                step INTEGER NOT NULL);
            """
        ])

    let number: Int
    private let options: PostgresSettings
    let narrowedFiles: [String] = []
    let fileNumber: Int64? = nil
    private let notifications = Atomic<UInt32>(0)
    private let connection: Mutex<PostgresConnection>

    /// Registers a new node.
    init(_ options: PostgresSettings) throws(HandlerError) {
        let connection = PostgresConnection(options, isReader: false)
        let id =
            try connection.firstOnce("SELECT nextval(pg_get_serial_sequence('node', 'id'))") { $0.integer(0) }
            ?? 0
        // Locked before its row is there: others take a node without lock for dead.
        guard try Self.tryLock(id, connection) else {
            throw HandlerError(
                .databaseUnavailable,
                "another program holds the lock \(Self.lockBase | id) of \(options.name); let it use other advisory locks"
            )
        }
        try connection.executeOnce(
            "INSERT INTO node(id, started_at) VALUES (?, ?)", [id, SystemTime.wallNanoseconds() / 1_000_000])
        number = Int(id)
        self.options = options
        self.connection = Mutex(connection)
    }

    private static func tryLock(_ id: Int64, _ connection: PostgresConnection) throws(HandlerError) -> Bool {
        var isLocked = false
        try connection.run("SELECT pg_try_advisory_lock(?)", binding: [.integer(lockBase | id)]) {
            (row) throws(HandlerError) in
            isLocked = row.integer(0) != 0
            return true
        }
        return isLocked
    }

    private static func unlock(_ id: Int64, _ connection: PostgresConnection) {
        try? connection.runOnce("SELECT pg_advisory_unlock(?)", binding: [.integer(lockBase | id)]) {
            (_) throws(HandlerError) in true
        }
    }

    func record(_ runningCall: RunningCall) {}

    func clearRunningCall() {}

    func leave() {
        connection.withLock { connection in
            _ = try? connection.execute("DELETE FROM node WHERE id = ?", binding: [.integer(Int64(number))])
            Self.unlock(Int64(number), connection)
        }
    }

    func notifyOthers() {
        connection.withLock { connection in
            try? connection.runOnce(
                "SELECT pg_notify(?, ?)", binding: [.text(Self.channel), .text("\(number)")]
            ) {
                (_) throws(HandlerError) in true
            }
        }
    }

    var countOfOthers: UInt32 { notifications.load(ordering: .relaxed) }

    func recoverDead<E>(
        _ body: (_ slot: Int, _ runningCall: RunningCall?) throws(E) -> Void
    ) throws(E) {
        for (id, runningCall) in others() {
            try whileVacant(id) { () throws(E) in
                try body(Int(id), runningCall)
                connection.withLock { connection in
                    _ = try? connection.execute("DELETE FROM node WHERE id = ?", binding: [.integer(id)])
                }
            }
        }
    }

    private func others() -> [(Int64, RunningCall?)] {
        connection.withLock { connection in
            var others: [(Int64, RunningCall?)] = []
            try? connection.run(
                "SELECT id, handler, digest FROM node WHERE id <> ?", binding: [.integer(Int64(number))]
            ) { (row) throws(HandlerError) in
                let call = row.optionalInteger(1).map {
                    RunningCall(handler: $0, digest: UInt64(bitPattern: row.integer(2)))
                }
                others.append((row.integer(0), call))
                return true
            }
            return others
        }
    }

    var hasUnrecovered: Bool { false }

    func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E) {
        try whileVacant(Int64(slot), body)
    }

    private func whileVacant<E>(_ id: Int64, _ body: () throws(E) -> Void) throws(E) {
        guard connection.withLock({ (try? Self.tryLock(id, $0)) ?? false }) else { return }
        defer { connection.withLock { Self.unlock(id, $0) } }
        try body()
    }

    func isSeenOtherwise(than inode: Int64) -> Bool { false }

    func watchOthers(
        _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        try NodeWatch(options, node: number, count: { [weak self] in self?.countNotification() }, changed)
    }

    private func countNotification() { notifications.add(1, ordering: .relaxed) }
}
