import Handlers

/// What the overview shows.
extension AnswerContext {
    /// The number of names that are shown of quarantined and of parked handlers, and of those that failed.
    private static let shownNames = 8

    func summary(_ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let hour = try Self.total(snapshot.activity(since: snapshot.now - .seconds(3600)))
        let broken: [HandlerStatus.State] = [.quarantined, .parked]
        let stalled = try snapshot.lanes().filter { $0.isPaused || $0.waiting > 0 && $0.standstill != nil }
        let actions = hasWriter ? access.actions : []
        return [
            "store": .string(reader.path), "role": .string(actions.isEmpty ? "viewer" : "operator"),
            "by": .text(access.name),
            "actions": .array(actions.map(\.rawValue).sorted().map { .string($0) }),
            "counts": try counts(snapshot),
            "broken": .array(try broken.compactMap { (state) throws in try names(in: state, snapshot) }),
            "oldestDueAt": .time(try snapshot.oldestDue()), "hour": .activity(nil, hour),
            "failing": .array(try failing(snapshot)),
            "lanes": .array(stalled.prefix(50).map { .lane($0) }), "missed": .array(try missed(snapshot)),
            "nodes": .array(try nodes(snapshot)),
        ]
    }

    private func counts(_ snapshot: borrowing Snapshot) throws -> JSONValue {
        var counts: [String: JSONValue] = [:]
        var others: Int64 = 0
        let states: [HandlerStatus.State] = [.running, .parked, .quarantined]
        for state in states {
            let count = try Self.count("handler WHERE \(state.stored.condition)", snapshot)
            counts[state.rawValue] = .integer(count)
            others += count
        }
        // Counting a million rows takes longer than all the rest of this answer.
        let all = try counter.value { try Self.count("handler", snapshot) }
        counts["waiting"] = .integer(max(0, all - others))
        return .object(counts)
    }

    static func count(_ rows: String, _ snapshot: borrowing Snapshot) throws -> Int64 {
        try snapshot.first("SELECT count(*) FROM \(rows)", read: { $0.integer(0) }) ?? 0
    }

    private func names(in state: HandlerStatus.State, _ snapshot: borrowing Snapshot) throws -> JSONValue? {
        let names = try snapshot.all(
            """
            SELECT name, count(*) FROM handler WHERE \(state.stored.condition)
            GROUP BY name ORDER BY count(*) DESC, name
            """
        ) { (name: $0.text(0), count: $0.integer(1)) }
        guard !names.isEmpty else { return nil }
        return [
            "state": .string(state.rawValue), "count": .integer(names.reduce(0) { $0 + $1.count }),
            "names": .array(names.prefix(Self.shownNames).map { .named("handler", $0.name, $0.count) }),
        ]
    }

    private func failing(_ snapshot: borrowing Snapshot) throws -> [JSONValue] {
        let failed = try snapshot.activity(since: snapshot.now - .seconds(86_400)).filter {
            $0.value.failed > 0
        }
        let worst = failed.sorted { ($1.value.failed, $0.key) < ($0.value.failed, $1.key) }
        return worst.prefix(Self.shownNames).map { .named("handler", $0.key, $0.value.failed) }
    }

