import Handlers

/// The stores that have a database open, as rows that all of them see, over one connection.
///
/// ```text
///   registered ──▶ renewed each second ──▶ removed
///                     │ its connections have ended, or it was not renewed for 3 s
///                     ▼
///                   marked as dead ──▶ its connection ended ──▶ fenced ──▶ recovered ──▶ removed
/// ```
///
/// A node that notices a death does the next of these steps; each may be done twice. From the fence on, no step of the dead node can
/// commit, should it live behind a cut line: it goes on as a new node.
struct NodeTable {
    /// The time after which a node that was not renewed is dead, in milliseconds of the server's clock.
    static let lease = 3000
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
            """
            -- The lock of steps. What was an advisory lock excludes no step that takes this one: a program that knows only that lock
            -- finds the column of its fence no more, and commits nothing.
            \(StepLock.table);
            \(StepLock.fillTable);
            ALTER TABLE node_step RENAME COLUMN lease TO fence;
            -- The connection of the node, by its process of the server and when that was started.
            ALTER TABLE node_lease ADD COLUMN backend INTEGER;
            ALTER TABLE node_lease ADD COLUMN backend_start INTEGER;
            -- By how many milliseconds its machine's clock is ahead of the server's.
            ALTER TABLE node_lease ADD COLUMN ahead INTEGER;
            -- The node that recovers it.
            ALTER TABLE node ADD COLUMN recoverer INTEGER;
            """,
            """
            -- A program that looks for the lock of a node, which there is no more, takes each node for dead. It knows this column by its
            -- old name, and so finds none.
            ALTER TABLE node_lease RENAME COLUMN server TO server_start;
            """,
        ])

    // The text of the statements is that of PostgreSQL alone.
    static let clock = milliseconds("pg_catalog.clock_timestamp()")
    /// When the server was started.
    static let server = microseconds("pg_catalog.pg_postmaster_start_time()")
    /// When the connection was made that runs the statement.
    private static let backendStart = """
        (SELECT \(microseconds("a.backend_start"))
            FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a)
        """

    private static func milliseconds(_ time: String) -> String {
        "(extract(epoch FROM \(time)) * 1000::numeric)::bigint"
    }

    private static func microseconds(_ time: String) -> String {
        "(extract(epoch FROM \(time)) * 1000000::numeric)::bigint"
    }

    /// Whether a connection of `pg_stat_activity` is the one of a lease. A process number is given again. Of other roles the time is not seen.
    static func isConnection(_ connection: String) -> String {
        """
        \(connection).pid = node_lease.backend::int AND (\(connection).backend_start IS NULL
            OR \(microseconds("\(connection).backend_start")) = node_lease.backend_start)
        """
    }

    /// Whether the process of a lease has ended: both of its connections have. A node that has lost only that of its lease has a new one
    /// before the lease is over.
    static let isGone = """
        server_start IS NOT DISTINCT FROM \(server) AND NOT EXISTS (
            SELECT 1 FROM pg_catalog.pg_stat_get_activity(node_lease.backend::int) AS a
            WHERE \(isConnection("a")))
        AND NOT EXISTS (
            SELECT 1 FROM pg_catalog.pg_stat_activity AS a
            WHERE a.usename = SESSION_USER AND \(isOfSteps("a", of: "node_lease.node")))
        """

    /// Stores the number of a step in its transaction, and is refused when the node was fenced.
    static let storeStep = """
        INSERT INTO node_step(node, step, fence)
        VALUES (?1, ?2, (SELECT node FROM node_lease WHERE node = ?1 FOR KEY SHARE))
        ON CONFLICT(node) DO UPDATE SET step = excluded.step, fence = excluded.fence
        """
    /// The same for a step of which it is not known here whether it has written anything; if not, there is nothing to store.
    static let storeStepIfWritten = """
        INSERT INTO node_step(node, step, fence)
        SELECT ?1::bigint, ?2::bigint, (SELECT node FROM node_lease WHERE node = ?1::bigint FOR KEY SHARE)
        WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL
        ON CONFLICT(node) DO UPDATE SET step = excluded.step, fence = excluded.fence
        """

    /// The name of the connection of a node's steps, by which others find it to end it.
    static func connectionName(of node: String) -> String {
        """
        ('durable-handlers node '::text || \(node)::text || ' in '::text || (
            SELECT n.oid::text FROM pg_catalog.pg_namespace AS n WHERE n.nspname = pg_catalog.current_schema()))
        """
    }

    /// Whether a connection of `pg_stat_activity` has the name of that of a node's steps, and is not the one that looks.
    private static func isOfSteps(_ connection: String, of node: String) -> String {
        """
        \(connection).datname = pg_catalog.current_database() AND \(connection).pid <> pg_catalog.pg_backend_pid()
            AND \(connection).application_name = \(connectionName(of: node))
        """
    }

    /// Ends the connection of a node's steps. Its columns say whether that has ended, and which other role has one of that name.
    ///
    /// Anybody may give a connection that name, so one of another role is left alone.
    static func endingConnection(of node: some BinaryInteger) -> String {
        """
        SELECT coalesce(pg_catalog.bool_and(
                CASE WHEN a.usename = SESSION_USER THEN pg_catalog.pg_terminate_backend(a.pid, 500::bigint) ELSE TRUE END), TRUE),
            pg_catalog.min(CASE WHEN a.usename = SESSION_USER THEN NULL ELSE a.usename::text END)
        FROM pg_catalog.pg_stat_activity AS a WHERE \(isOfSteps("a", of: "\(node)"))
        """
    }

    let connection: PostgresConnection
    private let clock: ServerClock
    /// The channel on which nodes notify each other.
    private let channel: String
    /// The node whose connection this is; nil for none.
    private var heldNode: Int?
    /// Since when the server has been seen at work without a gap: nobody could renew anything while it was away.
    private(set) var steadySince: ContinuousClock.Instant
    /// The nodes that were gone at the last look.
    var suspects: Set<Suspect> = []
    /// What has kept nodes from being fenced since that was taken.
    private var complaints: [(node: Int64, reason: String)] = []
    /// When there were other nodes at a look for the last time, also dead ones: what they have committed may not be on the standby.
    var othersSeen: ContinuousClock.Instant?
    var hasLooked = false
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
        clock = options.clock
        connection = PostgresConnection(options, isReader: false)
        // What is lost with a server is found again: a fence comes before the commit of what it protects.
        try connection.executeOnce("SET synchronous_commit = off")
        guard let channel = try connection.firstOnce(StepLock.channel, [], { $0.text(0) }) else {
            throw HandlerError(
                .databaseCorrupt,
                "the table step_lock of \(options.name) has no row, so nodes cannot notify each other; put a backup back"
            )
        }
        self.channel = channel
        try connection.executeOnce("LISTEN \(MovedTable.quoted(channel))")
    }

    // MARK: The own node

    /// Registers a new node.
    ///
    /// - Returns: Its number, which no other one has had.
    mutating func register(isSharing: Bool) throws(HandlerError) -> Int {
        heldNode = nil
        // Its number must not be given again by a standby that is promoted.
        try connection.executeOnce("SET synchronous_commit = on")
        let id = try connection.firstOnce(
            """
            WITH new AS (INSERT INTO node(is_sharing) VALUES (?) RETURNING id),
                step AS (INSERT INTO node_step(node, step, fence) SELECT id, 0, id FROM new),
                old AS (DELETE FROM node_step WHERE ended_at < \(Self.clock) - 86400000)
            INSERT INTO node_lease(node, until, server_start, backend, backend_start, ahead)
            SELECT id, \(Self.clock) + \(Self.lease), \(Self.server), pg_catalog.pg_backend_pid()::bigint,
                \(Self.backendStart), ?::bigint FROM new RETURNING node
            """, [isSharing ? 1 : 0, clock.ahead]
        ) { $0.integer(0) }
        try connection.executeOnce("SET synchronous_commit = off")
        guard let id else { throw HandlerError(.databaseCorrupt, "the database gives nodes no number") }
        registeredAt = .now
        heldNode = Int(id)
        return Int(id)
    }

    /// Makes this connection that of the node, unless it is: the others see at once when it ends.
    mutating func hold(_ node: Int) throws(HandlerError) {
        if heldNode == node { return }
        try connection.executeOnce(
            """
            UPDATE node_lease SET server_start = \(Self.server), backend = pg_catalog.pg_backend_pid()::bigint,
                backend_start = \(Self.backendStart)
            WHERE node = ?
            """, [node])
        heldNode = node
    }

    /// Takes what has kept nodes from being fenced. It is reported once nothing else needs the connection.
    mutating func takeComplaints() -> [(node: Int64, reason: String)] {
        defer { complaints = [] }
        return complaints
    }

    mutating func complain(_ node: Int64, _ reason: String) { complaints.append((node, reason)) }

    /// Whether there are other nodes, or were shortly before.
    var hasOthers: Bool {
        guard hasLooked else { return true }
        return othersSeen.map { ContinuousClock.now < $0 + .milliseconds(Self.lease) } ?? false
    }

    /// Whether the node is registered for so long that the others have seen it.
    var isKnown: Bool { ContinuousClock.now >= registeredAt + .milliseconds(Self.lease) }

    /// Renews the lease of the node, and looks at the server's clock.
    ///
    /// - Returns: False when others have taken it for dead.
    mutating func renew(_ node: Int) throws(HandlerError) -> Bool {
        let start = ServerClock.monotonic
        let renewed = try connection.firstOnce(
            """
            UPDATE node_lease SET until = \(Self.clock) + \(Self.lease), ahead = ?2
            FROM (SELECT until FROM node_lease WHERE node = ?1) AS old
            WHERE node = ?1 AND is_dead = 0 RETURNING old.until < \(Self.clock), \(Self.clock)
            """, [node, clock.ahead]
        ) { (isLate: $0.integer(0) != 0, now: $0.integer(1)) }
        guard let renewed else { return false }
        clock.adopt(renewed.now, between: start, and: ServerClock.monotonic)
        if renewed.isLate { steadySince = .now }
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

    // MARK: Notifications

    /// Notifies the others, in a transaction of its own: in that of a step it would have all commits of the server wait for each
    /// other.
    func notify(from node: Int) throws(HandlerError) {
        try connection.executeOnce("SELECT pg_catalog.pg_notify(?::text, ?::text)", [channel, String(node)])
    }

    /// The number of notifications of others that have come.
    func notifications(besides node: Int) throws(HandlerError) -> Int {
        try connection.takeNotifications().count { $0 != "\(node)" }
    }

    /// The descriptor of its socket, which can be read when a notification comes.
    var descriptor: Int32 { connection.descriptor }
}
