/// Repair of quarantined and parked handlers, and removal of old endings.
struct Repairs: TransactionTable {
    let transaction: Transaction

    /// Requeues a quarantined or parked handler with its stored call.
    func requeue(_ id: AnyHandlerID) throws {
        guard try requeue("id = ?", [id]) == 1 else {
            guard let state = try handlers.state(of: id) else { throw try handlers.noSuchHandler(id) }
            throw HandlerError(
                .noSuchHandler,
                "the handler \(id) is \(HandlerStatus.State(state).rawValue), not quarantined or parked; there is nothing to requeue"
            )
        }
    }

    /// The same for all with a name, or for all.
    func requeueAll(named name: String?) throws -> Int {
        try name.map { try requeue("name = ?", [$0]) } ?? requeue("1 = 1", [])
    }

    /// Gives the handlers another chance that were parked because a program did not know them and that this one does.
    func requeueKnown() throws -> Int {
        let parked = try connection.all(
            "SELECT DISTINCT name, version FROM handler WHERE \(State.parked.condition)"
        ) { (name: $0.foreignText(0), version: Int($0.integer(1))) }
        var count = 0
        for (name, version) in parked where knows(name, version) {
            count += try requeue("state = \(State.parked.sql) AND name = ? AND version = ?", [name, version])
        }
        return count
    }

    private func knows(_ name: Name, _ version: Int) -> Bool {
        registry.definition(named: name).map { version <= $0.version } ?? false
    }

    /// Handlers of one name that older programs have parked, which this one can call.
    struct ParkedCalls {
        let scope: HandlerScope?
        let name: Name
        let version: Int
        var lacks = Lack.Stored()
    }

    /// The handlers that older programs have parked since this one started, and that it can call.
    func parkedByOlder() throws(HandlerError) -> [ParkedCalls] {
        try connection.all(
            """
            SELECT DISTINCT scope, name, version, lacks, lacks_name, lacks_version FROM handler
            WHERE \(State.parked.condition) AND call IS NOT NULL
            """
        ) {
            ParkedCalls(
                scope: $0.optionalText(0).map { HandlerScope($0) }, name: $0.foreignText(1),
                version: Int($0.integer(2)),
                lacks: Lack.Stored(
                    code: $0.optionalInteger(3), name: $0.isNull(4) ? nil : $0.foreignText(4),
                    version: $0.optionalInteger(5)))
        }.filter { knows($0.name, $0.version) && $0.lacks.isGone(in: registry) }
    }

    /// Makes some of them due, so that this step can call them before an older program finds them again.
    func requeue(_ parked: ParkedCalls, limit: Int) throws {
        guard let definition = registry.definition(named: parked.name) else { return }
        // Parked by a program that did not know who calls it.
        try connection.write(
            """
            UPDATE handler SET lane = ? WHERE \(State.parked.condition) AND name = ? AND version = ?
            """, [Caller(definition).rawValue, parked.name, parked.version])
        _ = try requeue(
            """
            id IN (SELECT id FROM handler WHERE \(State.parked.condition) AND call IS NOT NULL
                AND scope IS NOT DISTINCT FROM ? AND name = ? AND version = ? AND lacks IS NOT DISTINCT FROM ?
                AND lacks_name IS NOT DISTINCT FROM ? AND lacks_version IS NOT DISTINCT FROM ? ORDER BY id LIMIT ?)
            """,
            [
                parked.scope?.rawValue, parked.name, parked.version, parked.lacks.code, parked.lacks.name,
                parked.lacks.version, limit,
            ])
    }

    private func requeue(_ condition: String, _ values: [any SQLConvertible]) throws -> Int {
        try Failpoint.beforeRequeue.hit()
        // Without the call it was made with, it can only wait to be called again.
        let count = try connection.execute(
            """
            UPDATE handler SET state = \(State.pending.sql), due = CASE WHEN call IS NOT NULL THEN CAST(? AS BIGINT) END,
                attempts = 0, deaths = 0, reason = NULL
            WHERE state <> \(State.pending.sql) AND state IN (\(State.parked.sql), \(State.quarantined.sql))
                AND \(condition)
            """, [now] + values)
        if count > 0 { transaction.newDue.isAnywhere = true }
        return count
    }

    /// The maximum number of stored endings, regardless of age: a stranger's message may end a handler.
    static let maximumEndings = 1_000_000

    /// Forgets endings from before `time`, and those that are too many, among the `limit` that follow the handler `start`.
    ///
    /// - Returns: Where to go on; nil at the end of the table.
    func pruneEndings(before time: Timestamp, after start: AnyHandlerID, limit: Int) throws(HandlerError)
        -> AnyHandlerID?
    {
        let last = try connection.first(
            """
            SELECT max(handler), count(*) FROM
                (SELECT handler FROM ending WHERE handler > ? ORDER BY handler LIMIT ?) AS following
            """, [start, limit]
        ) { ($0.optionalInteger(0), $0.integer(1)) }
        try activity.prune()
        guard let last, let handler = last.0 else { return nil }
        try connection.write(
            """
            DELETE FROM ending WHERE handler > ? AND handler <= ?
                AND (ended_at < ? OR handler <= (SELECT max(handler) FROM ending) - ?)
                AND NOT EXISTS (SELECT 1 FROM join_child WHERE join_child.handler = ending.handler)
            """, [start, handler, time, Self.maximumEndings])
        try connection.write(
            """
            DELETE FROM ending_detail WHERE handler > ? AND handler <= ?
                AND NOT EXISTS (SELECT 1 FROM ending WHERE ending.handler = ending_detail.handler)
            """, [start, handler])
        try failures.prune(after: start, through: handler)
        return last.1 < limit ? nil : AnyHandlerID(rawValue: handler)
    }
}
