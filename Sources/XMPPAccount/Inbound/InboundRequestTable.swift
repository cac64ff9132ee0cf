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

    /// Takes note of the place of a request that is to be handled later among all that arrived in the session.
    func postpone(_ iq: IQ, number: UInt32, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "UPDATE inbound_request SET number = ? WHERE account = ? AND peer = ? AND stanza_id = ?", number,
            account, Self.peer(iq), iq.id)
    }

    /// Whether it is the request with that place which is open, and not another one with its id.
    func isOpen(_ iq: IQ, number: UInt32, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first(
            "SELECT number IS ? FROM inbound_request WHERE account = ? AND peer = ? AND stanza_id = ?",
            number,
            account, Self.peer(iq), iq.id
        ) { (row) throws(HandlerError) in row.integer(0) != 0 } ?? false
    }

    func checkOpen(_ iq: IQ, in step: borrowing Step) throws {
        let isOpen = try step.first(
            "SELECT 1 FROM inbound_request WHERE account = ? AND peer = ? AND stanza_id = ?", account,
            Self.peer(iq), iq.id
        ) { (row) throws(HandlerError) in row.integer(0) }
        guard isOpen != nil else { throw Self.alreadyAnswered(iq) }
    }

    static func alreadyAnswered(_ iq: IQ) -> AccountError {
        AccountError(
            .alreadyAnswered,
            "the request '\(iq.id)' was answered before, its time is over or its session is lost; answer each request once"
        )
    }

    /// A request that ended.
    struct Closed {
        let peer: String
        let id: ForeignText
        /// Its place among all that arrived in the session, when it is to be handled later.
        let number: UInt32?

        static func read(_ row: borrowing Row) throws(HandlerError) -> Closed {
            Closed(
                peer: row.text(0), id: row.foreignText(1),
                number: row.optionalInteger(2).map { UInt32(truncatingIfNeeded: $0) })
        }
    }

    /// Ends a request; whoever does that answers in the same step. See ``Account/closeRequest(_:in:)``.
    ///
    /// - Returns: Nil when it was answered before.
    func close(_ iq: IQ, in step: borrowing Step) throws(HandlerError) -> Closed? {
        try step.first(
            """
            DELETE FROM inbound_request WHERE account = ? AND peer = ? AND stanza_id = ?
            RETURNING peer, stanza_id, number
            """, account, Self.peer(iq), iq.id, read: Closed.read)
    }

    /// Removes the requests whose time is over.
    func takeExpired(liveTime: Int64, limit: Int, in step: borrowing Step) throws -> [Closed] {
        try step.all(
            """
            DELETE FROM inbound_request WHERE (account, peer, stanza_id) IN (
                SELECT account, peer, stanza_id FROM inbound_request WHERE account = ? AND deadline <= ? LIMIT ?)
            RETURNING peer, stanza_id, number
            """, account, liveTime, limit, read: Closed.read)
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

    /// The answer to a request whose time is over.
    static func refusal(to request: Closed) throws -> IQ {
        let peer = request.peer.isEmpty ? nil : try JID(request.peer)
        return refusal(to: peer, id: request.id, StanzaError(.internalServerError))
    }

    /// An error in answer to a request.
    static func refusal(to peer: JID?, id: ForeignText, _ error: StanzaError) -> IQ {
        IQ(type: .error, to: peer, id: id, payload: error.element)
    }

    private static func peer(_ iq: IQ) -> String { iq.from?.description ?? "" }
}

extension Account {
    /// Ends a request of somebody else's, which is handled with that; whoever does that answers in the same step.
    ///
    /// - Returns: False when it was answered before.
    func closeRequest(_ iq: IQ, in step: borrowing Step) throws -> Bool {
        guard let closed = try inboundRequests.close(iq, in: step) else { return false }
        try markHandled(closed, in: step)
        return true
    }

    /// Counts the request as handled, if that was left for later.
    func markHandled(_ request: InboundRequestTable.Closed, in step: borrowing Step) throws {
        guard let number = request.number else { return }
        let session = try sessionNumber(in: step)
        try markHandled(DeferredStanza(session: session, number: number), in: step)
    }
}
