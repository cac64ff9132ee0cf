extension TransactionTable {
    var lanes: Lanes { Lanes(transaction: transaction) }
}

/// What becomes of the entries of handlers that are called, fail or end.
extension Lanes: HandlerFeature {
    static let relations = Relations.inLane

    /// If not, it waits in its lane.
    func mayCall(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        guard let entry = try laneEntry(of: id) else { return true }
        guard entry.state == .placed else { return try enter(entry) }
        let gate = try lane(entry.lane).gate
        if gate.isPaused {
            // It got its place before, and gets one again.
            var waiting = entry
            waiting.state = .ready
            try store(waiting)
            try handlers.setDue(id, nil)
            try fillLane(entry.lane) { $0.leave(id, isUncalled: true) }
            return false
        }
        guard gate.rate != nil else { return true }
        if let time = gate.delay(of: id, now) {
            try handlers.setDue(id, time)
            return false
        }
        // Its token came. The next entry waits for the token after that.
        try fillLane(entry.lane) { $0.started(id, now) }
        try delayWaiter(in: entry.lane, since: gate)
        return true
    }

    /// Makes the entry that waits for a token due at its new time: by a strict rate it waits for the call of the one before.
    private func delayWaiter(in name: Name, since earlier: LaneGate) throws(HandlerError) {
        let gate = try lane(name).gate
        guard let waiter = gate.tokenWaiter, waiter == earlier.tokenWaiter, let token = gate.tokenAt,
            token != earlier.tokenAt
        else { return }
        let id = AnyHandlerID(rawValue: waiter)
        // One that is canceled does not wait for a token.
        if try invalidations.isToBeInvalidated(id) { return }
        try setDue(id, in: handlers.scope(of: id), token)
    }

    func kept(_ id: AnyHandlerID, _ stored: StoredHandler, _ unfinished: UnfinishedCall) throws(HandlerError)
    {
        try settle(id, unfinished)
    }

    /// Settles the entry of a handler that could not run.
    func settle(_ id: AnyHandlerID, _ unfinished: UnfinishedCall) throws(HandlerError) {
        guard let entry = try laneEntry(of: id) else { return }
        switch unfinished.state {
        case .pending where unfinished.isQueued: _ = try enter(entry)
        case .pending, .parked: try moveAway(entry, isPassed: false)
        case .quarantined, .leased: try moveAway(entry, isPassed: true)
        }
    }

    func quarantined(_ id: AnyHandlerID) throws(HandlerError) {
        guard let entry = try laneEntry(of: id) else { return }
        try moveAway(entry, isPassed: true)
    }

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        guard let entry = try laneEntry(of: id) else { return }
        transaction.features.lanes.lastEntry = nil
        try connection.write("DELETE FROM lane_entry WHERE handler = ?", [id])
        try vacate(entry, isPassed: true)
    }
}
