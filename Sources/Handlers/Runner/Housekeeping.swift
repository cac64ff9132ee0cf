/// Work of a runner beside what is due.
struct Housekeeping {
    /// The number of rows that one step changes.
    private static let limit = 500
    /// The most steps that drop signals, one after the other.
    private static let mostPieces = 100

    /// After which ending the search for old ones goes on; nil before it begins.
    private var pruned: AnyHandlerID?
    /// When old endings were last removed, by the monotonic clock.
    private var prunedAt: Duration?
    /// When calls that a wrong wall clock had put off were last looked for, by the monotonic clock.
    private var hastenedAt: Duration?

    /// When places in lanes were last looked at, and when they are to be next, by the monotonic clock; nil for never.
    private var (recalledAt, nextRecall): (Duration?, Duration?) = (nil, nil)

    /// Frees places in lanes that no process uses.
    ///
    /// - Parameters:
    ///   - isAsked: Whether there may be new ones. They are looked at once in ``Lanes/placePatience``.
    ///   - longest: The longest time between two looks while handlers have places that no process uses yet.
    ///   - canCall: Whether this process calls handlers of a scope and caller.
    /// - Returns: The time until the next look, 0 when handlers have become due; nil when there is none.
    mutating func recallPlaces(
        _ store: HandlerStore, isAsked: Bool, longest: Duration,
        _ canCall: (HandlerScope?, Int64) -> Bool
    ) throws -> Duration? {
        let now = store.time.monotonic()
        if isAsked {
            let earliest = recalledAt.map { $0 + Lanes.placePatience } ?? now
            nextRecall = min(nextRecall ?? earliest, earliest)
        }
        guard let next = nextRecall else { return nil }
        if next > now { return next - now }
        let look = try store.step { try $0.transaction.lanes.recallPlaces(longest: longest, canCall) }
        recalledAt = now
        nextRecall = look.rest.map { now + $0 }
        return look.isChanged ? .zero : look.rest
    }

    /// Calls now what was put off while the wall clock was ahead; timers go by that clock, and wait.
    ///
    /// - Parameter isClockSet: Whether the wall clock is known to have been set since.
    mutating func hasten(_ store: HandlerStore, isClockSet: Bool = false) throws {
        let now = store.time.monotonic()
        let isTime = isClockSet || hastenedAt.map { now - $0 >= RunnerLoop.longestWait } ?? true
        // A worker has no time for what may be a long list.
        guard store.role == .main, isTime else { return }
        hastenedAt = now
        let longest = store.registry.longestRetryDelay
        try store.step { try $0.transaction.dueRows.hasten(beyond: longest, limit: Self.limit) }
    }

    /// Removes a few old endings and signals that nobody waited for, if it is time for that.
    ///
    /// - Parameter keeping: Returns how long endings are kept; nil for ever.
    /// - Returns: Whether the search goes on.
    mutating func prune(_ store: HandlerStore, keeping: () -> Duration?) throws -> Bool {
        let now = store.time.monotonic()
        if pruned == nil, let last = prunedAt, now - last < RunnerLoop.longestWait { return false }
        prunedAt = now
        let start = pruned ?? AnyHandlerID(rawValue: 0)
        let before = keeping().map { store.time.wall() - $0 }
        // Whoever sends signals that nobody takes sends them faster than one look in a minute would drop them.
        var pieces = 0
        while pieces < Self.mostPieces,
            try store.step({ try $0.transaction.keys.dropExpiredSignals(limit: Self.limit) })
        {
            pieces += 1
        }
        guard let before else { return false }
        pruned = try store.step {
            try $0.transaction.repairs.pruneEndings(before: before, after: start, limit: Self.limit)
        }
        return pruned != nil
    }
}
