/// Entries of lanes: each waits for its turn among those with its order key, then for a place.
///
/// A place is given in the step that frees it, and the handler that gets it becomes due. So a full lane costs runners nothing, however many
/// wait, and the next handler starts as soon as any due one, in any process.
extension Transaction {
    /// The most places that one step gives in a lane. Each ending gives the next ones, so more follow.
    private static let mostPlaced = 500

    // MARK: Entering

    /// Puts a new handler into a lane that waits for its call first.
    func addBound(_ id: AnyHandlerID, to place: LanePlace) throws(HandlerError) {
        try insert(LaneEntry(id, place))
    }

    /// Puts a new handler into a lane that was stored with its call and without a due time.
    func addCalled(_ id: AnyHandlerID, to place: LanePlace) throws(HandlerError) {
        let entry = try entered(LaneEntry(id, place))
        try insert(entry)
        if entry.state == .ready { try fillLane(place.lane) }
    }

    /// Returns whether a due handler of a lane may be called now. If not, it waits in its lane.
    func mayStart(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        guard let entry = try laneEntry(of: id) else { return true }
        guard entry.state == .placed else { return try enter(entry) }
        // Its token came, so that the next one waits for the one after that.
        try fillLane(entry.lane, ifRated: true) { $0.started(id) }
        return true
    }

    /// Has an entry wait for its place.
    ///
    /// - Returns: Whether it has one already, and may start.
    private func enter(_ entry: LaneEntry) throws(HandlerError) -> Bool {
        guard [.bound, .away].contains(entry.state) else {
            if entry.state != .placed { try setDue(entry.id, nil) }
            return entry.state == .placed
        }
        let entry = try entered(entry)
        try store(entry)
        try setDue(entry.id, nil)
        guard entry.state == .ready else { return false }
        try fillLane(entry.lane)
        return try connection.first("SELECT due FROM handler WHERE id = ? AND due <= ?", [entry.id, now]) {
            _ in true
        } ?? false
    }

    /// An entry as it waits: for a place, or for another entry.
    private func entered(_ entry: LaneEntry) throws(HandlerError) -> LaneEntry {
        var entry = entry
        entry.start(now)
        entry.position = try position(of: entry)
        entry.state = try isFirst(entry) ? .ready : .behind
        return entry
    }

    private func setDue(_ id: AnyHandlerID, _ due: Timestamp?) throws(HandlerError) {
        try connection.execute("UPDATE handler SET due = ? WHERE id = ?", [due, id])
    }

    // MARK: Order

    /// The position of an entry among those with its key: its own, or the one after the last.
    private func position(of entry: LaneEntry) throws(HandlerError) -> Int64? {
        guard let key = entry.orderKey else { return nil }
        if let position = entry.position { return position }
        return try connection.first(
            "SELECT coalesce(max(position), 0) + 1 FROM lane_entry WHERE lane = ? AND order_key = ? AND position IS NOT NULL",
            [entry.lane, key]
        ) { $0.integer(0) }
    }

