/// Entries of lanes: each waits for its turn among those with its order key, then for a place.
///
/// A place is given in the step that frees it, and the handler that gets it becomes due. So a full lane costs runners nothing, however many
/// wait, and the next handler starts as soon as any due one, in any process.
struct Lanes: TransactionTable {
    let transaction: Transaction

    /// The most places that are given in a lane at once. A ``LaneFiller`` gives the others.
    static let mostPlaced = 500

    // MARK: Entering

    /// How a new handler that a runner is to call comes into its lane.
    struct LaneArrival {
        let place: LanePlace
        let position: Int64?
        let state: LaneState
        /// When it may start; nil while it waits.
        let start: Timestamp?
    }

    /// Decides how a new handler comes into its lane, before it is stored.
    func arrival(at place: LanePlace) throws(HandlerError) -> LaneArrival {
        let last = try place.key.map { (key) throws(HandlerError) in
            try lastPosition(key, in: place.name)
        }
        if let last, last > 0, !BuiltInFault.forgetOrder.isOn {
            return LaneArrival(place: place, position: last + 1, state: .blocked, start: nil)
        }
        let start = try startAtOnce(in: place.name)
        return LaneArrival(
            place: place, position: last.map { $0 + 1 }, state: start == nil ? .ready : .placed, start: start)
    }

    /// Puts a new handler into its lane. It was stored with its call, and is due at its start.
    func addCalled(_ id: AnyHandlerID, in scope: HandlerScope?, _ arrival: LaneArrival) throws(HandlerError) {
        var entry = LaneEntry(id, arrival.place)
        entry.start(now)
        (entry.position, entry.state) = (arrival.position, arrival.state)
        try insert(entry)
        if let start = arrival.start {
            try admit(id, to: entry.lane, at: start)
            transaction.newDue.add(scope, wall: start)
        } else if entry.state == .ready {
            try fillLane(entry.lane)
        }
    }

