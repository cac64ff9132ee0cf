/// The state of a handler that has not ended, for inspection.
///
/// ```swift
/// for handler in try store.read({ try $0.handlers(in: .quarantined) }) {
///     print(handler.id, handler.name, handler.reason ?? "")
/// }
/// ```
public struct HandlerStatus: Hashable, Sendable, CustomStringConvertible {
    /// State of a handler.
    public enum State: String, Hashable, Sendable, Codable, CaseIterable {
        /// The handler waits for its call or for its time.
        case pending
        /// No program that ran here knew it, or only an older version of it.
        case parked
        /// It failed for good; see ``HandlerStatus/reason``.
        case quarantined
        /// A process runs it now.
        case running

        /// The state as it is stored.
        package var stored: Transaction.State {
            switch self {
            case .pending: .pending
            case .parked: .parked
            case .quarantined: .quarantined
            case .running: .leased
            }
        }
    }

    /// The handler's row.
    public let id: AnyHandlerID
    /// The stored name.
    public let name: String
    /// The version of its arguments.
    public let version: Int
    /// The bound arguments, with secrets masked.
    public let arguments: String
    /// Whether it stays after a call.
    public let isStanding: Bool
    /// State of the handler.
    public let state: State
    /// When it was bound, by the wall clock.
    public let boundAt: Timestamp
    /// When a runner calls or expires it, by the wall clock. Nil without such a time.
    ///
    /// A timeout counts connected time instead and is not shown here.
    public let dueAt: Timestamp?
    /// When the process that runs it started to, by the wall clock. Nil while no process runs it, and if an older version of this
    /// library leased it.
    public let startedAt: Timestamp?
    /// Number of runs since it was bound or requeued. Runs in which the process died count, too.
    public let attempts: Int
    /// Number of processes that died while it ran.
    public let deaths: Int
    /// Reason of its quarantine, parking or last failure.
    public let reason: String?
    /// Stored bytes of a call of a standing handler. Their sum is limited for each handler. Nil for a handler itself.
    public let size: Int64?
    /// The handler at the root of the chain that led to it.
    public let trace: AnyHandlerID
    /// What the program calls it; see ``Step/bind(_:key:ifTaken:timeout:deadline:in:)``.
    public let key: String?

    public var description: String {
        var text = "\(id) \(name)@\(version)\(arguments) \(state.rawValue)"
        if let key { text += " key '\(key)'" }
        if let dueAt { text += " due \(dueAt)" }
        if attempts > 0 { text += " attempts \(attempts)" }
        if let reason { text += ": \(reason)" }
        return text
    }
}

extension HandlerStatus {
    static func select(_ condition: String) -> String {
        """
        SELECT id, name, version, arguments, kind, state, bound_at, due, attempts, deaths, reason, size,
            trace, (SELECT key FROM handler_key WHERE handler_key.handler = handler.id),
            CASE WHEN state = \(Transaction.State.leased.sql) THEN leased_at END
        FROM handler WHERE \(condition)
        """
    }

    /// The condition for a state and a lane, with one parameter: the name of the lane, empty for none.
    package static func condition(in state: State?, lane: String?) -> String {
        (state.map { "\($0.stored.condition) AND " } ?? "")
            + (lane == nil ? "? = ''" : "id IN (SELECT handler FROM lane_entry WHERE lane = ?)")
    }

    static func read(_ row: borrowing Row) throws(HandlerError) -> HandlerStatus {
        let id = AnyHandlerID(rawValue: row.integer(0))
        return HandlerStatus(
            id: id, name: row.text(1), version: Int(row.quantity(2)), arguments: Masking.text(row.blob(3)),
            isStanding: row.integer(4) == Transaction.Kind.standing.rawValue,
            state: .init(Transaction.State(rawValue: row.integer(5)) ?? .quarantined),
            boundAt: row.timestamp(6), dueAt: row.optionalInteger(7).map(Timestamp.init(milliseconds:)),
            startedAt: row.optionalTimestamp(14), attempts: Int(row.quantity(8)),
            deaths: Int(row.quantity(9)), reason: row.optionalText(10), size: row.optionalQuantity(11),
            trace: row.optionalInteger(12).map(AnyHandlerID.init(rawValue:)) ?? id, key: row.optionalText(13))
    }

    /// How many rows are read at a time while their arguments are compared.
    static let piece = 500

    /// Returns whether the handler was bound with such arguments.
    ///
    /// - Parameter bound: Its bound arguments, as they are stored.
    func holds(_ arguments: Record, _ bound: [UInt8]) throws(HandlerError) -> Bool {
        if arguments.isEmpty { return true }
        let record = try ArgumentCoding.record(bound, handler: name)
        return arguments.values.allSatisfy { record[$0.key] == $0.value }
    }
}

extension HandlerStatus.State {
    init(_ state: Transaction.State) { self = Self.allCases.first { $0.stored == state } ?? .quarantined }
}
