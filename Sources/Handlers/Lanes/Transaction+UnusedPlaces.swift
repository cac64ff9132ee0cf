/// Places of entries that nothing calls: no process serves their scope, or only the main program may call them and it does not run.
extension Transaction {
    /// The time after which a due handler that this process cannot call loses its place.
    static let placePatience = Duration.seconds(10)
    /// The most entries that one step looks at in a lane. A lane with more places than that has many that are used.
    private static let mostLookedAt = 500

    /// A due entry with a place.
    private struct Placed {
        let id: AnyHandlerID
        let scope: HandlerScope?
        let caller: Int64
        let due: Timestamp
    }

    /// Whether a lane with limits has entries with a place.
    func hasPlaces() throws(HandlerError) -> Bool {
        try connection.first("SELECT 1 FROM lane WHERE running > 0 LIMIT 1") { _ in true } ?? false
    }

    /// Takes places back that are not used, and makes due now what a clock that was set back would hold up.
    ///
    /// - Parameter canCall: Whether this process calls handlers of a scope and caller.
    /// - Returns: When to look again: at once after a change, later while places are left that nothing uses yet; nil for not.
    func recallPlaces(_ canCall: (HandlerScope?, Int64) -> Bool) throws(HandlerError) -> Duration? {
        var (isAnyLeft, isChanged) = (false, false)
        let lanes = try connection.all("SELECT name FROM lane WHERE running > 0") { $0.text(0) }
        for lane in lanes {
            let gate = try gate(of: lane) ?? LaneGate()
            let longest = gate.rate?.period ?? .zero
            for entry in try uncalled(in: lane) {
                isAnyLeft = true
                if gate.ahead == entry.id.rawValue, entry.due > now + longest {
                    try hasten(entry)
                    isChanged = true
                } else if entry.due + Self.placePatience <= now, !canCall(entry.scope, entry.caller) {
                    try recall(entry.id)
                    isChanged = true
                }
            }
        }
        return isChanged ? .zero : isAnyLeft ? Self.placePatience : nil
    }

    private func uncalled(in lane: String) throws(HandlerError) -> [Placed] {
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
                scope: row.optionalText(1).map { HandlerScope($0) },
                caller: row.integer(2), due: row.timestamp(3))
        }
    }

    private func hasten(_ entry: Placed) throws(HandlerError) {
        try connection.execute("UPDATE handler SET due = ? WHERE id = ?", [now, entry.id])
        newDue.add(entry.scope, wall: now)
    }

    private func recall(_ id: AnyHandlerID) throws(HandlerError) {
        guard let entry = try laneEntry(of: id) else { return }
        try stepAside(entry, isPassed: false, isUncalled: true)
    }
}
