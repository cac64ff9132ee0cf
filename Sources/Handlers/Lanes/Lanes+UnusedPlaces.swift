/// Places of entries that no process calls: none serves their scope, or only the main program may call them and it does not run.
extension Lanes {
    /// The time after which a due handler that this process cannot call loses its place.
    static let placePatience = Duration.seconds(10)
    /// The most entries that one step looks at in a lane. A lane with more places than that has many that are used.
    private static let mostLookedAt = 500
    /// The most entries of a lane that one step moves away, and the most among which it looks for them.
    private static let (mostMoved, mostSearched) = (500, 5000)
    /// The longest time by which a rank may be later than the call of the entry.
    private static let longestRank = LanePlace.agingTime * -LanePlace.priorities.lowerBound

    /// The result of a look at the places.
    struct PlacesLook {
        /// When to look again: 0 for at once; nil when no place is unused.
        private(set) var rest: Duration?
        /// Whether handlers are due that were not before.
        var isChanged = false

        mutating func look(after rest: Duration) { self.rest = min(self.rest ?? rest, max(.zero, rest)) }
    }

    /// The processes that may call an entry: they serve its scope, and are such a caller.
    private struct Server: Equatable {
        let scope: HandlerScope?
        let caller: Int64
    }

    /// A due entry with a place.
    private struct Placed {
        let id: AnyHandlerID
        let server: Server
        let due: Timestamp
    }

    /// Whether a lane with limits has entries with a place.
    func hasPlaces() throws(HandlerError) -> Bool {
        try storeChanges()
        return try connection.first("SELECT 1 FROM lane WHERE running > 0 LIMIT 1") { _ in true } ?? false
    }

    /// Frees places that are not used. Makes due now what a clock that was set back would delay.
    ///
    /// - Parameters:
    ///   - longest: The longest time until the next look.
    ///   - canCall: Whether this process calls handlers of a scope and caller.
    func recallPlaces(
        longest: Duration, _ canCall: (HandlerScope?, Int64) -> Bool
    ) throws(HandlerError) -> PlacesLook {
        try closeLanes()
        var look = PlacesLook()
        let lanes = try connection.all("SELECT name FROM lane WHERE running > 0") { $0.foreignText(0) }
        for lane in lanes {
            try lowerRanks(in: lane)
            let uncalled = try uncalled(in: lane)
            var unserved: [Server] = []
            for entry in uncalled {
                if try hasten(entry, in: lane) {
                    look.isChanged = true
                } else if entry.due + Self.placePatience > now {
                    look.look(after: min(longest, entry.due + Self.placePatience - now))
                } else if canCall(entry.server.scope, entry.server.caller) {
                    look.look(after: longest)
                } else if !unserved.contains(entry.server) {
                    unserved.append(entry.server)
                }
            }
            if !unserved.isEmpty { try recall(uncalled, of: unserved, in: lane, &look) }
        }
        return look
    }

    private func uncalled(in lane: Name) throws(HandlerError) -> [Placed] {
        try connection.all(
            """
            SELECT handler.id, handler.scope, handler.lane, handler.due
            FROM lane_entry JOIN handler ON handler.id = lane_entry.handler
            WHERE lane_entry.lane = ? AND lane_entry.state = \(LaneState.placed.sql)
                AND handler.state = \(State.pending.sql) AND handler.due IS NOT NULL
            LIMIT ?
            """, [lane, Self.mostLookedAt]
        ) { row in
            Placed(
                id: AnyHandlerID(rawValue: row.integer(0)),
                server: Server(
                    scope: row.optionalText(1).map { HandlerScope($0) }, caller: row.integer(2)),
                due: row.timestamp(3))
        }
    }

    // MARK: A clock that was set back

    /// Makes an entry due now if its time is later than any lane lets it wait.
    private func hasten(_ entry: Placed, in name: Name) throws(HandlerError) -> Bool {
        guard entry.due > now else { return false }
        var lane = try lane(name)
        let longest = lane.gate.tokenWaiter == entry.id.rawValue ? lane.gate.rate?.period ?? .zero : .zero
        guard entry.due > now + longest else { return false }
        lane.gate.hasten(entry.id, now)
        transaction.features.lanes.put(lane, name)
        try setDue(entry.id, in: entry.server.scope, now)
        return true
    }

    /// Lets entries that were called while the clock was ahead wait no longer than those that are called now.
    private func lowerRanks(in lane: Name) throws(HandlerError) {
        try connection.write(
            """
            UPDATE lane_entry SET rank = ? WHERE handler IN
                (SELECT handler FROM lane_entry
                WHERE lane = ? AND state = \(LaneState.ready.sql) AND rank > ? ORDER BY rank, handler LIMIT ?)
            """, [now, lane, now + Self.longestRank, Self.mostMoved])
    }

    // MARK: Entries that no process calls

    /// Frees the places of entries that no process calls. Before that, entries of the same scopes and callers move away that would get these
    /// places: each would keep its place for as long.
    private func recall(
        _ placed: [Placed], of servers: [Server], in lane: Name, _ look: inout PlacesLook
    ) throws(HandlerError) {
        let ready = try firstReady(in: lane).filter { servers.contains($0.server) }.prefix(Self.mostMoved)
        for (id, server) in ready {
            try connection.write(
                "UPDATE lane_entry SET state = \(LaneState.away.sql) WHERE handler = ?", [id])
            try setDue(id, in: server.scope, now)
        }
        // The places stay until no more are left, so that the next step goes on.
        if ready.count == Self.mostMoved { look.look(after: .zero) }
        look.isChanged = true
        if look.rest == .zero { return }
        for row in placed where servers.contains(row.server) {
            guard let entry = try laneEntry(of: row.id) else { continue }
            try moveAway(entry, isPassed: false, isUncalled: true)
            // It no longer waits for a token.
            if row.due > now { try setDue(row.id, in: row.server.scope, now) }
        }
    }

    /// The first entries of a lane that wait for a place, and who may call them.
    private func firstReady(in lane: Name) throws(HandlerError) -> [(id: AnyHandlerID, server: Server)] {
        try connection.all(
            """
            SELECT handler.id, handler.scope, handler.lane FROM
                (SELECT handler FROM lane_entry WHERE lane = ? AND state = \(LaneState.ready.sql)
                ORDER BY rank, handler LIMIT ?) AS first_entry
            JOIN handler ON handler.id = first_entry.handler
            """, [lane, Self.mostSearched]
        ) {
            (
                AnyHandlerID(rawValue: $0.integer(0)),
                Server(scope: $0.optionalText(1).map { HandlerScope($0) }, caller: $0.integer(2))
            )
        }
    }
}
