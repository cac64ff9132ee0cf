/// The status of a lane, for inspection.
///
/// ```swift
/// for lane in try store.read({ try $0.lanes() }) { print(lane) }
/// // mail: 4 running, 120 waiting: all 4 places are taken
/// ```
public struct LaneStatus: Hashable, Sendable, CustomStringConvertible {
    /// Why the next handler of a lane does not start.
    ///
    /// ```swift
    /// if case .uncalled(let handler, _)? = try store.read({ try $0.laneStatus("mail") }).standstill {
    ///     print("no process calls the handler \(handler)")
    /// }
    /// ```
    public enum Standstill: Hashable, Sendable, CustomStringConvertible {
        /// A person has paused the lane; ``ReadableStore/repairs(before:limit:)`` says who.
        case paused
        /// As many handlers have a place as the lane has places.
        case full(places: Int)
        /// As many handlers have started as the rate allows. The next one starts at the time, by the wall clock.
        case rate(until: Timestamp)
        /// The first handler waits for an earlier one with its order key.
        case order(key: String, handler: AnyHandlerID, state: HandlerStatus.State, until: Timestamp?)
        /// A handler has a place and is due since that time, and no process has called it.
        case uncalled(handler: AnyHandlerID, since: Timestamp)

        public var description: String {
            switch self {
            case .paused: "it is paused until a person resumes it"
            case .full(let places): places == 1 ? "its only place is taken" : "all \(places) places are taken"
            case .rate(let until): "as many started as the rate allows; the next one starts at \(until)"
            case .order(let key, let handler, let state, let until):
                "waits for the earlier handler \(handler) with the order key '\(key)', which is \(state.rawValue)\(until.map { " until \($0)" } ?? "")"
            case .uncalled(let handler, let since):
                "the handler \(handler) may start since \(since), but no process has called it"
            }
        }
    }

    /// The limits; without any in a lane that no program has limited.
    public let rule: LaneRule
    /// The number of handlers with a place: they run, or are about to.
    public let running: Int
    /// The number of handlers that wait for a place, for the next token of the rate, or for an earlier one with their order key.
    public let waiting: Int
    /// The number of handlers that wait for a time or a repair: their next attempt, a program that knows them, requeueing.
    public let away: Int
    /// Whether a person has paused the lane.
    public let isPaused: Bool
    /// Why nothing starts, while handlers wait; else nil.
    public let standstill: Standstill?

    /// The name of the lane.
    public var name: String { rule.name }

    public var description: String {
        "\(name): \(running) running, \(waiting) waiting\(away > 0 ? ", \(away) away" : "")\(standstill.map { ": \($0)" } ?? "")"
    }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns the status of a lane. A lane without a rule and without handlers has no limits and nothing that waits.
    ///
    /// ```swift
    /// if let reason = try store.read({ try $0.laneStatus("mail") }).standstill { print("mail: \(reason)") }
    /// ```
    ///
    /// - Parameter name: The name of the lane.
    /// - Returns: Its limits, how many run and wait, and why nothing starts.
    /// - Throws: ``HandlerError`` with the codes of the store.
    /// - Complexity: In the number of handlers in the lane.
    public func laneStatus(_ name: String) throws(HandlerError) -> LaneStatus {
        let gate = try first(LaneGate.select, name, read: LaneGate.init)
        // It has a place, and starts at the time of its token.
        let waiters = gate?.tokenAt.map { $0 > now } == true ? 1 : 0
        let waiting = try entries(.ready, in: name) + entries(.blocked, in: name) + waiters
        return LaneStatus(
            rule: LaneRule(name, concurrency: gate?.concurrency, rate: gate?.rate),
            running: try entries(.placed, in: name) - waiters, waiting: waiting,
            away: try entries(.away, in: name) + entries(.bound, in: name), isPaused: gate?.isPaused ?? false,
            standstill: waiting > 0 ? try standstill(name, gate ?? LaneGate()) : nil)
    }

    /// Returns the status of every lane that has limits or handlers, in the order of their names.
    ///
    /// ```swift
    /// let stalled = try store.read { try $0.lanes() }.filter { $0.standstill != nil }
    /// ```
    ///
    /// - Returns: The lanes.
    /// - Throws: ``HandlerError`` with the codes of the store.
    /// - Complexity: In the number of handlers in lanes.
    public func lanes() throws(HandlerError) -> [LaneStatus] {
        var names = try all("SELECT name FROM lane") { $0.foreignText(0) }
        // The lane of ordered calls, which has no name, is left out.
        var last = Lanes.standing
        while let next = try first(
            "SELECT lane FROM lane_entry WHERE lane > ? ORDER BY lane LIMIT 1", last,
            read: { $0.foreignText(0) })
        {
            names.append(next)
            last = next
        }
        return try Set(names).sorted().map { (name) throws(HandlerError) in try laneStatus(name.string) }
    }

    private func entries(_ state: LaneState, in lane: String) throws(HandlerError) -> Int {
        try first(
            "SELECT count(*) FROM lane_entry WHERE lane = ? AND state = ?", lane, state.rawValue,
            read: { Int($0.quantity(0)) }) ?? 0
    }

    private func standstill(_ lane: String, _ gate: LaneGate) throws(HandlerError) -> LaneStatus.Standstill? {
        if gate.isPaused { return .paused }
        if let until = gate.tokenAt, until > now { return .rate(until: until) }
        if let places = gate.concurrency, gate.running >= places {
            return try uncalled(in: lane) ?? .full(places: places)
        }
        let token = gate.nextToken(now)
        if try entries(.ready, in: lane) > 0 {
            return token > now ? .rate(until: token) : try uncalled(in: lane)
        }
        return try obstacle(in: lane)
    }

    /// The entry that has been due for the longest time and that no process has called.
    private func uncalled(in lane: String) throws(HandlerError) -> LaneStatus.Standstill? {
        try first(
            """
            SELECT handler.id, handler.due FROM lane_entry JOIN handler ON handler.id = lane_entry.handler
            WHERE lane_entry.lane = ? AND lane_entry.state = \(LaneState.placed.sql)
                AND handler.state = \(Transaction.State.pending.sql) AND handler.due < ?
            ORDER BY handler.due, handler.id
            """, lane, now - LaneStatus.shortWait,
            read: { .uncalled(handler: AnyHandlerID(rawValue: $0.integer(0)), since: $0.timestamp(1)) })
    }

    /// The earlier entry for which the first of the blocked ones waits.
    private func obstacle(in lane: String) throws(HandlerError) -> LaneStatus.Standstill? {
        let key = try first(
            """
            SELECT order_key FROM lane_entry WHERE lane = ? AND state = \(LaneState.blocked.sql)
            ORDER BY rank, handler LIMIT 1
            """, lane, read: { $0.text(0) })
        guard let key else { return nil }
        return try first(
            """
            SELECT handler.id, handler.state, handler.due FROM lane_entry JOIN handler ON handler.id = lane_entry.handler
            WHERE lane_entry.lane = ? AND lane_entry.order_key = ? AND lane_entry.position IS NOT NULL
            ORDER BY lane_entry.position LIMIT 1
            """, lane, key
        ) { row in
            .order(
                key: key, handler: AnyHandlerID(rawValue: row.integer(0)),
                state: .init(Transaction.State(rawValue: row.integer(1)) ?? .quarantined),
                until: row.optionalTimestamp(2))
        }
    }
}

extension LaneStatus {
    /// How long a handler with a place may be due before the status says so.
    fileprivate static let shortWait = Duration.seconds(1)
}
