import Handlers
import XMPPCore

/// The requests of others that a handler has taken and not answered yet.
///
/// A row is what entitles to one answer: whoever answers removes it in the same step.
struct InboundRequestTable {
    let account: Int64
    /// How long a handler may take, in milliseconds of connected time.
    let timeout: Int64

    /// How many requests may be open at once.
    static let maximum = 1000
    /// How many of them may be of one bare address, so that nobody keeps a handler from serving others.
    static let maximumEach = 100

    /// Whether one more request may be opened.
    func hasRoom(for iq: IQ, in step: borrowing Step) throws(HandlerError) -> Bool {
        guard iq.id.token != nil else { return false }
        let (bare, limit) = (iq.from?.bare.description ?? "", Self.maximumEach)
        // '0' follows '/': between them are the full addresses of that bare one.
        return try step.first(
            """
            SELECT (SELECT count(*) FROM (SELECT 1 FROM inbound_request WHERE account = ?1 LIMIT ?2)) < ?2
                AND (SELECT count(*) FROM (
                    SELECT 1 FROM inbound_request WHERE account = ?1 AND peer = ?3
                    UNION ALL
                    SELECT 1 FROM inbound_request WHERE account = ?1 AND peer > ?3 || '/' AND peer < ?3 || '0'
                    LIMIT ?4)) < ?4
            """, account, Self.maximum, bare, limit
        ) { (row) throws(HandlerError) in row.integer(0) != 0 } ?? false
    }

    /// - Returns: False when a request of that sender and id is open already.
    func open(_ iq: IQ, liveTime: Int64, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "INSERT OR IGNORE INTO inbound_request(account, peer, stanza_id, deadline) VALUES (?, ?, ?, ?)",
            account, Self.peer(iq), iq.id, TimeSource.sum(liveTime, timeout)) == 1
    }

    /// Ends a request; whoever does that answers in the same step.
    ///
    /// - Returns: False when it was answered before.
    func close(_ iq: IQ, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "DELETE FROM inbound_request WHERE account = ? AND peer = ? AND stanza_id = ?", account,
            Self.peer(iq), iq.id) == 1
    }

    /// Removes the requests whose time is over.
    ///
    /// - Returns: The answer to each.
    func takeExpired(liveTime: Int64, limit: Int, in step: borrowing Step) throws -> [IQ] {
        let rows = try step.all(
            """
            DELETE FROM inbound_request WHERE (account, peer, stanza_id) IN (
                SELECT account, peer, stanza_id FROM inbound_request WHERE account = ? AND deadline <= ? LIMIT ?)
            RETURNING peer, stanza_id
            """, account, liveTime, limit
        ) { (row) throws(HandlerError) in (peer: row.text(0), id: row.text(1)) }
        return try rows.map { row in
            let peer = row.peer.isEmpty ? nil : try JID(row.peer)
            return Self.refusal(to: peer, id: ForeignText(row.id), StanzaError(.internalServerError))
        }
    }

    /// The earliest deadline, or nil when nothing is open.
    func nextDeadline(in step: borrowing Step) throws(HandlerError) -> Int64? {
        try step.first("SELECT min(deadline) FROM inbound_request WHERE account = ?", account) {
            (row) throws(HandlerError) in row.optionalQuantity(0)
        } ?? nil
    }

    /// The address that the requests were sent to is gone.
    func forgetAll(in step: borrowing Step) throws(HandlerError) {
        try step.execute("DELETE FROM inbound_request WHERE account = ?", account)
    }

    /// An error in answer to a request.
    static func refusal(to peer: JID?, id: ForeignText, _ error: StanzaError) -> IQ {
        IQ(type: .error, to: peer, id: id, payload: error.element)
    }

    private static func peer(_ iq: IQ) -> String { iq.from?.description ?? "" }
}
