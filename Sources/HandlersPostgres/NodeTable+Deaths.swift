import Handlers

/// The death of other nodes: their marks, their fences, and their recovery.
extension NodeTable {
    /// A node that seems to have died, with the connection that has ended: meanwhile it may have a new one.
    struct Suspect: Hashable {
        let node: Int64
        let backend: Int64?
        let backendStart: Int64?
    }

    /// Marks those that have died, then ends and fences those that are marked.
    ///
    /// - Parameter node: The own node.
    /// - Returns: Whether a node waits to be recovered.
    mutating func bury(besides node: Int) throws(HandlerError) -> Bool {
        // The lease counts only while everybody could have renewed it.
        let isSteady = ContinuousClock.now >= steadySince + .milliseconds(Self.lease)
        let found = try connection.allOnce(
            """
            SELECT node, backend, backend_start, ?2 = 1 AND until < \(Self.clock) AND EXISTS (
                    SELECT 1 FROM node_lease AS mine WHERE mine.node = ?1 AND mine.until >= \(Self.clock)),
                \(Self.isGone)
            FROM node_lease WHERE node <> ?1 AND is_dead = 0
            """, [node, isSteady ? 1 : 0]
        ) { row in
            let node = Suspect(
                node: row.integer(0), backend: row.optionalInteger(1), backendStart: row.optionalInteger(2))
            return (node: node, isOver: row.integer(3) != 0, isGone: row.integer(4) != 0)
        }
        for other in found {
            // Gone at two looks: a node that has lost its connections alone has a new one between them. Where all have lost
            // theirs, this one among them, they get more time.
            let isGone = other.isGone && suspects.contains(other.node) && ContinuousClock.now >= steadySince
            if other.isOver || isGone { try mark(other.node, isGone: isGone) }
        }
        suspects = Set(found.filter(\.isGone).map(\.node))
        let others = try connection.allOnce(
            """
            SELECT node.id, node_lease.node IS NULL FROM node LEFT JOIN node_lease ON node_lease.node = node.id
            WHERE node.id <> ? AND coalesce(node_lease.is_dead, 1::bigint) = 1
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

    /// Marks a node as dead, unless it has renewed its lease meanwhile, or has another connection than the one that is gone.
    func mark(_ suspect: Suspect, isGone: Bool) throws(HandlerError) {
        try connection.executeOnce(
            """
            UPDATE node_lease SET is_dead = 1 WHERE node = ?1 AND (until < \(Self.clock) OR ?2 = 1
                AND backend IS NOT DISTINCT FROM ?3 AND backend_start IS NOT DISTINCT FROM ?4)
            """, [suspect.node, isGone ? 1 : 0, suspect.backend, suspect.backendStart])
    }

    /// How long a fence waits for a transaction that holds the lease. Meanwhile the own lease is not renewed.
    private static let fenceLimit = "200ms"

    /// Ends the connection of a dead node's steps, which may hold locks for which all wait, and fences the node.
    ///
    /// - Returns: False when the connection does not end, or the server refuses.
    private mutating func fence(_ node: Int64) throws(HandlerError) -> Bool {
        do throws(HandlerError) {
            let ending = try connection.firstOnce(Self.endingConnection(of: node)) {
                (isEnded: $0.integer(0) != 0, otherRole: $0.optionalText(1))
            }
            guard ending?.isEnded == true else {
                complain(node, "the server does not end the connection of its steps")
                return false
            }
            if let role = ending?.otherRole {
                complain(
                    node,
                    "a connection with the name of that of its steps has the role \(role), and is left alone; all machines of a store log in as the same role"
                )
            }
            try connection.executeOnce(
                """
                DELETE FROM node_lease
                USING (SELECT pg_catalog.set_config('lock_timeout'::text, '\(Self.fenceLimit)'::text, true) AS value) AS wait
                WHERE node = ? AND is_dead = 1 AND wait.value IS NOT NULL
                """, [node])
            return true
        } catch {
            // Without a connection nothing else can be done either.
            if error.code == .databaseUnavailable { throw error }
            complain(node, error.message)
            return false
        }
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

    /// Returns whether `recoverer` is to recover a node, and nobody else until ``endRecovery(of:by:)``, or until it is dead itself.
    func startRecovery(of node: Int64, by recoverer: Int) throws(HandlerError) -> Bool {
        try connection.firstOnce(
            """
            UPDATE node SET recoverer = ?2 WHERE id = ?1 AND (recoverer IS NULL OR recoverer = ?2
                OR NOT EXISTS (SELECT 1 FROM node_lease WHERE node_lease.node = recoverer))
            RETURNING id
            """, [node, recoverer]
        ) { _ in true } ?? false
    }

    func endRecovery(of node: Int64, by recoverer: Int) throws(HandlerError) {
        try connection.executeOnce(
            "UPDATE node SET recoverer = NULL WHERE id = ? AND recoverer = ?", [node, recoverer])
    }

    /// Removes a node that was recovered.
    func removeRecovered(_ node: Int64) throws(HandlerError) {
        try connection.executeOnce(
            """
            WITH step AS (UPDATE node_step SET ended_at = \(Self.clock) WHERE node = ?1) DELETE FROM node WHERE id = ?1
            """, [node])
    }
}
