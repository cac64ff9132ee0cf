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
    /// Bound arguments as text; see ``HandlerQuery/arguments``.
    package var arguments: [String: String] = [:]

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
    private static func argument(_ text: String) throws(UsageError) -> (String, String) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw UsageError("--argument takes NAME=VALUE, not '\(text)'")
        }
        return (String(parts[0]), String(parts[1]))
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
            let found = holder == nil ? [] : try snapshot.handlers(matching: query).handlers
            return (Int64(found.count), found)
        }
        if arguments.isEmpty {
            return (try count(snapshot), try page(snapshot, after: nil, limit: limit))
        }
        var (count, shown, last): (Int64, [HandlerStatus], AnyHandlerID?) = (0, [], nil)
        repeat {
            let page = try snapshot.handlers(matching: query, after: last, limit: Self.page)
            count += Int64(page.handlers.count)
            shown += page.handlers.prefix(limit - shown.count)
            last = page.next
        } while last != nil
        return (count, shown)
    }

    /// The same conditions.
    var query: HandlerQuery {
        var query = HandlerQuery()
        (query.name, query.state, query.key) = (name, state, key)
        (query.lane, query.chain, query.arguments) = (lane, trace, arguments)
        return query
    }

    private func page(
        _ snapshot: borrowing Snapshot, after start: AnyHandlerID?, limit: Int
    ) throws(HandlerError) -> [HandlerStatus] {
        try snapshot.handlers(
            in: state, named: name, trace: trace, lane: lane, after: start, limit: limit)
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
