import Handlers

/// The death of other nodes: their marks, their fences, and their recovery.
extension NodeTable {
    /// Marks those that have died, then ends and fences those that are marked.
    ///
    /// - Parameters:
    ///   - node: The own node.
    ///   - report: Called with what keeps a node from being fenced. The others are fenced all the same.
    /// - Returns: Whether a node waits to be recovered.
    mutating func bury(
        besides node: Int, _ report: (_ node: Int64, _ reason: String) -> Void
    ) throws(HandlerError) -> Bool {
        // The lease counts only while everybody could have renewed it.
        let isSteady = ContinuousClock.now >= steadySince + .milliseconds(Self.lease)
        let found = try connection.allOnce(
            """
            SELECT node, ?2 = 1 AND until < \(Self.clock) AND EXISTS (
                    SELECT 1 FROM node_lease AS mine WHERE mine.node = ?1 AND mine.until >= \(Self.clock)),
                server IS NOT DISTINCT FROM \(Self.server) AND NOT EXISTS (
                    SELECT 1 FROM pg_catalog.pg_stat_get_activity(node_lease.backend::int) AS a
                    WHERE \(Self.isConnection("a")))
            FROM node_lease WHERE node <> ?1 AND is_dead = 0
            """, [node, isSteady ? 1 : 0]
        ) { (node: $0.integer(0), isOver: $0.integer(1) != 0, isGone: $0.integer(2) != 0) }
        for other in found {
            // Gone at two looks: a node that has lost its connection alone has a new one between them. Where all have lost
            // theirs, this one among them, they get more time.
            let isGone = other.isGone && suspects.contains(other.node) && ContinuousClock.now >= steadySince
            guard other.isOver || isGone else { continue }
            try connection.executeOnce(
                "UPDATE node_lease SET is_dead = 1 WHERE node = ?1 AND (?2 = 1 OR until < \(Self.clock))",
                [other.node, isGone ? 1 : 0])
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
            let isFenced = other.isFenced ? true : try fence(other.id, report)
            if isFenced { isAnyFenced = true }
        }
        return isAnyFenced
    }

    /// Ends the connection of a dead node's steps, which may hold locks for which all wait, and fences the node.
    ///
    /// - Returns: False when the connection does not end, or the server refuses.
    private func fence(
        _ node: Int64, _ report: (_ node: Int64, _ reason: String) -> Void
    ) throws(HandlerError) -> Bool {
        do throws(HandlerError) {
            let isEnded = try connection.firstOnce(Self.endingConnection(of: node)) { $0.integer(0) != 0 }
            guard isEnded == true else {
                report(node, "the server does not end the connection of its steps")
                return false
            }
            try connection.executeOnce("DELETE FROM node_lease WHERE node = ? AND is_dead = 1", [node])
            return true
        } catch {
            // Without a connection nothing else can be done either.
            if error.code == .databaseUnavailable { throw error }
            report(node, error.message)
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
