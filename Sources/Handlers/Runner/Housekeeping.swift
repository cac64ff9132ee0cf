/// What a runner does now and then, beside what is due.
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

    /// When places in lanes were last taken back, by the monotonic clock.
    private var recalledAt: Duration?

    /// How long it is until places in lanes may be taken back; 0 for now, and then they are.
    mutating func restOfPlaces(_ store: HandlerStore) -> Duration {
        let now = store.time.monotonic()
        let rest = (recalledAt.map { $0 + Transaction.placePatience } ?? now) - now
        if rest <= .zero { recalledAt = now }
        return max(.zero, rest)
    }

    /// Calls now what was put off while the wall clock was ahead; timers go by that clock, and wait.
    mutating func hasten(_ store: HandlerStore) throws {
        let now = store.time.monotonic()
        // A worker has no time for what may be a long list.
        guard store.role == .main, hastenedAt.map({ now - $0 >= RunnerLoop.longestWait }) ?? true else {
            return
        }
        hastenedAt = now
        let longest = store.registry.longestRetryDelay
        try store.step { try $0.transaction.hasten(beyond: longest, limit: Self.limit) }
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
            try store.step({ try $0.transaction.dropExpiredSignals(limit: Self.limit) })
        {
            pieces += 1
        }
        guard let before else { return false }
        pruned = try store.step {
            try $0.transaction.pruneEndings(before: before, after: start, limit: Self.limit)
        }
        return pruned != nil
    }
}
