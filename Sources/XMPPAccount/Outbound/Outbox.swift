package import Handlers
import XMPPCore

/// The stanzas that an account has to send, one row each, in order.
///
/// A row is written whole before a byte of it reaches the socket and deleted when the server acknowledges it, so the
/// rows of a session, oldest first, are exactly the stanzas that the server's next `h` counts from.
package struct Outbox {
    let account: Int64

    package enum Kind: Int64, StoredState {
        case message = 0
        case presence = 1
        case request = 2
        case reply = 3
        /// A message that is of no use in another session.
        case fleeting = 4
    }

    struct Stanza {
        let seq: Int64
        let xml: [UInt8]
    }

    /// A row that is removed.
    struct Removed {
        let seq: Int64
        let stanza: AcknowledgedStanza
        let handler: HandlerID<StanzaAcknowledged>?
    }

    /// 5. Append a stanza, to the session of the open stream if there is one.
    func append(
        _ kind: Kind, id: ForeignText?, key: String? = nil, xml: [UInt8],
        handler: HandlerID<StanzaAcknowledged>? = nil, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO outbox(account, session, kind, stanza_id, key, xml, handler, created_at)
            VALUES (?1, (SELECT open_number FROM session WHERE account = ?1), ?2, ?3, ?4, ?5, ?6, ?7)
            """, account, kind.rawValue, id, key, xml, handler, step.now)
        if BuiltInFault.reuseNumbers.isOn || BuiltInFault.numberBeforeLock.isOn { try renumber(in: step) }
    }

    /// The next stanzas of a session after the flush mark, in order.
    func next(session: Int64, after mark: Int64, limit: Int, in step: borrowing Step) throws(HandlerError)
        -> [Stanza]
    {
        let stanzas = try step.all(
            "SELECT seq, xml FROM outbox WHERE account = ? AND seq > ? AND session = ? ORDER BY seq LIMIT ?",
            account, mark, session, limit
        ) { Stanza(seq: $0.integer(0), xml: $0.blob(1)) }
        return BuiltInFault.reorderOutbox.isOn ? Self.reordered(stanzas) : stanzas
    }

    /// Removes the stanzas that an acknowledgement covers.
    ///
    /// - Parameters:
    ///   - claimed: The server's `h`.
    ///   - mark: The last row that may have been written to the socket.
    ///   - management: The counts so far; they take the new one over.
    /// - Returns: The removed rows in the order in which they were sent.
    /// - Throws: ``HandledCountError`` when more is acknowledged than was sent; nothing is removed.
    func acknowledge(
        _ claimed: HandledCount, session: Int64, upTo mark: Int64, _ management: inout StreamManagement,
        in step: borrowing Step
    ) throws -> [Removed] {
        let distance = Int(claimed.distance(from: management.acknowledged))
        guard distance > 0 else { return [] }
        let rows = try step.all(
            """
            SELECT seq, stanza_id, handler, key FROM outbox
            WHERE account = ? AND session = ? AND seq <= ? ORDER BY seq LIMIT ?
            """, account, session, mark, distance, read: Self.readRemoved)
        _ = try management.acknowledge(claimed, waiting: rows.count)
        if let newest = rows.last {
            try step.write(
                "DELETE FROM outbox WHERE account = ? AND session = ? AND seq <= ?", account, session,
                newest.seq)
        }
        return rows
    }

    /// Removes what a session without stream management has written.
    ///
    /// - Returns: The handlers that waited for an acknowledgement.
    func forget(session: Int64, upTo mark: Int64, in step: borrowing Step) throws(HandlerError)
        -> [AnyHandlerID]
    {
        try step.all(
            "DELETE FROM outbox WHERE account = ? AND session = ? AND seq <= ? RETURNING handler", account,
            session, mark
        ) { $0.optionalInteger(0).map(AnyHandlerID.init(rawValue:)) }
        .compactMap(\.self)
    }

    /// Removes the unsent stanza of a request whose answer is not awaited any more.
    func withdraw(requestID: ForeignText, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM outbox
            WHERE account = ? AND session IS NULL AND kind = \(Kind.request.sql) AND stanza_id = ?
            """, account, requestID)
    }

    /// Lets a session carry the stanzas that none has carried yet.
    func adopt(session: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE outbox SET session = ? WHERE account = ? AND session IS NULL", session, account)
    }

    /// Removes and returns presence, requests, replies and fleeting messages of a lost session: they meant a resource that is gone.
    ///
    /// - Parameter last: Row after which to continue, so that every row is looked at once; 0 at first.
    func claimVoid(after last: Int64, limit: Int, in step: borrowing Step) throws(HandlerError) -> [Removed] {
        let rows = try step.all(
            """
            SELECT seq, stanza_id, handler, key FROM outbox
            WHERE account = ? AND seq > ? AND session IS NOT NULL AND kind <> \(Kind.message.sql) ORDER BY seq
            LIMIT ?
            """, account, last, limit, read: Self.readRemoved)
        for row in rows { try step.execute("DELETE FROM outbox WHERE seq = ?", row.seq) }
        return rows
    }

    /// Makes messages of a lost session wait for the next one, stamped with the time they were first sent.
    ///
    /// XEP-0198 section 5: after a failed resumption unacknowledged stanzas may be sent again, and then
    /// "a client SHOULD add a delay element with the original (failed) send date".
    ///
    /// - Parameter last: Row after which to continue, so that every row is looked at once; 0 at first.
    /// - Returns: The last of them; nil when there is none left.
    func requeueMessages(after last: Int64, limit: Int, in step: borrowing Step) throws(HandlerError)
        -> Int64?
    {
        let rows = try step.all(
            """
            SELECT seq, xml, created_at FROM outbox
            WHERE account = ? AND seq > ? AND session IS NOT NULL AND kind = \(Kind.message.sql) ORDER BY seq
            LIMIT ?
            """, account, last, limit
        ) { (seq: $0.integer(0), xml: $0.blob(1), createdAt: $0.timestamp(2)) }
        for row in rows {
            let xml = Delay.stamped(row.xml, at: row.createdAt)
            try step.write("UPDATE outbox SET session = NULL, xml = ? WHERE seq = ?", xml, row.seq)
        }
        return rows.last?.seq
    }

    /// The newest row and the newest handler that there are now.
    func newest(in step: borrowing Step) throws(HandlerError) -> (seq: Int64, handler: AnyHandlerID) {
        try step.first("SELECT (SELECT max(seq) FROM outbox), (SELECT max(id) FROM handler)") {
            (seq: $0.integer(0), handler: AnyHandlerID(rawValue: $0.integer(1)))
        } ?? (0, AnyHandlerID(rawValue: 0))
    }

    /// Removes and returns everything up to a row: the account is logged out.
    func claimAll(upTo newest: Int64, limit: Int, in step: borrowing Step) throws(HandlerError)
        -> [Removed]
    {
        let rows = try step.all(
            "SELECT seq, stanza_id, handler, key FROM outbox WHERE account = ? AND seq <= ? ORDER BY seq LIMIT ?",
            account, newest, limit, read: Self.readRemoved)
        for row in rows { try step.execute("DELETE FROM outbox WHERE seq = ?", row.seq) }
        return rows
    }

    /// Returns whether fewer than `limit` stanzas wait.
    func hasRoom(_ limit: Int, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.holdsFewer(than: limit, in: NumberedRows("seq", of: "outbox"), of: account)
    }

    private static func readRemoved(_ row: borrowing Row) throws(HandlerError) -> Removed {
        Removed(
            seq: row.integer(0),
            stanza: AcknowledgedStanza(id: row.optionalForeignText(1), storedKey: row.optionalText(3)),
            handler: row.optionalInteger(2).map(HandlerID.init(rawValue:)))
    }
}

/// The rows of a table that a column numbers in the order of their insertion.
package struct NumberedRows: Sendable {
    fileprivate let sql: String

    package init(_ column: String, of table: String) { sql = "\(column) FROM \(table)" }
}

extension Step {
    /// Returns whether a table holds fewer than `limit` rows of an account.
    ///
    /// Rows are numbered in order, so the span bounds the count; only a wide span is worth counting.
    package func holdsFewer(
        than limit: Int, in numbered: NumberedRows, of account: Int64
    ) throws(HandlerError) -> Bool {
        let rows = numbered.sql
        let span =
            try first(
                """
                SELECT (SELECT \(rows) WHERE account = ?1 ORDER BY 1 DESC LIMIT 1)
                    - (SELECT \(rows) WHERE account = ?1 ORDER BY 1 LIMIT 1)
                """, account
            ) { Int($0.quantity(0)) } ?? 0
        if span + 1 < limit { return true }
        let count = try first(
            "SELECT count(*) FROM (SELECT \(rows) WHERE account = ? LIMIT ?) AS held", account, limit
        ) { Int($0.quantity(0)) }
        return (count ?? 0) < limit
    }
}
