import Handlers

/// Lists of handlers, and all about one.
extension AnswerContext {
    /// The maximum size of arguments in a list, in bytes.
    private static let preview = 300
    /// The maximum size of the arguments of one handler, in bytes.
    private static let whole = 65_536
    /// How long one answer searches.
    private static let searchTime = Duration.seconds(1)
    /// The number of journal entries, children and changes that are shown of one handler.
    private static let shown = 200

    /// The conditions that the query of the address names.
    func query(_ now: Timestamp) throws(DashboardFailure) -> HandlerQuery {
        var query = HandlerQuery()
        query.name = values["name"]
        query.key = values["key"]
        query.lane = values["lane"]
        query.chain = try row("chain")
        if let state = values["state"] {
            guard let known = HandlerStatus.State(rawValue: state) else {
                throw DashboardFailure(
                    400, "wrong-value", "'state' is pending, parked, quarantined or running, not '\(state)'.")
            }
            query.state = known
        }
        if let older = values["older"] { query.boundBefore = now - (try Self.span(older)) }
        for (name, value) in values where name.hasPrefix("arg.") && name.count > 4 {
            query.arguments[String(name.dropFirst(4))] = value
        }
        return query
    }

    private static func span(_ text: String) throws(DashboardFailure) -> Duration {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), let count = Int64(text.dropLast()),
            0...100_000 ~= count
        else {
            throw DashboardFailure(
                400, "wrong-value", "'older' is a time such as 90s, 15m, 36h or 7d, not '\(text)'.")
        }
        return .seconds(count * unit)
    }

    /// Searches in many short reads, until a page is full or the time is over: one read looks at 20 000 rows at most.
    func search() throws -> (members: [String: JSONValue], now: Timestamp) {
        let (limit, start) = (try limit(), ContinuousClock.now)
        var (rows, next, now): ([JSONValue], AnyHandlerID?, Timestamp) = (
            [], try row("after"), Timestamp(milliseconds: 0)
        )
        repeat {
            // A read may run a second time, so what it found is kept after it.
            let found: (rows: [JSONValue], next: AnyHandlerID?, now: Timestamp) = try reader.read {
                snapshot in
                let page = try snapshot.handlers(
                    matching: query(snapshot.now), after: next, limit: limit - rows.count)
                let why = try why(reader, snapshot)
                var items: [JSONValue] = []
                for status in page.handlers {
                    items.append(.object(item(status, try why(status, snapshot), Self.preview)))
                }
                return (items, page.next, snapshot.now)
            }
            rows += found.rows
            (next, now) = (found.next, found.now)
        } while next != nil && rows.count < limit && ContinuousClock.now - start < Self.searchTime
        return (["rows": .array(rows), "next": .row(next)], now)
    }

    private func item(_ status: HandlerStatus, _ why: String, _ most: Int) -> [String: JSONValue] {
        [
            "row": .row(status.id), "chain": .row(status.trace), "handler": .string(status.name),
            "version": .integer(Int64(status.version)), "state": .string(status.state.rawValue),
            "key": .text(status.key), "why": .string(why),
            "boundAt": .time(status.boundAt), "dueAt": .time(status.dueAt),
            "startedAt": .time(status.startedAt),
            "attempts": .integer(Int64(status.attempts)), "deaths": .integer(Int64(status.deaths)),
            "reason": .text(status.reason), "arguments": AnswerJSON.stored(status.arguments, atMost: most),
        ]
    }

    private func ended(_ ending: Ending) -> [String: JSONValue] {
        [
            "row": .row(ending.handler), "chain": .row(ending.trace), "handler": .string(ending.name),
            "outcome": .string("\(ending.outcome)"), "reason": .text(ending.reason?.rawValue),
            "key": .text(ending.key), "endedAt": .time(ending.endedAt),
            "result": ending.returned.map { AnswerJSON.stored(Masking.text($0), atMost: Self.whole) }
                ?? .null,
        ]
    }

    // MARK: One handler

    func handler(_ id: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        let status = try snapshot.status(of: id)
        let lane: JSONValue? = try snapshot.first(
            "SELECT lane, order_key FROM lane_entry WHERE handler = ? AND lane <> ''", id
        ) { ["lane": .string($0.text(0)), "orderKey": .text($0.optionalText(1))] }
        return [
            "handler": try status.map { (status) throws in
                .object(item(status, try why(reader, snapshot)(status, snapshot), Self.whole))
            } ?? .null,
            "argumentBytes": .count(status?.arguments.utf8.count),
            "ending": try snapshot.ending(of: id).map { .object(ended($0)) } ?? .null,
            "lane": lane ?? .null, "timer": try timer(id, snapshot) ?? .null,
            "children": .array(try children(of: id, snapshot)),
            "parents": .array(try parents(of: id, snapshot)),
            "journal": .array(try journal(of: id, snapshot)),
            "failures": .array(try snapshot.failures(of: id).map { .failure($0) }),
            "repairs": .array(try snapshot.repairs(of: id, limit: Self.shown).map { .repair($0) }),
        ]
    }

    private func children(of id: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> [JSONValue] {
        let rows = try snapshot.all(
            "SELECT handler FROM join_child WHERE parent = ? ORDER BY position LIMIT ?", id, Self.shown
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        return try rows.map { (row) throws in try short(row, snapshot) }
    }

    private func parents(of id: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> [JSONValue] {
        let rows = try snapshot.all("SELECT parent FROM join_child WHERE handler = ?", id) {
            AnyHandlerID(rawValue: $0.integer(0))
        }
        return try rows.map { (row) throws in try short(row, snapshot) }
    }

    private func short(_ id: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> JSONValue {
        let status = try snapshot.status(of: id)
        let ending = status == nil ? try snapshot.ending(of: id) : nil
        return [
            "row": .row(id), "handler": .string(status?.name ?? ending?.name ?? ""),
            "state": .text(status?.state.rawValue), "outcome": .text(ending.map { "\($0.outcome)" }),
        ]
    }

    private func journal(of id: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> [JSONValue] {
        try snapshot.all(
            "SELECT position, operation, at, waiter, value, error FROM journal WHERE handler = ? ORDER BY position LIMIT ?",
            id, Self.shown
        ) { row in
            [
                "position": .integer(row.integer(0)), "operation": .string(row.text(1)),
                "at": .time(row.timestamp(2)),
                "waiter": .row(row.optionalInteger(3).map(AnyHandlerID.init(rawValue:))),
                "value": row.isNull(4) ? .null : AnswerJSON.stored(Masking.text(row.blob(4)), atMost: 4096),
                "error": .text(row.optionalText(5)),
            ]
        }
    }

    // MARK: A chain

    /// How many rows after its root are searched for the handlers of a chain in one answer.
    private static let searched = 20_000

    func chain(_ root: AnyHandlerID, _ snapshot: borrowing Snapshot) throws -> [String: JSONValue] {
        var query = HandlerQuery()
        query.chain = root
        let start = try row("after") ?? AnyHandlerID(rawValue: root.rawValue - 1)
        let page = try snapshot.handlers(matching: query, after: start, limit: Self.shown)
        var rows: [(id: AnyHandlerID, item: [String: JSONValue])] = []
        let why = try why(reader, snapshot)
        for status in page.handlers {
            rows.append((status.id, item(status, try why(status, snapshot), Self.preview)))
        }
        let endings = try snapshot.all(
            """
            SELECT handler FROM (SELECT handler, trace FROM ending WHERE handler > ? ORDER BY handler LIMIT ?) AS near
            WHERE coalesce(trace, handler) = ? ORDER BY handler LIMIT ?
            """, start, Self.searched, root, Self.shown
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        for id in endings {
            if let ending = try snapshot.ending(of: id) { rows.append((id, ended(ending))) }
        }
        rows.sort { $0.id.rawValue < $1.id.rawValue }
        var (joins, journals): ([JSONValue], [JSONValue]) = ([], [])
        for (id, item) in rows {
            for child in try children(of: id, snapshot) {
                joins.append(["parent": .row(id), "child": child["row"] ?? .null])
            }
            guard item["state"] != nil, journals.count < 10 else { continue }
            let entries = try journal(of: id, snapshot)
            if !entries.isEmpty { journals.append(["row": .row(id), "entries": .array(entries)]) }
        }
        let limit = try page.handlers.first.flatMap { (status) throws in
            try snapshot.chainDeadline(of: status.id)
        }
        return [
            "rows": .array(rows.map { .object($0.item) }), "joins": .array(joins),
            "journals": .array(journals),
            "limitAt": .time(limit), "next": page.handlers.isEmpty ? .null : .row(page.next),
        ]
    }
}

extension JSONValue {
    fileprivate static func failure(_ failure: FailedAttempt) -> JSONValue {
        [
            "attempt": .integer(Int64(failure.attempt)), "at": .time(failure.at),
            "runMilliseconds": .count(failure.run.map(\.milliseconds)), "slot": .integer(Int64(failure.slot)),
            "error": .string(failure.error),
        ]
    }

    static func repair(_ repair: Repair) -> JSONValue {
        [
            "number": .string("\(repair.number)"), "at": .time(repair.at), "by": .string(repair.author.name),
            "way": .string(repair.author.way.rawValue), "action": .string(repair.action),
            "row": .row(repair.handler), "name": .string(repair.name),
            "stateBefore": .text(repair.stateBefore?.rawValue), "because": .text(repair.author.reason),
        ]
    }
}