    /// Has an entry wait for its place.
    ///
    /// - Returns: Whether it has one already, and may start.
    func enter(_ entry: LaneEntry) throws(HandlerError) -> Bool {
        guard [.bound, .away].contains(entry.state) else {
            if entry.state != .placed { try handlers.setDue(entry.id, nil) }
            return entry.state == .placed
        }
        var entry = try entered(entry)
        if entry.state == .ready, let start = try startAtOnce(in: entry.lane), start <= now {
            // It is due.
            entry.state = .placed
            try store(entry)
            try admit(entry.id, to: entry.lane, at: start)
            return true
        }
        try store(entry)
        try handlers.setDue(entry.id, nil)
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

    // MARK: Order

    /// The position of an entry among those with its key: its own, or the one after the last.
    private func position(of entry: LaneEntry) throws(HandlerError) -> Int64? {
        guard let key = entry.orderKey else { return nil }
        if let position = entry.position { return position }
        return try lastPosition(key, in: entry.lane) + 1
    }

    /// The position of the last entry with an order key; 0 when there is none.
    private func lastPosition(_ key: Name, in lane: Name) throws(HandlerError) -> Int64 {
        try connection.first(
            "SELECT max(position) FROM lane_entry WHERE lane = ? AND order_key = ? AND position IS NOT NULL",
            [lane, key]
        ) { $0.integer(0) } ?? 0
    }

    private func isFirst(_ entry: LaneEntry) throws(HandlerError) -> Bool {
        guard let key = entry.orderKey, let first = try firstEntry(key, in: entry.lane),
            !BuiltInFault.forgetOrder.isOn
        else { return true }
        return first.id == entry.id || first.position ?? 0 > entry.position ?? 0
    }

    // MARK: Places

    /// When an entry that comes now may start; nil when it must wait, for a place or for those that wait already.
    private func startAtOnce(in name: Name) throws(HandlerError) -> Timestamp? {
        guard let start = try lane(name).gate.nextStart(now), try firstReady(in: name) == nil else {
            return nil
        }
        return start
    }

    /// Gives a place to an entry.
    private func admit(_ id: AnyHandlerID, to name: Name, at start: Timestamp) throws(HandlerError) {
        var lane = try lane(name)
        lane.gate.admit(id, at: start, now)
        transaction.features.lanes.put(lane, name)
        transaction.newDue.placed += 1
    }

    /// Gives the free places of a lane to the entries that are first.
    ///
    /// - Parameter change: What has changed in the lane.
    func fillLane(
        _ name: Name, _ change: (inout LaneGate) -> Void = { _ in }
    ) throws(HandlerError) {
        var lane = try lane(name)
        change(&lane.gate)
        transaction.features.lanes.put(lane, name)
        if lane.isFilledLater { return }
        var placed = 0
        while let start = try self.lane(name).gate.nextStart(now), let next = try firstReady(in: name) {
            if placed == Self.mostPlaced { return try fillLater(name) }
            placed += 1
            try place(next.id, in: next.scope, at: start)
            if let turn = next.turn { try take(turn, in: name) }
            try admit(next.id, to: name, at: start)
        }
    }

    /// Gives the next free places of a lane in which a step gave as many as it may.
    func fillMore(of name: Name) throws(HandlerError) {
        transaction.features.lanes.byName[name]?.isFilledLater = false
        try fillLane(name)
    }

    private func fillLater(_ name: Name) throws(HandlerError) {
        transaction.features.lanes.byName[name]?.isFilledLater = true
        let filler = try LaneFiller(lane: name.string).durable
        _ = try transaction.binding(.outsideOfChains) { () throws(HandlerError) in
            try handlers.bind(filler, kind: .once, timing: Timing(at: now, nil))
        }
    }

    /// An entry that waits for a place, and is first.
    struct FirstEntry {
        let id: AnyHandlerID
        let scope: HandlerScope?
        /// The turn of its share; nil in a lane without shares.
        var turn: ShareTurn?
    }

    /// The first entry that waits for a place.
    private func firstReady(in name: Name) throws(HandlerError) -> FirstEntry? {
        let lane = try lane(name)
        if lane.hasNoneReady { return nil }
        let first =
            lane.gate.shareClock != nil
            ? try firstReadyByShare(in: name)
            : try connection.first(
                """
                SELECT lane_entry.handler, handler.scope FROM lane_entry JOIN handler ON handler.id = lane_entry.handler
                WHERE lane_entry.lane = ? AND lane_entry.state = \(LaneState.ready.sql)
                ORDER BY lane_entry.rank, lane_entry.handler LIMIT 1
                """, [name]
            ) {
                FirstEntry(
                    id: AnyHandlerID(rawValue: $0.integer(0)),
                    scope: $0.optionalText(1).map { HandlerScope($0) })
            }
        if first == nil { transaction.features.lanes.byName[name]?.hasNoneReady = true }
        return first
    }

    private func place(_ id: AnyHandlerID, in scope: HandlerScope?, at start: Timestamp) throws(HandlerError)
    {
        transaction.features.lanes.lastEntry = nil
        try connection.write(
            "UPDATE lane_entry SET state = \(LaneState.placed.sql) WHERE handler = ?", [id])
        // One that was canceled meanwhile is due already.
        try connection.write("UPDATE handler SET due = ? WHERE id = ? AND due IS NULL", [start, id])
        transaction.newDue.add(scope, wall: start)
    }

    // MARK: Leaving

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
    func vacate(_ entry: LaneEntry, isPassed: Bool, isUncalled: Bool = false) throws(HandlerError) {
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

    // MARK: Rules

    /// Stores the limits of a lane, and gives the places that they allow.
    func setLane(_ rule: LaneRule) throws(HandlerError) {
        try rule.check()
        try storeChanges()
        let known = try gate(of: rule.lane)
        if let known, known.concurrency == rule.concurrency, known.rate == rule.rate, rule.hasLimits {
            return
        }
        try closeLanes()
        guard let stored = known else { return try addLane(rule) }
        var gate = stored
        gate.set(rule, now)
        if rule.hasLimits || gate.isPaused {
            try store(gate, of: rule.lane)
        } else {
            try connection.write("DELETE FROM lane WHERE name = ?", [rule.lane])
            try dropShares(of: rule.lane)
        }
        // One that is canceled does not wait for a token.
        if let waiter = stored.tokenWaiter.map(AnyHandlerID.init(rawValue:)),
            try !invalidations.isToBeInvalidated(waiter)
        {
            try setDue(waiter, in: handlers.scope(of: waiter), gate.tokenAt ?? now)
        }
        try fillLane(rule.lane)
    }

    /// Makes an entry with a place due at another time.
    func setDue(_ id: AnyHandlerID, in scope: HandlerScope?, _ due: Timestamp) throws(HandlerError) {
        try handlers.setDue(id, due)
        transaction.newDue.add(scope, wall: due)
    }

    private func addLane(_ rule: LaneRule) throws(HandlerError) {
        guard rule.hasLimits else { return }
        var gate = try makeLane(rule.lane)
        gate.set(rule, now)
        try store(gate, of: rule.lane)
        try findShares(in: rule.lane)
        try fillLane(rule.lane)
    }

    /// Stores a lane without limits.
    private func makeLane(_ name: Name) throws(HandlerError) -> LaneGate {
        let count = try connection.first("SELECT count(*) FROM lane") { $0.integer(0) } ?? 0
        guard count < Lanes.maximum else {
            throw Lanes.invalid(
                "\(Lanes.maximum) lanes have limits or are paused already; remove limits that no program needs with LaneRule(name), or order by key in one lane"
            )
        }
        // These got their places while the lane had no limits.
        let running =
            try connection.first(
                "SELECT count(*) FROM lane_entry WHERE lane = ? AND state = \(LaneState.placed.sql)",
                [name]
            ) { $0.integer(0) } ?? 0
        try connection.write(
            "INSERT INTO lane(name, running, paid_until) VALUES (?, ?, 0)", [name, running])
        var gate = LaneGate()
        gate.running = Int(running)
        return gate
    }

    /// Starts nothing more in a lane, or goes on.
    func setPaused(_ isPaused: Bool, _ lane: String) throws(HandlerError) {
        let name = Name(lane)
        try Lanes.check(name)
        try closeLanes()
        let known = try gate(of: name)
        if known?.isPaused ?? false == isPaused { return }
        var gate: LaneGate
        if let known { gate = known } else { gate = try makeLane(name) }
        gate.isPaused = isPaused
        try store(gate, of: name)
        try fillLane(name)
        // A lane has a row for its limits, or because it is paused.
        guard !isPaused, gate.concurrency == nil, gate.rate == nil else { return }
        try closeLanes()
        try connection.write("DELETE FROM lane WHERE name = ?", [name])
        try dropShares(of: name)
    }
}
