import Synchronization

/// What this process has counted since it stored its counts last.
///
/// ```text
///   Happening ── after COMMIT ──▶ counted ── with a step, every 10 s ──▶ activity: ten minutes, name
///                                         ── when the store closes ───▶
/// ```
/// A process that is killed loses the counts of 10 s at most. Nothing but statistics is made of them.
final class ActivityCounter: Sendable {
    private struct State {
        var counted: [Name: HandlerActivity] = [:]
        var storedAt: Timestamp?
    }

    private let state = Mutex(State())
    /// The time between two times at which counts are stored.
    private static let pause = Duration.seconds(10)

    /// Counts what a step did that has committed.
    func add(_ happenings: [Happening]) {
        if happenings.isEmpty { return }
        state.withLock { state in
            for happening in happenings {
                state.counted[happening.name, default: HandlerActivity()].add(happening.kind)
            }
        }
    }

    /// Returns what is to be stored now; nil when it is too early, or there is nothing.
    func due(_ now: Timestamp, isLast: Bool = false) -> [Name: HandlerActivity]? {
        state.withLock { state in
            if state.counted.isEmpty { return nil }
            if isLast { return state.counted }
            // A process that has just started has no time for it: the first counts travel as late as later ones.
            guard let last = state.storedAt else {
                state.storedAt = now
                return nil
            }
            // A clock that was set back does not delay it.
            return last <= now && now - last < Self.pause ? nil : state.counted
        }
    }

    /// Forgets what was stored.
    func stored(_ stored: [Name: HandlerActivity], at now: Timestamp) {
        state.withLock { state in
            state.storedAt = now
            for (name, activity) in stored {
                if state.counted[name] == activity {
                    state.counted[name] = nil
                } else {
                    state.counted[name]?.subtract(activity)
                }
            }
        }
    }
}

/// The stored statistics: one row for ten minutes and a name, of all processes together.
struct ActivityTable: TransactionTable {
    let transaction: Transaction
    /// The time of a row in milliseconds.
    static let period: Int64 = 600_000
    /// How long rows are kept.
    static let age = Duration.seconds(7 * 86_400)
    /// The maximum number of names in ten minutes; further ones count as ``other``.
    static let mostNames = 200
    /// The name under which further names are counted.
    static let other: Name = "other"

    /// The start of the rows that count all time.
    static let allTime: Int64 = 0

    /// Adds counts to those of the present ten minutes, and to those of all time.
    func add(_ counted: [Name: HandlerActivity]) throws(HandlerError) {
        let start = now.milliseconds - now.milliseconds % Self.period
        for start in Set([start, Self.allTime]).sorted() { try add(counted, at: start) }
    }

    private func add(_ counted: [Name: HandlerActivity], at start: Int64) throws(HandlerError) {
        var known: [Name: HandlerActivity] = [:]
        for (name, activity) in try connection.all(Self.selectOne, [start], Self.read) {
            known[name] = activity
        }
        var changed: Set<Name> = []
        for (name, activity) in counted.sorted(by: { $0.key < $1.key }) {
            let key = known[name] != nil || known.count < Self.mostNames ? name : Self.other
            known[key, default: HandlerActivity()].add(activity)
            changed.insert(key)
        }
        for name in changed.sorted() {
            guard let activity = known[name] else { continue }
            try connection.write(
                """
                INSERT INTO handler_activity(start, name, bound, results, errors, timeouts, invalidated, retried, parked,
                    quarantined, failed, waits, runs)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT(start, name) DO UPDATE SET bound = excluded.bound, results = excluded.results,
                    errors = excluded.errors, timeouts = excluded.timeouts, invalidated = excluded.invalidated,
                    retried = excluded.retried, parked = excluded.parked, quarantined = excluded.quarantined,
                    failed = excluded.failed, waits = excluded.waits, runs = excluded.runs
                """,
                [start, name] + activity.numbers + [activity.waits.bytes, activity.runs.bytes])
        }
    }

    /// Forgets old rows.
    func prune() throws(HandlerError) {
        try connection.write(
            "DELETE FROM handler_activity WHERE start > ? AND start < ?", [Self.allTime, now - Self.age])
    }

    fileprivate static let select = """
        SELECT name, bound, results, errors, timeouts, invalidated, retried, parked, quarantined, failed, waits, runs
        FROM handler_activity WHERE start >= ? ORDER BY start, name
        """
    fileprivate static let selectOne = """
        SELECT name, bound, results, errors, timeouts, invalidated, retried, parked, quarantined, failed, waits, runs
        FROM handler_activity WHERE start = ? ORDER BY start, name
        """

    fileprivate static func read(_ row: borrowing Row) -> (Name, HandlerActivity) {
        var activity = HandlerActivity()
        var numbers: [Int64] = []
        for column in 1...9 { numbers.append(row.quantity(column)) }
        activity.numbers = numbers
        (activity.waits, activity.runs) = (Durations(row.blob(10)), Durations(row.blob(11)))
        return (row.foreignText(0), activity)
    }
}

extension ActivityTable {
    /// Names that differ in memory may be equal as `String`.
    fileprivate static func named(_ found: [Name: HandlerActivity]) -> [String: HandlerActivity] {
        Dictionary(found.map { ($0.key.string, $0.value) }) { first, second in
            var sum = first
            sum.add(second)
            return sum
        }
    }
}

extension TransactionTable {
    var activity: ActivityTable { ActivityTable(transaction: transaction) }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns what happened to handlers since a time, by name: what all processes have done, also those that have ended.
    ///
    /// Statistics of seven days are kept, in parts of ten minutes; of 200 names in each, further ones count as `other`. A process
    /// stores its counts every 10 s and when it closes the store; one that is killed loses those of 10 s at most.
    ///
    /// - Parameter start: The time, by the wall clock; the ten minutes in which it lies count as a whole.
    /// - Returns: The activity of each name.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func activity(since start: Timestamp) throws(HandlerError) -> [String: HandlerActivity] {
        var found: [Name: HandlerActivity] = [:]
        let start = max(1, start.milliseconds - start.milliseconds % ActivityTable.period)
        for (name, activity) in try all(ActivityTable.select, start, read: ActivityTable.read) {
            found[name, default: HandlerActivity()].add(activity)
        }
        return ActivityTable.named(found)
    }

    /// Returns what happened to handlers since the store was made, by name; of 200 names, further ones count as `other`.
    ///
    /// - Returns: The activity of each name.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func totalActivity() throws(HandlerError) -> [String: HandlerActivity] {
        ActivityTable.named(
            Dictionary(
                try all(ActivityTable.selectOne, ActivityTable.allTime, read: ActivityTable.read),
                uniquingKeysWith: { first, _ in first }))
    }
}