    /// Timers with a calendar that should have been called a minute ago.
    private func missed(_ snapshot: borrowing Snapshot) throws -> [JSONValue] {
        let rows = try snapshot.all(
            """
            SELECT handler.id FROM calendar JOIN handler ON handler.id = calendar.handler
            WHERE handler.due < ? AND handler.state = \(Transaction.State.pending.sql) ORDER BY handler.due LIMIT 20
            """, snapshot.now - .seconds(60)
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        return try rows.compactMap { (row) throws in try timer(row, snapshot) }
    }

    func nodes(_ snapshot: borrowing Snapshot) throws -> [JSONValue] {
        try reader.processes(in: snapshot).map { process in
            [
                "slot": .integer(Int64(process.slot)), "pid": .count(process.processID.map { Int64($0) }),
                "state": .string(process.life?.rawValue ?? process.processID.map(processState) ?? "unknown"),
                "handler": .row(process.handler), "application": .text(process.application),
                "address": .text(process.address), "clockAhead": .count(process.clockAhead),
            ]
        }
    }

    // MARK: Activity

    static func total(_ activity: [String: HandlerActivity]) -> HandlerActivity {
        activity.values.reduce(into: HandlerActivity()) { $0.add($1) }
    }

    func activity(_ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let spans: [String: (span: Int64, period: Int64)] = [
            "1h": (3_600_000, 600_000), "24h": (86_400_000, 1_800_000), "7d": (604_800_000, 10_800_000),
        ]
        guard let (span, period) = spans[values["since"] ?? "1h"] else {
            throw DashboardFailure(400, "wrong-value", "'since' is 1h, 24h or 7d.")
        }
        let name = values["name"]
        let all = try snapshot.activity(since: snapshot.now - .milliseconds(span))
        let chosen = all.filter { name == nil || $0.key == name }.sorted {
            ($1.value.ended, $0.key) < ($0.value.ended, $1.key)
        }
        return [
            "rows": .array(chosen.prefix(try limit()).map { .activity($0.key, $0.value) }),
            "periodMilliseconds": .integer(period),
            "series": .array(
                chosen.isEmpty
                    ? [] : try series(snapshot, since: snapshot.now.milliseconds - span, period, name)),
        ]
    }

    /// The sums of each part of the time, which the rows of ten minutes are in.
    private func series(
        _ snapshot: borrowing Snapshot, since start: Int64, _ period: Int64, _ name: String?
    ) throws -> [JSONValue] {
        let rows = try snapshot.all(
            """
            SELECT start, CAST(sum(results + errors + timeouts + invalidated) AS BIGINT),
                CAST(sum(quarantined + failed) AS BIGINT) FROM handler_activity
            WHERE start >= ? AND name = coalesce(?, name) GROUP BY start ORDER BY start
            """, max(1, start), name
        ) { (start: $0.quantity(0), ended: $0.integer(1), failed: $0.integer(2)) }
        var parts: [Int64: (ended: Int64, failed: Int64)] = [:]
        for row in rows {
            let part = row.start - row.start % period
            parts[part, default: (0, 0)].ended += row.ended
            parts[part, default: (0, 0)].failed += row.failed
        }
        return parts.sorted { $0.key < $1.key }.map { part in
            [
                "at": .time(Timestamp(milliseconds: part.key)), "ended": .integer(part.value.ended),
                "failed": .integer(part.value.failed),
            ]
        }
    }
}

extension JSONValue {
    static func named(_ kind: String, _ name: String, _ count: Int64) -> JSONValue {
        .object([kind: .string(name), "count": .integer(count)])
    }

    static func activity(_ name: String?, _ activity: HandlerActivity) -> JSONValue {
        [
            "handler": .text(name), "bound": .integer(activity.bound), "ended": .integer(activity.ended),
            "failed": .integer(activity.failed), "retried": .integer(activity.retried),
            "waitP50Milliseconds": .milliseconds(activity.waits.quantile(0.5)),
            "waitP99Milliseconds": .milliseconds(activity.waits.quantile(0.99)),
            "runP50Milliseconds": .milliseconds(activity.runs.quantile(0.5)),
            "runP99Milliseconds": .milliseconds(activity.runs.quantile(0.99)),
        ]
    }

    static func lane(_ lane: LaneStatus) -> JSONValue {
        [
            "lane": .string(lane.name), "concurrency": .count(lane.rule.concurrency),
            "rateCount": .count(lane.rule.rate?.count),
            "rateMilliseconds": .count(lane.rule.rate?.period.milliseconds), "isPaused": .bool(lane.isPaused),
            "running": .integer(Int64(lane.running)), "waiting": .integer(Int64(lane.waiting)),
            "away": .integer(Int64(lane.away)), "why": .text(lane.standstill.map { "\($0)" }),
        ]
    }
}