    /// The first entry with an order key.
    private func first(_ key: String, in lane: String) throws(HandlerError) -> LaneEntry? {
        let id = try connection.first(
            "SELECT handler FROM lane_entry WHERE lane = ? AND order_key = ? AND position IS NOT NULL ORDER BY position LIMIT 1",
            [lane, key]
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        return try id.flatMap { (id) throws(HandlerError) in try laneEntry(of: id) }
    }

    private func isFirst(_ entry: LaneEntry) throws(HandlerError) -> Bool {
        guard let key = entry.orderKey, let first = try first(key, in: entry.lane),
            !BuiltInFault.forgetOrder.isOn
        else { return true }
        return first.id == entry.id || first.position ?? 0 > entry.position ?? 0
    }

    // MARK: Places

    /// Gives the free places of a lane to the entries that are first.
    ///
    /// - Parameters:
    ///   - ifRated: Whether nothing is to be done in a lane without a rate.
    ///   - change: What has changed in the lane.
    private func fillLane(
        _ name: String, ifRated: Bool = false, _ change: (inout LaneGate) -> Void = { _ in }
    ) throws(HandlerError) {
        let stored = try gate(of: name)
        if ifRated, stored?.rate == nil { return }
        var gate = stored ?? LaneGate()
        change(&gate)
        for _ in 0..<Self.mostPlaced {
            guard let start = gate.nextStart(now), let next = try firstReady(in: name) else { break }
            gate.take(next.id, at: start, now)
            try place(next.id, in: next.scope, at: start)
        }
        if let stored, stored != gate { try store(gate, of: name) }
    }

    private func firstReady(in lane: String) throws(HandlerError) -> (id: AnyHandlerID, scope: HandlerScope?)?
    {
        try connection.first(
            """
            SELECT lane_entry.handler, handler.scope FROM lane_entry JOIN handler ON handler.id = lane_entry.handler
            WHERE lane_entry.lane = ? AND lane_entry.state = \(LaneState.ready.sql)
            ORDER BY lane_entry.rank, lane_entry.handler LIMIT 1
            """, [lane]
        ) { (AnyHandlerID(rawValue: $0.integer(0)), $0.optionalText(1).map { HandlerScope($0) }) }
    }

    private func place(_ id: AnyHandlerID, in scope: HandlerScope?, at start: Timestamp) throws(HandlerError)
    {
        try connection.execute(
            "UPDATE lane_entry SET state = \(LaneState.placed.sql) WHERE handler = ?", [id])
        try setDue(id, start)
        newDue.add(scope, wall: start)
        newDue.hasPlaced = true
    }

    // MARK: Leaving

    /// Removes a handler that has ended from its lane.
    func leaveLane(_ id: AnyHandlerID) throws(HandlerError) {
        guard let entry = try laneEntry(of: id) else { return }
        try connection.execute("DELETE FROM lane_entry WHERE handler = ?", [id])
        try vacate(entry, isPassed: true)
    }

    /// Settles the entry of a handler that could not run.
    func settleInLane(_ id: AnyHandlerID, _ unfinished: UnfinishedCall) throws(HandlerError) {
        guard let entry = try laneEntry(of: id) else { return }
        switch unfinished.state {
        case .pending where unfinished.isQueued: _ = try enter(entry)
        case .pending, .parked: try stepAside(entry, isPassed: false)
        case .quarantined, .leased: try stepAside(entry, isPassed: true)
        }
    }

    /// Takes the place of an entry, which asks for one again when it is due.
    ///
    /// - Parameters:
    ///   - isPassed: Whether those after it with its order key do not wait for it.
    ///   - isUncalled: Whether it gives back its token.
    func stepAside(_ entry: LaneEntry, isPassed: Bool, isUncalled: Bool = false) throws(HandlerError) {
        var aside = entry
        aside.start(now)
        aside.position = isPassed ? nil : try position(of: entry)
        aside.state = .away
        try store(aside)
        try vacate(entry, isPassed: isPassed, isUncalled: isUncalled)
    }

    /// Gives what an entry had to the next ones.
    private func vacate(_ entry: LaneEntry, isPassed: Bool, isUncalled: Bool = false) throws(HandlerError) {
        if isPassed, entry.position != nil, let key = entry.orderKey,
            var next = try first(key, in: entry.lane), next.state == .behind
        {
            next.state = .ready
            try store(next)
        }
        try fillLane(entry.lane) { gate in
            if entry.state == .placed { gate.leave(entry.id, isUncalled: isUncalled) }
        }
    }

    /// Quarantined outside of a call.
    func setAsideInLane(_ id: AnyHandlerID) throws(HandlerError) {
        guard try relations(of: id)?.contains(.inLane) == true, let entry = try laneEntry(of: id) else {
            return
        }
        try stepAside(entry, isPassed: true)
    }

    // MARK: Rules

    /// Stores the limits of a lane, and starts what they allow.
    func setLane(_ rule: LaneRule) throws(HandlerError) {
        try rule.check()
        guard let stored = try gate(of: rule.name) else { return try addLane(rule) }
        var gate = stored
        if gate.concurrency == rule.concurrency, gate.rate == rule.rate { return }
        gate.set(rule, now)
        try store(gate, of: rule.name)
        try fillLane(rule.name)
    }

    private func addLane(_ rule: LaneRule) throws(HandlerError) {
        let count = try connection.first("SELECT count(*) FROM lane") { $0.integer(0) } ?? 0
        guard count < Lanes.maximum else {
            throw Lanes.invalid(
                "\(Lanes.maximum) lanes have limits already; give lanes that need none no rule, or order by key in one lane"
            )
        }
        // They were let in while the lane had no limits.
        let running =
            try connection.first(
                "SELECT count(*) FROM lane_entry WHERE lane = ? AND state = \(LaneState.placed.sql)",
                [rule.name]
            ) { $0.integer(0) } ?? 0
        try connection.execute(
            "INSERT INTO lane(name, running, paid_until) VALUES (?, ?, 0)", [rule.name, running])
        var gate = LaneGate()
        gate.running = Int(running)
        gate.set(rule, now)
        try store(gate, of: rule.name)
        try fillLane(rule.name)
    }
}
