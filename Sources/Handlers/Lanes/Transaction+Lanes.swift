/// Entries of lanes: each waits for its turn among those with its order key, then for a place.
///
/// A place is given in the step that frees it, and the handler that gets it becomes due. So a full lane costs runners nothing, however many
/// wait, and the next handler starts as soon as any due one, in any process.
extension Transaction {
    /// The most places that are given in a lane at once. A ``LaneFiller`` gives the others.
    static let mostPlaced = 500

    // MARK: Entering

    /// Puts a new handler into a lane. The handler was stored with its call and without a due time.
    func addCalled(_ id: AnyHandlerID, to place: LanePlace) throws(HandlerError) {
        let entry = try entered(LaneEntry(id, place))
        try insert(entry)
        if entry.state == .ready { try fillLane(place.lane) }
    }

    /// Returns whether a due handler of a lane may be called now. If not, it waits in its lane.
    func mayStart(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        guard let entry = try laneEntry(of: id) else { return true }
        guard entry.state == .placed else { return try enter(entry) }
        guard let gate = try gate(of: entry.lane), gate.rate != nil else { return true }
        if let time = gate.delay(of: id, now) {
            try setDue(id, time)
            return false
        }
        // Its token came. The next entry waits for the token after that.
        try fillLane(entry.lane, gate) { $0.started(id) }
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
        entry.state = try isFirst(entry) ? .ready : .blocked
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

    private func isFirst(_ entry: LaneEntry) throws(HandlerError) -> Bool {
        guard let key = entry.orderKey, let first = try firstEntry(key, in: entry.lane),
            !BuiltInFault.forgetOrder.isOn
        else { return true }
        return first.id == entry.id || first.position ?? 0 > entry.position ?? 0
    }

    // MARK: Places

    func fillLane(
        _ name: String, _ change: (inout LaneGate) -> Void = { _ in }
    ) throws(HandlerError) {
        try fillLane(name, try gate(of: name), change)
    }

    /// Gives the free places of a lane to the entries that are first.
    ///
    /// - Parameters:
    ///   - stored: The gate of the lane as it is stored; nil for a lane without limits.
    ///   - change: What has changed in the lane.
    private func fillLane(
        _ name: String, _ stored: LaneGate?, _ change: (inout LaneGate) -> Void
    ) throws(HandlerError) {
        var gate = stored ?? LaneGate()
        change(&gate)
        var placed = 0
        while let start = gate.nextStart(now), let next = try firstReady(in: name) {
            if placed == Self.mostPlaced {
                try fillLater(name)
                break
            }
            placed += 1
            gate.admit(next.id, at: start, now)
            try place(next.id, in: next.scope, at: start)
        }
        if let stored, stored != gate { try store(gate, of: name) }
    }

    private func fillLater(_ name: String) throws(HandlerError) {
        let filler = try LaneFiller(lane: name).durable
        _ = try binding(.outsideOfChains) { () throws(HandlerError) in
            try bind(filler, kind: .once, timing: Timing(at: now, nil))
        }
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
        // One that was canceled meanwhile is due already.
        try connection.execute("UPDATE handler SET due = ? WHERE id = ? AND due IS NULL", [start, id])
        newDue.add(scope, wall: start)
        newDue.placed += 1
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
        case .pending, .parked: try moveAway(entry, isPassed: false)
        case .quarantined, .leased: try moveAway(entry, isPassed: true)
        }
    }

    /// Frees the place of an entry until it is due again.
    ///
    /// - Parameters:
    ///   - isPassed: Whether the later entries with its order key do not wait for it.
    ///   - isUncalled: Whether no process called it, so that its token is free again.
    func moveAway(_ entry: LaneEntry, isPassed: Bool, isUncalled: Bool = false) throws(HandlerError) {
        var moved = entry
        moved.start(now)
        moved.position = isPassed ? nil : try position(of: entry)
        moved.state = .away
        try store(moved)
        try vacate(entry, isPassed: isPassed, isUncalled: isUncalled)
    }

    /// Gives the order key and the place of an entry to the next ones.
    private func vacate(_ entry: LaneEntry, isPassed: Bool, isUncalled: Bool = false) throws(HandlerError) {
        if isPassed, entry.position != nil, let key = entry.orderKey,
            var next = try firstEntry(key, in: entry.lane), next.state == .blocked
        {
            next.state = .ready
            try store(next)
        }
        try fillLane(entry.lane) { gate in
            if entry.state == .placed { gate.leave(entry.id, isUncalled: isUncalled) }
        }
    }

    /// Frees the place of a handler that was quarantined outside of a call.
    func quarantineInLane(_ id: AnyHandlerID) throws(HandlerError) {
        guard try relations(of: id)?.contains(.inLane) == true, let entry = try laneEntry(of: id) else {
            return
        }
        try moveAway(entry, isPassed: true)
    }

    // MARK: Rules

    /// Stores the limits of a lane, and gives the places that they allow.
    func setLane(_ rule: LaneRule) throws(HandlerError) {
        try rule.check()
        guard let stored = try gate(of: rule.name) else { return try addLane(rule) }
        var gate = stored
        if gate.concurrency == rule.concurrency, gate.rate == rule.rate, rule.hasLimits { return }
        gate.set(rule, now)
        if rule.hasLimits {
            try store(gate, of: rule.name)
        } else {
            try connection.execute("DELETE FROM lane WHERE name = ?", [rule.name])
        }
        // One that is canceled does not wait for a token.
        if let waiter = stored.tokenWaiter.map(AnyHandlerID.init(rawValue:)), try !isToBeInvalidated(waiter) {
            try setDue(waiter, in: scope(of: waiter), gate.tokenAt ?? now)
        }
        try fillLane(rule.name)
    }

    /// Makes an entry with a place due at another time.
    func setDue(_ id: AnyHandlerID, in scope: HandlerScope?, _ due: Timestamp) throws(HandlerError) {
        try setDue(id, due)
        newDue.add(scope, wall: due)
    }

    private func addLane(_ rule: LaneRule) throws(HandlerError) {
        guard rule.hasLimits else { return }
        let count = try connection.first("SELECT count(*) FROM lane") { $0.integer(0) } ?? 0
        guard count < Lanes.maximum else {
            throw Lanes.invalid(
                "\(Lanes.maximum) lanes have limits already; remove limits that no program needs with LaneRule(name), or order by key in one lane"
            )
        }
        // These got their places while the lane had no limits.
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
