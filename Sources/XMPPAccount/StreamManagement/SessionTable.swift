import Handlers
import XMPPCore

/// The stored state of an account's session (XEP-0198), one row; read and written only inside steps.
struct SessionTable {
    let account: Int64

    struct State {
        /// Counts sessions from 1; 0 before the first.
        var number: Int64
        /// Whether the server acknowledges stanzas in this session.
        var isManaged: Bool
        /// What resumes the session; nil when it cannot be resumed.
        var resumptionID: String?
        /// The address bound in this session.
        var fullJID: JID?
        /// Inbound stanzas handled, our `h`.
        var handled: HandledCount
        /// The server's last `h`.
        var acknowledged: HandledCount
        /// Milliseconds this account has been connected, in all processes together.
        var liveTime: Int64
    }

    func create(in step: borrowing Step) throws(HandlerError) {
        try step.execute("INSERT OR IGNORE INTO session(account) VALUES (?)", account)
    }

    func load(in step: borrowing Step) throws(HandlerError) -> State {
        let state = try step.first(
            """
            SELECT number, managed, resumption_id, full_jid, handled, acknowledged, live_time
            FROM session WHERE account = ?
            """, account
        ) { (row) throws(HandlerError) in
            State(
                number: row.integer(0), isManaged: row.integer(1) != 0, resumptionID: row.optionalText(2),
                fullJID: row.optionalText(3).flatMap { try? JID($0) },
                handled: HandledCount(rawValue: UInt32(truncatingIfNeeded: row.integer(4))),
                acknowledged: HandledCount(rawValue: UInt32(truncatingIfNeeded: row.integer(5))),
                liveTime: row.integer(6))
        }
        guard let state else {
            throw HandlerError(
                .databaseCorrupt,
                "the account \(account) has no session row; restore the database from a copy")
        }
        return state
    }

    /// A new session was bound. Counting starts at zero on both sides.
    func begin(_ bound: BoundSession, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            """
            UPDATE session SET number = number + 1, live = number + 1, managed = ?, resumption_id = ?, location = ?,
                full_jid = ?, handled = 0, acknowledged = 0, bound_count = bound_count + 1
            WHERE account = ?
            """, bound.isManaged, bound.resumptionID, bound.location, bound.fullJID.description, account)
    }

    /// The session goes on over a new connection.
    func resume(in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "UPDATE session SET live = number, resumed_count = resumed_count + 1 WHERE account = ?", account)
    }

    /// The connection is gone; the session may be resumed.
    func suspend(liveTime: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.execute("UPDATE session SET live = NULL, live_time = ? WHERE account = ?", liveTime, account)
    }

    /// The session cannot be resumed any more.
    func lose(in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "UPDATE session SET live = NULL, managed = 0, resumption_id = NULL, location = NULL WHERE account = ?",
            account)
    }

    func advance(handled: HandledCount, liveTime: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "UPDATE session SET handled = ?, live_time = ? WHERE account = ?", handled.rawValue, liveTime,
            account)
    }

    func setAcknowledged(_ count: HandledCount, in step: borrowing Step) throws(HandlerError) {
        try step.execute("UPDATE session SET acknowledged = ? WHERE account = ?", count.rawValue, account)
    }

    /// The session that may carry a stanza committed now; nil while there is no stream.
    func live(in step: borrowing Step) throws(HandlerError) -> Int64? {
        try step.first("SELECT live FROM session WHERE account = ?", account) { (row) throws(HandlerError) in
            row.optionalInteger(0)
        } ?? nil
    }

    func liveTime(in step: borrowing Step) throws(HandlerError) -> Int64 {
        try step.first("SELECT live_time FROM session WHERE account = ?", account) {
            (row) throws(HandlerError) in
            row.integer(0)
        } ?? 0
    }
}

/// What the server said when it bound a resource and enabled stream management.
struct BoundSession: Hashable, Sendable {
    var fullJID: JID
    /// Whether `<enabled/>` was received.
    var isManaged: Bool
    /// The id of `<enabled/>`; nil unless it said `resume='true'` (XEP-0198 section 3: without it the id resumes nothing).
    var resumptionID: String?
    /// Where the server wants the session to be resumed.
    var location: String?
}
