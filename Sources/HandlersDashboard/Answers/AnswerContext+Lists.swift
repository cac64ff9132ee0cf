import Handlers

/// Timers, lanes, events, changes by hand, and accounts.
extension AnswerContext {
    /// The number of next times of a calendar.
    private static let times = 10

    func timers(_ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let limit = try limit()
        let rows = try snapshot.all(
            """
            SELECT id FROM handler WHERE kind = \(Transaction.Kind.standing.sql) AND period IS NOT NULL AND id > ?
            ORDER BY id LIMIT ?
            """, try row("after")?.rawValue ?? 0, limit
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        return [
            "rows": .array(try rows.compactMap { (row) throws in try timer(row, snapshot) }),
            "next": rows.count == limit ? .row(rows.last) : .null,
        ]
    }

    /// What a handler that is called again and again follows; nil for any other.
    func timer(_ id: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> JSONValue? {
        guard let status = try snapshot.status(of: id) else { return nil }
        let calendar = try snapshot.first(
            "SELECT expression, time_zone, is_paused FROM calendar WHERE handler = ?", id
        ) {
            (rule: "by '\($0.text(0))' in \($0.text(1))", isPaused: $0.integer(2) != 0)
        }
        if let calendar {
            // A time zone that this machine does not know has no times here.
            let next = (try? snapshot.calendarTimer(id))??.times(Self.times) ?? []
            return Self.timer(status, calendar.rule, calendar.isPaused, next)
        }
        let period = try snapshot.first(
            "SELECT period FROM handler WHERE id = ? AND period IS NOT NULL", id, read: { $0.quantity(0) })
        guard let period else { return nil }
        return Self.timer(
            status, "every \(Self.words(period))", status.state == .pending && status.dueAt == nil,
            status.dueAt.map { [$0] } ?? [])
    }

    private static func timer(
        _ status: HandlerStatus, _ rule: String, _ isPaused: Bool, _ next: [Timestamp]
    ) -> JSONValue {
        [
            "row": .row(status.id), "handler": .string(status.name), "key": .text(status.key),
            "rule": .string(rule),
            "isPaused": .bool(isPaused), "state": .string(status.state.rawValue),
            "next": .array(next.map { .time($0) }),
        ]
    }

    /// A period in the largest unit that says it exactly.
    private static func words(_ milliseconds: Int64) -> String {
        let units: [(Int64, String)] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")]
        let unit = units.first { milliseconds > 0 && milliseconds % $0.0 == 0 } ?? (1, "ms")
        return "\(milliseconds / unit.0) \(unit.1)"
    }

    func lanes(_ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let limit = try limit()
        let start = values["after"]
        let rest = try snapshot.lanes().drop { lane in start.map { lane.name <= $0 } ?? false }
        return [
            "rows": .array(rest.prefix(limit).map { .lane($0) }),
            "next": rest.count > limit ? .text(rest.prefix(limit).last?.name) : .null,
        ]
    }

    func events(_ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let rows = try snapshot.all(
            "SELECT name, count(*) FROM event GROUP BY name ORDER BY count(*) DESC, name LIMIT ?", try limit()
        ) { JSONValue.named("event", $0.text(0), $0.integer(1)) }
        return ["rows": .array(rows)]
    }

    func repairs(_ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let limit = try limit()
        let repairs = try snapshot.repairs(before: number("before"), limit: limit)
        return [
            "rows": .array(repairs.map { .repair($0) }),
            "next": repairs.count == limit ? .text(repairs.last.map { "\($0.number)" }) : .null,
        ]
    }

    // MARK: Accounts

    func accounts(_ snapshot: borrowing Snapshot, of jid: String? = nil) throws -> [JSONValue] {
        // A store that only uses `Handlers` has no accounts.
        for table in ["account", "session", "ownership", "request", "outbox"] {
            guard try snapshot.hasTable(table) else { return [] }
        }
        let now = snapshot.now.milliseconds
        let processes = try reader.processes(in: snapshot)
        return try snapshot.all(
            """
            SELECT jid, coalesce(epoch, 0), owner, slot, number, full_jid, open_number IS NOT NULL,
                resumption_id IS NOT NULL, max, alive_at, received, acknowledged, bound_count, resumed_count,
                (SELECT count(*) FROM request WHERE request.account = account.id),
                (SELECT count(*) FROM outbox WHERE outbox.account = account.id)
            FROM account JOIN session ON session.account = account.id
                LEFT JOIN ownership ON ownership.account = account.id
            WHERE jid = coalesce(?, jid) ORDER BY jid LIMIT 1000
            """, jid
        ) { row in
            let slot = row.optionalInteger(3)
            let process = processes.first { Int64($0.slot) == slot }
            return [
                "jid": .string(row.text(0)),
                "ownership": [
                    "epoch": .integer(row.integer(1)), "owner": .text(row.optionalText(2)),
                    "slot": .count(process?.slot), "pid": .count(process?.processID.map { Int64($0) }),
                    "state": .text(process?.life?.rawValue),
                ],
                "session": [
                    "number": .integer(row.quantity(4)), "boundAs": .text(row.optionalText(5)),
                    "hasStream": .bool(row.integer(6) != 0), "isResumable": .bool(row.integer(7) != 0),
                    "window": .count(row.optionalQuantity(8).map { $0 * 1000 }),
                    "age": .count(row.optionalQuantity(9).map { now - $0 }),
                    "received": .integer(row.integer(10)),
                    "acknowledged": .integer(row.integer(11)), "timesBound": .integer(row.quantity(12)),
                    "timesResumed": .integer(row.quantity(13)),
                ],
                "requests": .integer(row.integer(14)), "outbox": .integer(row.integer(15)),
            ]
        }
    }

    /// The name of a kind of stanza, by its stored number.
    private static func kind(_ number: Int64) -> String {
        let names = ["message", "presence", "request", "reply", "fleeting"]
        return Int(exactly: number).flatMap { names.indices.contains($0) ? names[$0] : nil } ?? "unknown"
    }

    func account(_ jid: String, _ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        guard let account = try accounts(snapshot, of: jid).first else { throw DashboardFailure.notFound }
        let now = snapshot.now.milliseconds
        let limit = try limit()
        let requests = try snapshot.all(
            """
            SELECT stanza_id, peer, handler.id, name, bound_at FROM request JOIN handler ON handler.id = request.handler
                JOIN account ON account.id = request.account
            WHERE jid = ? ORDER BY request.handler LIMIT ?
            """, jid, limit
        ) { row -> JSONValue in
            [
                "id": .string(row.text(0)), "peer": .text(row.optionalText(1)),
                "row": .row(AnyHandlerID(rawValue: row.integer(2))), "handler": .string(row.text(3)),
                "age": .integer(now - row.quantity(4)),
            ]
        }
        let outbox = try snapshot.all(
            """
            SELECT seq, kind, length(xml), created_at, (SELECT name FROM handler WHERE handler.id = outbox.handler)
            FROM outbox JOIN account ON account.id = outbox.account WHERE jid = ? ORDER BY seq LIMIT ?
            """, jid, limit
        ) { row -> JSONValue in
            [
                "seq": .integer(row.integer(0)), "kind": .string(Self.kind(row.integer(1))),
                "bytes": .integer(row.integer(2)),
                "age": .integer(now - row.quantity(3)), "handler": .text(row.optionalText(4)),
            ]
        }
        return ["account": account, "requests": .array(requests), "outbox": .array(outbox)]
    }
}
