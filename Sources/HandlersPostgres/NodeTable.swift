import Handlers

/// The stores that have a database open, as rows that all of them see, over one connection.
///
/// ```text
///   registered ──▶ renewed each second ──▶ removed
///                     │ no lock, or not renewed for 3 s
///                     ▼
///                   marked as dead ──▶ its connection ended ──▶ fenced ──▶ recovered ──▶ removed
/// ```
///
/// A node that notices a death does the next of these steps; each may be done twice. From the fence on, no step of the dead node can
/// commit, should it live behind a cut line: it goes on as a new node.
struct NodeTable {
    /// The time after which a node that was not renewed is dead, in milliseconds of the server's clock.
    private static let lease = 3000
    static let channel = "durable_handlers"

    static let schema = Schema(
        module: "nodes",
        migrations: [
            """
            -- The stores that have the database open, and the dead that were not recovered.
            CREATE TABLE node(
                id INTEGER PRIMARY KEY,
                is_sharing INTEGER NOT NULL,            -- whether it takes its part of what is shared
                handler INTEGER,                        -- what it runs, where that is stored
                digest INTEGER);
            -- Those of them whose steps may commit.
            CREATE TABLE node_lease(
                node INTEGER PRIMARY KEY REFERENCES node(id) ON DELETE CASCADE,
                until INTEGER NOT NULL,                 -- by the server's clock
                server INTEGER,                         -- when that server was started on which it holds its lock
                is_dead INTEGER NOT NULL DEFAULT 0);
            -- The newest step that each has committed. It outlives the node, for who comes back and asks for a commit in doubt.
            CREATE TABLE node_step(
                node INTEGER PRIMARY KEY,
                step INTEGER NOT NULL,
                lease INTEGER NOT NULL,                 -- NULL, which is refused, from the fence on
                ended_at INTEGER);
            """,
            MigrationTexts.table,
        ])

    // The text of the statements is that of PostgreSQL alone.
    static let clock = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    /// When the server was started.
    static let server = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
    /// The lock that a node holds as long as it has its connection: others see at once that a process has ended.
    private static func lock(_ node: String) -> String {
        "\(lockClass(of: "current_schema()")), (\(node))::int"
    }
    /// The first half of the number of that lock; the second is the node's.
    static func lockClass(of schema: String) -> String { "hashtext('durable-handlers node ' || \(schema))" }
    /// The lock of the node that recovers another one.
    private static let recovery = "hashtext('durable-handlers recovery ' || current_schema()), ?::bigint::int"

    /// Stores the number of a step in its transaction, and is refused when the node was fenced.
    static let storeStep = """
        INSERT INTO node_step(node, step, lease)
        VALUES (?1, ?2, (SELECT node FROM node_lease WHERE node = ?1 FOR KEY SHARE))
        ON CONFLICT(node) DO UPDATE SET step = excluded.step, lease = excluded.lease
        """
    /// The same for a step of which it is not known here whether it has written anything; if not, there is nothing to store.
    static let storeStepIfWritten = """
        INSERT INTO node_step(node, step, lease)
        SELECT ?1::bigint, ?2::bigint, (SELECT node FROM node_lease WHERE node = ?1::bigint FOR KEY SHARE)
        WHERE pg_current_xact_id_if_assigned() IS NOT NULL
        ON CONFLICT(node) DO UPDATE SET step = excluded.step, lease = excluded.lease
        """

