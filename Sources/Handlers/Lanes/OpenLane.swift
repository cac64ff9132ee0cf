/// A lane as a step has read and changed it.
///
/// A step may call many handlers of a lane. It reads the lane's gate once and stores it once: with its commit, or before a statement that
/// reads it.
struct OpenLane {
    /// The gate as it is stored; nil for a lane without limits.
    fileprivate(set) var stored: LaneGate?
    /// The gate as the step has changed it.
    var gate: LaneGate
    /// Whether no entry is known to wait for a place: so none is looked for.
    var hasNoneReady = false
    /// Whether this step gives no more places, as a ``LaneFiller`` does.
    var isFilledLater = false

    fileprivate init(stored: LaneGate?) {
        self.stored = stored
        gate = stored ?? LaneGate()
    }

    fileprivate var isChanged: Bool { stored != nil && stored != gate }
}

/// The lanes that a step has read.
struct OpenLanes {
    /// By their names.
    var byName: [Name: OpenLane] = [:]
    /// The names of those with a gate that ``Lanes/storeChanges()`` has to store.
    fileprivate(set) var changed: Set<Name> = []
    /// The entry that was read last.
    var lastEntry: LaneEntry?

    /// Replaces a lane by the changed one.
    mutating func put(_ lane: OpenLane, _ name: Name) {
        byName[name] = lane
        if lane.isChanged { changed.insert(name) }
    }

    /// Forgets what was read and changed since the lanes were as `earlier`.
    mutating func undo(to earlier: (byName: [Name: OpenLane], changed: Set<Name>)) {
        (byName, changed) = earlier
        lastEntry = nil
    }
}

extension Lanes {
    /// The lane as this step has changed it. Whoever changes it puts it back.
    func lane(_ name: Name) throws(HandlerError) -> OpenLane {
        if let lane = transaction.features.lanes.byName[name] { return lane }
        let lane = OpenLane(stored: try gate(of: name))
        transaction.features.lanes.byName[name] = lane
        return lane
    }

    /// Stores the gates that this step has changed.
    func storeChanges() throws(HandlerError) {
        if transaction.features.lanes.changed.isEmpty { return }
        for name in transaction.features.lanes.changed {
            guard let lane = transaction.features.lanes.byName[name], lane.isChanged else { continue }
            try store(lane.gate, of: name)
            transaction.features.lanes.byName[name]?.stored = lane.gate
        }
        transaction.features.lanes.changed = []
    }

    /// Stores the gates that this step has changed, and reads gates and entries again when they are needed: they are about to change in
    /// other ways than by the functions for one lane.
    func closeLanes() throws(HandlerError) {
        try storeChanges()
        transaction.features.lanes = OpenLanes()
    }

    /// The gate as it is stored.
    func gate(of lane: Name) throws(HandlerError) -> LaneGate? {
        try connection.first(LaneGate.select, [lane], LaneGate.init)
    }

    func store(_ gate: LaneGate, of lane: Name) throws(HandlerError) {
        try connection.write(
            """
            UPDATE lane SET concurrency = ?, rate = ?, rate_period = ?, running = ?, paid_until = ?, token_waiter = ?,
                token_at = ?, rate_at_once = ?, share_clock = ?, is_paused = ?
            WHERE name = ?
            """,
            [
                gate.concurrency, gate.rate?.count, gate.rate?.period.milliseconds, gate.running,
                gate.paidUntil, gate.tokenWaiter, gate.tokenAt, gate.rate?.atOnce, gate.shareClock,
                gate.isPaused,
                lane,
            ])
    }
}
