import FoundationEssentials
package import Handlers

/// Conditions that a handler must meet to be shown; all of them hold for an empty filter.
package struct HandlerFilter: Equatable {
    package var name: String?
    package var state: HandlerStatus.State?
    package var key: String?
    package var lane: String?
    /// The root of the chain.
    package var trace: AnyHandlerID?
    /// Bound arguments with equal values.
    package var arguments: Record = [:]

    package init() {}

    var isEmpty: Bool { self == HandlerFilter() }
    /// Whether endings are shown: an ending has no state, no lane and no arguments.
    var includesEndings: Bool { state == nil && lane == nil && arguments.isEmpty }

    /// - Throws: ``UsageError`` for a value that an option does not take.
    init(_ options: Arguments) throws(UsageError) {
        name = options.value("--name")
        key = options.value("--key")
        lane = options.value("--lane")
        if let text = options.value("--state") {
            state = HandlerStatus.State(rawValue: text)
            guard state != nil else {
                throw UsageError(
                    "--state must be pending, parked, quarantined or running, not '\(text)'")
            }
        }
        trace = try options.value("--trace").map { (text) throws(UsageError) in
            guard let row = Int64(text), row > 0 else {
                throw UsageError(
                    "--trace takes the number of the first handler of a chain, as inspect shows it, not '\(text)'"
                )
            }
            return AnyHandlerID(rawValue: row)
        }
        for text in options.values("--argument") {
            let (name, value) = try Self.argument(text)
            guard arguments[name] == nil else {
                throw UsageError("--argument names '\(name)' twice")
            }
            arguments[name] = value
        }
    }

    /// Parses `NAME=VALUE`.
    ///
    /// - Returns: The name, and the value as JSON if it is JSON, else as a string.
    private static func argument(_ text: String) throws(UsageError) -> (String, JSONValue) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw UsageError("--argument takes NAME=VALUE, not '\(text)'")
        }
        let json = try? JSONDecoder().decode(JSONValue.self, from: Data(parts[1].utf8))
        return (String(parts[0]), json ?? .string(String(parts[1])))
    }
}

// MARK: Reading

extension HandlerFilter {
    /// The number of handlers that are read at a time to count those with certain arguments.
    private static let page = 1000

    /// Returns the number of handlers that have not ended and meet the filter, and the oldest of them.
    func handlers(
        _ snapshot: borrowing Snapshot, limit: Int
    ) throws(HandlerError) -> (count: Int64, shown: [HandlerStatus]) {
        if let key {
            let holder = try snapshot.status(ofKey: key)
            let found = try holder.map { (holder) throws(HandlerError) in
                try page(snapshot, after: AnyHandlerID(rawValue: holder.id.rawValue &- 1), limit: 1)
                    .filter { $0.id == holder.id }
            }
            return (Int64(found?.count ?? 0), found ?? [])
        }
        if arguments.isEmpty {
            return (try count(snapshot), try page(snapshot, after: nil, limit: limit))
        }
        var (count, shown, last): (Int64, [HandlerStatus], AnyHandlerID?) = (0, [], nil)
        while true {
            let page = try page(snapshot, after: last, limit: Self.page)
            count += Int64(page.count)
            shown += page.prefix(limit - shown.count)
            last = page.last?.id
            guard page.count == Self.page else { return (count, shown) }
        }
    }

    private func page(
        _ snapshot: borrowing Snapshot, after start: AnyHandlerID?, limit: Int
    ) throws(HandlerError) -> [HandlerStatus] {
        try snapshot.handlers(
            in: state, named: name, trace: trace, lane: lane, arguments: arguments, after: start, limit: limit
        )
    }

    private func count(_ snapshot: borrowing Snapshot) throws(HandlerError) -> Int64 {
        try snapshot.first(
            "SELECT count(*) FROM handler WHERE \(HandlerStatus.condition(in: state, lane: lane)) AND name = coalesce(?, name) AND coalesce(trace, id) = coalesce(?, trace, id)",
            lane ?? "", name, trace
        ) { $0.integer(0) } ?? 0
    }

    /// Returns the number of endings that meet the filter, and the newest of them by their rows.
    func endings(
        _ snapshot: borrowing Snapshot, limit: Int
    ) throws(HandlerError) -> StoreContents.Rows<StoreContents.Ending> {
        let condition = """
            FROM ending LEFT JOIN ending_detail USING (handler)
            WHERE name = coalesce(?, name) AND coalesce(trace, handler) = coalesce(?, trace, handler)
                AND key IS NOT DISTINCT FROM coalesce(?, key)
            """
        let count =
            try snapshot.first("SELECT count(*) \(condition)", name, trace, key) { $0.integer(0) } ?? 0
        let now = snapshot.now.milliseconds
        let shown = try snapshot.all(
            """
            SELECT handler, name, outcome, reason, ended_at, key, coalesce(trace, handler), error, code \(condition)
            ORDER BY handler DESC LIMIT ?
            """, name, trace, key, limit
        ) { StoreContents.Ending($0, now: now) }
        return StoreContents.Rows(count: count, shown: shown)
    }
}
