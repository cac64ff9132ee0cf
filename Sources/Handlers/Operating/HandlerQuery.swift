/// Conditions for handlers that have not ended. All of them hold for an empty query.
///
/// ```swift
/// var query = HandlerQuery()
/// query.name = "mail.*"
/// query.state = .quarantined
/// let first = try store.read { try $0.handlers(matching: query) }
/// ```
public struct HandlerQuery: Hashable, Sendable {
    /// The stored name, or the start of one with `*` behind it; nil for any.
    public var name: String?
    /// The state; nil for any.
    public var state: HandlerStatus.State?
    /// The key; nil for any.
    public var key: String?
    /// The lane; nil for any or none.
    public var lane: String?
    /// The root of the chain; nil for any.
    public var chain: AnyHandlerID?
    /// Bound arguments by name, as text: `1003` stands for the number 1003 and for the text "1003". Empty for any.
    public var arguments: [String: String] = [:]
    /// Only handlers that were bound before this; nil for any.
    public var boundBefore: Timestamp?

    /// Makes a query for all handlers.
    public init() {}

    /// Whether all handlers meet it.
    public var isEmpty: Bool { self == HandlerQuery() }
}

/// A part of the handlers that meet a query.
public struct HandlerPage: Sendable {
    /// The handlers, the oldest first, with secrets masked.
    public let handlers: [HandlerStatus]
    /// The row after which the search goes on; nil when it is complete.
    public let next: AnyHandlerID?
}

extension HandlerQuery {
    /// How many rows a page looks at, at most: so no read is long, however many handlers wait.
    static let mostSearched = 20_000
    /// The number of rows that are read at once while their arguments are compared.
    static let piece = 500

    /// The name without its `*`, and whether it has one.
    private var pattern: (text: String, isPrefix: Bool) {
        guard let name else { return ("", true) }
        return name.hasSuffix("*") ? (String(name.dropLast()), true) : (name, false)
    }

    /// The condition, after that of rows in a range.
    fileprivate var condition: String {
        """
        \(HandlerStatus.condition(in: state, lane: lane)) AND id > ? AND id <= ? AND name = coalesce(?, name)
            AND name >= ? AND name < ? AND coalesce(trace, id) = coalesce(?, trace, id) AND bound_at < ?
        """
    }

    fileprivate func values(after start: Int64, through end: Int64) -> [any SQLConvertible] {
        let (text, isPrefix) = pattern
        let prefix = isPrefix ? text : ""
        return [
            lane ?? "", start, end, isPrefix ? nil : text, prefix, prefix + "\u{10FFFF}", chain,
            boundBefore ?? Timestamp(milliseconds: .max),
        ]
    }

    /// Returns whether a handler was bound with the arguments.
    fileprivate func holds(_ bound: [UInt8], of handler: String) throws(HandlerError) -> Bool {
        if arguments.isEmpty { return true }
        let record = try ArgumentCoding.record(bound, handler: handler)
        return arguments.allSatisfy { name, text in
            guard let value = record[name] else { return false }
            return value == .string(text) || value == Self.json(text)
        }
    }

    private static func json(_ text: String) -> JSONValue? {
        try? ArgumentCoding.value(JSONValue.self, from: Array(text.utf8))
    }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns a part of the handlers that meet a query.
    ///
    /// A page looks at 20 000 rows at most, so it may be short, or empty, although more follow. Read each page by itself, and the
    /// log of the database does not grow meanwhile:
    ///
    /// ```swift
    /// var start: AnyHandlerID?
    /// repeat {
    ///     let page = try store.read { try $0.handlers(matching: query, after: start) }
    ///     show(page.handlers)
    ///     start = page.next
    /// } while start != nil
    /// ```
    ///
    /// - Parameters:
    ///   - query: The conditions.
    ///   - start: The row after which to start; nil for the oldest.
    ///   - limit: The most to return, from 1.
    /// - Returns: The handlers, and where the search goes on.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func handlers(
        matching query: HandlerQuery, after start: AnyHandlerID? = nil, limit: Int = 100
    ) throws(HandlerError) -> HandlerPage {
        let start = start?.rawValue ?? 0
        if let key = query.key {
            let holder = try status(ofKey: key)?.id.rawValue
            guard let holder, holder > start else { return HandlerPage(handlers: [], next: nil) }
            let found = try handlers(query, after: holder - 1, through: holder, limit: 1).found
            return HandlerPage(handlers: found, next: nil)
        }
        let end = try first(
            "SELECT max(id) FROM (SELECT id FROM handler WHERE id > ? ORDER BY id LIMIT ?) AS following",
            start, HandlerQuery.mostSearched, read: { $0.optionalInteger(0) })
        guard let end = end ?? nil else { return HandlerPage(handlers: [], next: nil) }
        let (found, last) = try handlers(query, after: start, through: end, limit: limit)
        let searched = last ?? end
        let isMore = try first("SELECT 1 FROM handler WHERE id > ? LIMIT 1", searched) { _ in true } ?? false
        return HandlerPage(handlers: found, next: isMore ? AnyHandlerID(rawValue: searched) : nil)
    }

    /// - Returns: The handlers, and the last row that was searched; nil for all.
    private func handlers(
        _ query: HandlerQuery, after start: Int64, through end: Int64, limit: Int
    ) throws(HandlerError) -> (found: [HandlerStatus], last: Int64?) {
        let select = HandlerStatus.select("\(query.condition) ORDER BY id LIMIT ?")
        var (found, last): ([HandlerStatus], Int64) = ([], start)
        while true {
            let piece = query.arguments.isEmpty ? limit : HandlerQuery.piece
            let values = query.values(after: last, through: end)
            let rows = try all(
                select, values[0], values[1], values[2], values[3], values[4], values[5], values[6],
                values[7], piece
            ) { (row) throws(HandlerError) in (status: try HandlerStatus.read(row), arguments: row.blob(3)) }
            for row in rows {
                last = row.status.id.rawValue
                if try query.holds(row.arguments, of: row.status.name) { found.append(row.status) }
                if found.count == limit { return (found, last) }
            }
            if rows.count < piece { return (found, nil) }
        }
    }
}
