import Handlers

/// What a reader sees of the nodes. It takes none of their locks: they would miss one that another holds.
extension NodeTable {
    /// The lock of a node is held by its connection, on the primary alone. A free one counts only on the server on which the node took it.
    private static let query = """
        SELECT node.id, node.handler,
            CASE WHEN node_lease.node IS NULL OR is_dead = 1 OR server = \(server) AND pg_locks.pid IS NULL THEN 'dead'
                WHEN until < \(clock) THEN 'late' ELSE 'alive' END,
            application_name, host(client_addr)
        FROM node LEFT JOIN node_lease ON node_lease.node = node.id
            LEFT JOIN pg_locks ON locktype = 'advisory' AND objsubid = 2 AND mode = 'ExclusiveLock' AND granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND classid = \(lockClass(of: schemaOfNodes))::oid AND objid = node.id::int::oid
            LEFT JOIN pg_stat_activity ON pg_stat_activity.pid = pg_locks.pid
        ORDER BY node.id
        """

    /// A role that only reads may come to the tables by another search path than the nodes.
    private static let schemaOfNodes = """
        (SELECT nspname FROM pg_namespace JOIN pg_class ON pg_class.relnamespace = pg_namespace.oid
            WHERE pg_class.oid = 'node'::regclass)
        """

    /// Returns the nodes, also those that died and were not recovered.
    ///
    /// On a standby their locks are not known, and their leases are those of the last commits that have come there.
    static func nodes(in snapshot: borrowing Snapshot) throws(HandlerError) -> [StoreProcess] {
        try snapshot.all(query) { row in
            StoreProcess(
                node: Int(row.integer(0)), handler: row.optionalInteger(1).map { AnyHandlerID(rawValue: $0) },
                life: StoreProcess.Life(rawValue: row.text(2)) ?? .dead,
                application: row.optionalText(3), address: row.optionalText(4))
        }
    }
}
