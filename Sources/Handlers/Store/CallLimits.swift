/// The limits of stored calls of standing handlers: peers can cause such calls.
///
/// Each call has a row of its own; `size` is the number of bytes in it. Calls that wait for a runner, or for a program that
/// knows the handler, are never dropped: beyond their bound a call is quarantined. Of quarantined calls the oldest are dropped,
/// and ``ReadableStore/droppedCalls()`` returns how many.
struct CallLimits: TransactionTable {
    /// The maximum number of waiting calls of one handler, and up to ``piece`` more.
    static let waiting = 100_000
    /// The maximum size of these in bytes.
    static let waitingBytes = 256 << 20
    /// The maximum number of quarantined calls of one handler.
    static let quarantined = 1000
    /// The maximum size of these in bytes.
    static let quarantinedBytes = 8 << 20
    /// Waiting calls are counted once in so many calls.
    static let piece = 64

    let transaction: Transaction

    /// Returns whether as many calls of a handler wait as may.
    func isCrowded(_ name: Name) throws(HandlerError) -> Bool {
        var kept = connection.waitingCalls[name] ?? (count: 0, isCrowded: false)
        if kept.count % Self.piece == 0 {
            let sum = try connection.first(
                """
                SELECT count(*), coalesce(sum(CAST(size AS DOUBLE PRECISION)), 0) FROM handler
                WHERE size IS NOT NULL AND name = ? AND state <> \(State.quarantined.sql)
                """, [name]
            ) { (count: $0.integer(0), bytes: $0.integer(1)) }
            kept.isCrowded =
                sum.map { $0.count >= Self.waiting || $0.bytes >= Self.waitingBytes } ?? false
        }
        kept.count += 1
        connection.waitingCalls[name] = kept
        return kept.isCrowded
    }

    /// Drops the oldest quarantined calls of a handler, as far as there are too many, and counts them.
    ///
    /// - Returns: How many were dropped.
    @discardableResult
    func trimQuarantine(of name: Name) throws(HandlerError) -> Int {
        let sum = try connection.first(
            """
            SELECT count(*), coalesce(sum(CAST(size AS DOUBLE PRECISION)), 0) FROM handler
            WHERE size IS NOT NULL AND name = ? AND state = \(State.quarantined.sql)
            """, [name]
        ) { (calls: Int($0.integer(0)), bytes: $0.quantity(1)) }
        guard let sum else { return 0 }
        var (dropped, bytes) = (0, Int64(0))
        while sum.calls - dropped > Self.quarantined || sum.bytes - bytes > Self.quarantinedBytes {
            guard let size = try dropOldest(of: name) else { break }
            bytes += size
            dropped += 1
        }
        guard dropped > 0 else { return 0 }
        try connection.write(
            """
            INSERT INTO dropped_call(name, calls, bytes, last_at) VALUES (?, ?, ?, ?)
            ON CONFLICT(name) DO UPDATE SET
                calls = dropped_call.calls + excluded.calls, bytes = dropped_call.bytes + excluded.bytes,
                last_at = excluded.last_at
            """, [name, dropped, bytes, now])
        return dropped
    }

    /// - Returns: How many bytes it was kept in; nil when there is none.
    private func dropOldest(of name: Name) throws(HandlerError) -> Int64? {
        let oldest = try connection.first(
            """
            SELECT id, size FROM handler WHERE size IS NOT NULL AND name = ? AND state = \(State.quarantined.sql)
            ORDER BY id LIMIT 1
            """, [name]
        ) { (id: $0.integer(0), size: $0.quantity(1)) }
        guard let oldest else { return nil }
        let id = AnyHandlerID(rawValue: oldest.id)
        guard let relations = try handlers.relations(of: id), !relations.isEmpty else {
            try handlers.delete(id)
            try failures.forget(id)
            return oldest.size
        }
        // Somebody waits for it.
        try invalidations.discard(id)
        return oldest.size
    }

    /// Drops the surplus after that row was quarantined, if it is the call of a standing handler.
    func trimQuarantine(after id: AnyHandlerID) throws(HandlerError) {
        let name = try connection.first(
            "SELECT name FROM handler WHERE id = ? AND size IS NOT NULL", [id]
        ) { $0.foreignText(0) }
        if let name { try trimQuarantine(of: name) }
    }
}

/// Quarantined calls of one standing handler that were dropped because newer ones came.
///
/// ```swift
/// for dropped in try store.read({ try $0.droppedCalls() }) {
///     print("\(dropped.calls) calls of \(dropped.name) are lost; the handler fails on what it is called with")
/// }
/// ```
package struct DroppedCalls: Hashable, Sendable {
    /// The stored name of the handler.
    package let name: String
    /// The number of calls dropped since the store was created.
    package let calls: Int
    /// The number of stored bytes of these calls.
    package let bytes: Int64
    /// When one was dropped last, by the wall clock.
    package let lastAt: Timestamp
}