    /// The name of the connection of a node's steps, by which others find it to end it.
    static func connectionName(of node: some BinaryInteger) -> String {
        "'durable-handlers node \(node) in ' || (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    }

    /// Ends the connection of a node's steps, and says whether it has ended.
    static func endingConnection(of node: some BinaryInteger) -> String {
        """
        SELECT coalesce(bool_and(pg_terminate_backend(pid, 500)), TRUE) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND application_name = \(connectionName(of: node))
        """
    }

    private let connection: PostgresConnection
    /// The node whose lock it holds; nil for none.
    private var lockedNode: Int?
    /// Since when the server has been seen at work without a gap: nobody could renew anything while it was away.
    private var steadySince: ContinuousClock.Instant
    /// The nodes whose lock was free at the last look.
    private(set) var suspects: Set<Int64> = []
    /// When there were other nodes at a look for the last time, also dead ones: what they have committed may not be on the standby.
    private var othersSeen: ContinuousClock.Instant?
    private var hasLooked = false
    /// When the node was registered.
    private var registeredAt = ContinuousClock.now

    /// Connects.
    ///
    /// - Parameter isReconnection: Whether there was a connection: the others may have lost theirs, too, and take as long as a connection
    ///   may take.
    init(_ options: PostgresSettings, isReconnection: Bool) throws(HandlerError) {
        steadySince = .now + (isReconnection ? PostgresSettings.connectLimit : .zero)
        var options = options
        // A caller that waits for the database looks at other things meanwhile.
        options.outageLimit = .zero
        connection = PostgresConnection(options, isReader: false)
        // What is lost with a server is found again: a fence comes before the commit of what it protects.
        try connection.executeOnce("SET synchronous_commit = off")
        try connection.executeOnce("LISTEN \(Self.channel)")
    }

    // MARK: The own node

    /// Registers a new node.
    ///
    /// - Returns: Its number, which no other one has had.
    mutating func register(isSharing: Bool) throws(HandlerError) -> Int {
        if let lockedNode {
            _ = try connection.firstOnce("SELECT pg_advisory_unlock(\(Self.lock("?::bigint")))", [lockedNode])
            { _ in }
        }
        lockedNode = nil
        // Its number must not be given again by a standby that is promoted.
        try connection.executeOnce("SET synchronous_commit = on")
        let id = try connection.firstOnce(
            """
            WITH new AS (INSERT INTO node(is_sharing) VALUES (?) RETURNING id),
                step AS (INSERT INTO node_step(node, step, lease) SELECT id, 0, id FROM new),
                old AS (DELETE FROM node_step WHERE ended_at < \(Self.clock) - 86400000)
            INSERT INTO node_lease(node, until) SELECT id, \(Self.clock) + \(Self.lease) FROM new RETURNING node
            """, [isSharing ? 1 : 0]
        ) { $0.integer(0) }
        try connection.executeOnce("SET synchronous_commit = off")
        guard let id else { throw HandlerError(.databaseCorrupt, "the database gives nodes no number") }
        registeredAt = .now
        try lock(Int(id))
        return Int(id)
    }

    /// Takes the lock of the node, if it has none and nobody else holds it, such as its earlier connection.
    mutating func lock(_ node: Int) throws(HandlerError) {
        if lockedNode == node { return }
        let isLocked = try connection.firstOnce(
            "SELECT pg_try_advisory_lock(\(Self.lock("?::bigint")))", [node]
        ) { $0.integer(0) != 0 }
        guard isLocked == true else {
            // Until then a free lock says nothing.
            return try connection.executeOnce("UPDATE node_lease SET server = NULL WHERE node = ?", [node])
        }
        lockedNode = node
        try connection.executeOnce("UPDATE node_lease SET server = \(Self.server) WHERE node = ?", [node])
    }

    /// Whether there are other nodes, or were shortly before.
    var hasOthers: Bool {
        guard hasLooked else { return true }
        return othersSeen.map { ContinuousClock.now < $0 + .milliseconds(Self.lease) } ?? false
    }

    /// Whether the node is registered for so long that the others have seen it.
    var isKnown: Bool { ContinuousClock.now >= registeredAt + .milliseconds(Self.lease) }

    /// Renews the lease of the node.
    ///
    /// - Returns: False when others have taken it for dead.
    mutating func renew(_ node: Int) throws(HandlerError) -> Bool {
        let isLate = try connection.firstOnce(
            """
            UPDATE node_lease SET until = \(Self.clock) + \(Self.lease)
            FROM (SELECT until FROM node_lease WHERE node = ?1) AS old
            WHERE node = ?1 AND is_dead = 0 RETURNING old.until < \(Self.clock)
            """, [node]
        ) { $0.integer(0) != 0 }
        guard let isLate else { return false }
        if isLate { steadySince = .now }
        return true
    }

    func remove(_ node: Int) throws(HandlerError) {
        try connection.executeOnce(
            """
            WITH step AS (DELETE FROM node_step WHERE node = ?1) DELETE FROM node WHERE id = ?1
            """, [node])
    }

    // MARK: The others

    /// The time for which nodes store what they run after one has died, in milliseconds.
    private static let caution = 60_000

    /// Whether a node has died a short time ago, or is dead and not recovered.
    func hasRecentDeath() throws(HandlerError) -> Bool {
        try connection.firstOnce(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM node_step WHERE ended_at > \(Self.clock) - \(Self.caution))
                OR EXISTS (
                    SELECT 1 FROM node LEFT JOIN node_lease ON node_lease.node = node.id
                    WHERE coalesce(node_lease.is_dead, 1) = 1)
            """
        ) { _ in true } ?? false
    }

    func share(_ isSharing: Bool, _ node: Int) throws(HandlerError) {
        try connection.executeOnce("UPDATE node SET is_sharing = ? WHERE id = ?", [isSharing ? 1 : 0, node])
    }

    func sharingNodes() throws(HandlerError) -> [Int] {
        try connection.allOnce(
            """
            SELECT id FROM node JOIN node_lease ON node_lease.node = node.id WHERE is_sharing = 1 AND is_dead = 0 ORDER BY id
            """
        ) { Int($0.integer(0)) }
    }

    func isAlive(_ node: Int) throws(HandlerError) -> Bool {
        try connection.firstOnce("SELECT 1 FROM node_lease WHERE node = ?", [node]) { _ in true } ?? false
    }

    /// Marks those that have died, then ends and fences those that are marked.
    ///
    /// - Parameter node: The own node.
    /// - Returns: Whether a node waits to be recovered.
    mutating func bury(besides node: Int) throws(HandlerError) -> Bool {
        // The lease counts only while everybody could have renewed it.
        let isSteady = ContinuousClock.now >= steadySince + .milliseconds(Self.lease)
        let lock = Self.lock("node")
        // No AND of both: where the server is NULL it would take the lock, and not give it back.
        let found = try connection.allOnce(
            """
            SELECT node, ?2 = 1 AND until < \(Self.clock) AND EXISTS (
                    SELECT 1 FROM node_lease AS mine WHERE mine.node = ?1 AND mine.until >= \(Self.clock)),
                CASE WHEN server IS DISTINCT FROM \(Self.server) THEN FALSE
                    WHEN pg_try_advisory_lock_shared(\(lock)) THEN pg_advisory_unlock_shared(\(lock))
                    ELSE FALSE END
            FROM node_lease WHERE node <> ?1 AND is_dead = 0
            """, [node, isSteady ? 1 : 0]
        ) { (node: $0.integer(0), isOver: $0.integer(1) != 0, isFree: $0.integer(2) != 0) }
        for other in found {
            // Free at two looks: a node that has lost its connection alone takes the lock again between them. Where all
            // have lost theirs, this one among them, they get more time.
            let isFree = other.isFree && suspects.contains(other.node) && ContinuousClock.now >= steadySince
            guard other.isOver || isFree else { continue }
            try connection.executeOnce(
                "UPDATE node_lease SET is_dead = 1 WHERE node = ?1 AND (?2 = 1 OR until < \(Self.clock))",
                [other.node, isFree ? 1 : 0])
        }
        suspects = Set(found.filter(\.isFree).map(\.node))
        let others = try connection.allOnce(
            """
            SELECT node.id, node_lease.node IS NULL FROM node LEFT JOIN node_lease ON node_lease.node = node.id
            WHERE node.id <> ? AND coalesce(node_lease.is_dead, 1) = 1
            """, [node]
        ) { (id: $0.integer(0), isFenced: $0.integer(1) != 0) }
        hasLooked = true
        if !found.isEmpty || !others.isEmpty { othersSeen = .now }
        var isAnyFenced = false
        for other in others {
            let isFenced = other.isFenced ? true : try fence(other.id)
            if isFenced { isAnyFenced = true }
        }
        return isAnyFenced
    }

    /// Ends the connection of a dead node's steps, which may hold locks for which all wait, and fences the node.
    ///
    /// - Returns: False when the connection does not end.
    private func fence(_ node: Int64) throws(HandlerError) -> Bool {
        let isEnded = try connection.firstOnce(Self.endingConnection(of: node)) { $0.integer(0) != 0 }
        guard isEnded == true else { return false }
        try connection.executeOnce("DELETE FROM node_lease WHERE node = ? AND is_dead = 1", [node])
        return true
    }

    /// The fenced nodes, with what they ran.
    func fenced() throws(HandlerError) -> [(node: Int64, runningCall: RunningCall?)] {
        try connection.allOnce(
            """
            SELECT id, handler, digest FROM node
            WHERE NOT EXISTS (SELECT 1 FROM node_lease WHERE node_lease.node = node.id)
            """
        ) { (row) throws(HandlerError) -> (node: Int64, runningCall: RunningCall?) in
            var call: RunningCall?
            if let handler = row.optionalInteger(1) {
                call = RunningCall(handler: handler, digest: UInt64(bitPattern: row.integer(2)))
            }
            return (row.integer(0), call)
        }
    }

    /// Returns whether this one is to recover a node, and nobody else until ``endRecovery(of:)``.
    func startRecovery(of node: Int64) throws(HandlerError) -> Bool {
        let isLocked = try connection.firstOnce("SELECT pg_try_advisory_lock(\(Self.recovery))", [node]) {
            $0.integer(0) != 0
        }
        guard isLocked == true else { return false }
        // Another one may have done it before the lock was free.
        let isThere = try connection.firstOnce("SELECT 1 FROM node WHERE id = ?", [node]) { _ in true }
        if isThere != true { try endRecovery(of: node) }
        return isThere == true
    }

    func endRecovery(of node: Int64) throws(HandlerError) {
        try connection.executeOnce("SELECT pg_advisory_unlock(\(Self.recovery))", [node])
    }

    /// Removes a node that was recovered.
    func removeRecovered(_ node: Int64) throws(HandlerError) {
        try connection.executeOnce(
            """
            WITH step AS (UPDATE node_step SET ended_at = \(Self.clock) WHERE node = ?1) DELETE FROM node WHERE id = ?1
            """, [node])
    }

    // MARK: Notifications

    /// Notifies the others, in a transaction of its own: in that of a step it would have all commits of the server wait for each
    /// other.
    func notify(from node: Int) throws(HandlerError) {
        try connection.executeOnce("SELECT pg_notify(?, ?)", [Self.channel, String(node)])
    }

    /// The number of notifications of others that have come.
    func notifications(besides node: Int) throws(HandlerError) -> Int {
        try connection.takeNotifications().count { $0 != "\(node)" }
    }

    /// The descriptor of its socket, which can be read when a notification comes.
    var descriptor: Int32 { connection.descriptor }
}
