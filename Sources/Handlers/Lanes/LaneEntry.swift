/// The state of a handler in its lane.
package enum LaneState: Int64, CaseIterable, StoredState {
    /// The handler was not called yet; its rank counts from the call.
    case bound = 0
    /// It waits for an earlier entry with its order key.
    case blocked = 1
    /// It waits for a place.
    case ready = 2
    /// It has a place: it is leased, or due at the time at which it may start.
    case placed = 3
    /// It waits for its next attempt, or for a repair.
    case away = 4
}

/// A handler in a lane.
///
/// ```text
///                        ╭─ an earlier one has its order key ──▶ blocked ╮
///   bound ── called ─────┤                                              ▼
///     ▲                  ╰──────────────────────────────────────▶ ready ──▶ placed ──▶ ended
///     │                                                           ▲  ╰───────╮ │ fails, or is not called
///     ╰── only a handler that was bound before its call           ╰── due ◀─ away
/// ```
/// The row of the handler is due while the entry is away with a time or placed. The row of a blocked or ready entry has no due time, so
/// no runner looks at it.
struct LaneEntry: Equatable {
    let id: AnyHandlerID
    let lane: Name
    var state: LaneState
    var rank: Int64
    let orderKey: Name?
    var position: Int64?
    /// Its share of the lane; nil while no entry of the lane has had one.
    var share: Name?
    let weight: Int

    init(
        _ id: AnyHandlerID, lane: Name, state: LaneState, rank: Int64, orderKey: Name?, position: Int64?,
        share: Name? = nil, weight: Int = 1
    ) {
        (self.id, self.lane, self.state, self.rank) = (id, lane, state, rank)
        (self.orderKey, self.position) = (orderKey, position)
        (self.share, self.weight) = (share, weight)
    }

    /// The entry of a new handler.
    init(_ id: AnyHandlerID, _ place: LanePlace) {
        self.init(
            id, lane: place.name, state: .bound,
            rank: -Int64(place.priority) * LanePlace.agingTime.milliseconds, orderKey: place.key,
            position: nil, share: place.shareName, weight: place.weight)
    }

    /// Counts the rank from the call.
    mutating func start(_ now: Timestamp) {
        if state == .bound { rank += now.milliseconds }
    }
}

extension Lanes {
    func laneEntry(of id: AnyHandlerID) throws(HandlerError) -> LaneEntry? {
        // Read when the handler starts, it is needed again when the handler has ended.
        if let last = transaction.features.lanes.lastEntry, last.id == id { return last }
        transaction.features.lanes.lastEntry = try connection.first(
            "SELECT handler, lane, state, rank, order_key, position, share, weight FROM lane_entry WHERE handler = ?",
            [id],
            LaneEntry.init)
        return transaction.features.lanes.lastEntry
    }

    /// The first entry with an order key.
    func firstEntry(_ key: Name, in lane: Name) throws(HandlerError) -> LaneEntry? {
        try connection.first(
            """
            SELECT handler, lane, state, rank, order_key, position, share, weight FROM lane_entry
            WHERE lane = ? AND order_key = ? AND position IS NOT NULL ORDER BY position LIMIT 1
            """, [lane, key], LaneEntry.init)
    }

    func insert(_ new: LaneEntry) throws(HandlerError) {
        var entry = new
        try share(&entry)
        try connection.write(
            "INSERT INTO lane_entry(handler, lane, state, rank, order_key, position, share, weight) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                entry.id, entry.lane, entry.state.rawValue, entry.rank, entry.orderKey, entry.position,
                entry.share, entry.weight == 1 ? nil : entry.weight,
            ])
    }

    func store(_ changed: LaneEntry) throws(HandlerError) {
        transaction.features.lanes.lastEntry = nil
        var entry = changed
        try share(&entry)
        try connection.write(
            "UPDATE lane_entry SET state = ?, rank = ?, position = ?, share = ? WHERE handler = ?",
            [entry.state.rawValue, entry.rank, entry.position, entry.share, entry.id])
    }

    /// An entry that is about to wait for a place waits with its share.
    private func share(_ entry: inout LaneEntry) throws(HandlerError) {
        guard entry.state == .ready else { return }
        transaction.features.lanes.byName[entry.lane]?.hasNoneReady = false
        entry.share = try shareOfWaiting(entry)
    }
}

extension LaneEntry {
    fileprivate init(_ row: borrowing Row) {
        self.init(
            AnyHandlerID(rawValue: row.integer(0)), lane: row.foreignText(1),
            state: LaneState(rawValue: row.integer(2)) ?? .away, rank: row.integer(3),
            orderKey: row.optionalForeignText(4), position: row.optionalInteger(5),
            share: row.optionalForeignText(6), weight: row.optionalInteger(7).map { Int($0) } ?? 1)
    }
}

extension LaneGate {
    static let select =
        "SELECT concurrency, rate, rate_period, running, paid_until, token_waiter, token_at, rate_at_once, share_clock, is_paused FROM lane WHERE name = ?"

    init(_ row: borrowing Row) {
        self.init(
            concurrency: row.optionalInteger(0).map { Int($0) },
            rate: row.isNull(1)
                ? nil
                : LaneRate(
                    Int(row.quantity(1)), per: row.duration(2), atOnce: row.optionalInteger(7).map { Int($0) }
                ),
            running: Int(row.quantity(3)), paidUntil: row.integer(4), tokenWaiter: row.optionalInteger(5),
            tokenAt: row.optionalTimestamp(6), shareClock: row.optionalInteger(8),
            isPaused: row.integer(9) != 0)
    }
}
