import Handlers

/// What a reader sees of the nodes.
extension NodeTable {
    /// Its connection is on the primary alone. One that has ended counts only on the server on which the node had it.
    private static let query = """
        SELECT node.id, node.handler,
            CASE WHEN node_lease.node IS NULL OR is_dead = 1 OR server_start = \(server) AND a.pid IS NULL THEN 'dead'::text
                WHEN until < \(clock) THEN 'late'::text ELSE 'alive'::text END,
            a.application_name, pg_catalog.host(a.client_addr), ahead
        FROM node LEFT JOIN node_lease ON node_lease.node = node.id
            LEFT JOIN pg_catalog.pg_stat_activity AS a ON server_start = \(server) AND \(isConnection("a"))
        ORDER BY node.id
        """

    /// Returns the nodes, also those that died and were not recovered.
    ///
    /// On a standby their connections are not known, and their leases are those of the last commits that have come there.
    static func nodes(in snapshot: borrowing Snapshot) throws(HandlerError) -> [StoreProcess] {
        try snapshot.all(query) { row in
            StoreProcess(
                node: Int(row.integer(0)), handler: row.optionalInteger(1).map { AnyHandlerID(rawValue: $0) },
                life: StoreProcess.Life(rawValue: row.text(2)) ?? .dead,
                application: row.optionalText(3), address: row.optionalText(4),
                clockAhead: row.optionalInteger(5))
        }
    }
}
