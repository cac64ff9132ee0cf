package import Handlers
package import XMPPCore

/// The requests of other entities that a handler has received and not answered yet.
///
/// A row allows one answer: the step that answers removes it.
package struct InboundRequestTable: Sendable {
    /// The account's row in the store.
    package let account: Int64
    /// The connected time that a handler may take.
    package let timeout: Duration

    package init(account: Int64, timeout: Duration) { (self.account, self.timeout) = (account, timeout) }

    /// The maximum number of open requests.
    package static let maximum = 1000
    /// The maximum number of open requests of one bare address, so that no peer can block the others.
    package static let maximumEach = 100

    /// Returns whether one more request may be opened.
    package func hasRoom(for iq: IQ, in step: borrowing Step) throws(HandlerError) -> Bool {
        guard ForeignBounds.fitKey(Self.peer(iq), iq.id) else { return false }
        let (bare, limit) = (iq.from?.bare.description ?? "", Self.maximumEach)
        // '0' follows '/': between them are the full addresses of that bare one.
        return try step.first(
            """
            SELECT (SELECT count(*) FROM (SELECT 1 FROM inbound_request WHERE account = ?1 LIMIT ?2) AS all_open) < ?2
                AND (SELECT count(*) FROM (
                    SELECT 1 FROM inbound_request WHERE account = ?1 AND peer = ?3
                    UNION ALL
                    SELECT 1 FROM inbound_request WHERE account = ?1 AND peer > ?3 || '/' AND peer < ?3 || '0'
                    LIMIT ?4) AS of_peer) < ?4
            """, account, Self.maximum, bare, limit
        ) { $0.integer(0) != 0 } ?? false
    }

    /// - Returns: False when a request of that sender and id is open already.
    package func open(_ iq: IQ, connectedTime: Duration, in step: borrowing Step) throws(HandlerError) -> Bool
    {
        try step.execute(
            """
            INSERT INTO inbound_request(account, peer, stanza_id, deadline) VALUES (?, ?, ?, ?)
            ON CONFLICT DO NOTHING
            """,
            account, Self.peer(iq), iq.id, TimeSource.sum(connectedTime, timeout).milliseconds) == 1
    }

    /// Takes note of the place of a request that is to be handled later among all that arrived in the session.
    package func postpone(_ iq: IQ, number: UInt32, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE inbound_request SET number = ? WHERE account = ? AND peer = ? AND stanza_id = ?", number,
            account, Self.peer(iq), iq.id)
    }

    /// Returns whether it is the request with that place which is open, and not another one with its id.
    package func isOpen(_ iq: IQ, number: UInt32, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first(
            """
            SELECT number IS NOT DISTINCT FROM ? FROM inbound_request
            WHERE account = ? AND peer = ? AND stanza_id = ?
            """,
            number,
            account, Self.peer(iq), iq.id
        ) { $0.integer(0) != 0 } ?? false
    }

    /// Returns whether the request was neither answered nor ended by its time.
    package func isOpen(_ iq: IQ, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM inbound_request WHERE account = ? AND peer = ? AND stanza_id = ?", account,
            Self.peer(iq), iq.id)
    }

    /// A request that ended.
    package struct Closed: Sendable {
        package let peer: String
        package let id: ForeignText
        /// Its place among all that arrived in the session, when it is to be handled later.
        package let number: UInt32?

        static func read(_ row: borrowing Row) throws(HandlerError) -> Closed {
            Closed(
                peer: row.text(0), id: row.foreignText(1),
                number: row.optionalInteger(2).map { UInt32(truncatingIfNeeded: $0) })
        }
    }

    /// Ends a request; the caller answers it in the same step.
    ///
    /// - Returns: Nil when it was answered before.
    package func close(_ iq: IQ, in step: borrowing Step) throws(HandlerError) -> Closed? {
        try step.first(
            """
            DELETE FROM inbound_request WHERE account = ? AND peer = ? AND stanza_id = ?
            RETURNING peer, stanza_id, number
            """, account, Self.peer(iq), iq.id, read: Closed.read)
    }

    /// Removes the requests whose deadline has passed.
    package func claimExpired(connectedTime: Duration, limit: Int, in step: borrowing Step) throws -> [Closed]
    {
        try step.all(
            """
            DELETE FROM inbound_request WHERE (account, peer, stanza_id) IN (
                SELECT account, peer, stanza_id FROM inbound_request WHERE account = ? AND deadline <= ? LIMIT ?)
            RETURNING peer, stanza_id, number
            """, account, connectedTime.milliseconds, limit, read: Closed.read)
    }

    /// Returns the earliest deadline in connected time, or nil when nothing is open.
    package func nextConnectedDeadline(in step: borrowing Step) throws(HandlerError) -> Duration? {
        try step.first("SELECT min(deadline) FROM inbound_request WHERE account = ?", account) {
            $0.optionalDuration(0)
        } ?? nil
    }

    /// Removes all requests, as the address that they were sent to does not exist any more.
    package func forgetAll(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM inbound_request WHERE account = ?", account)
    }

    /// Returns the answer to a request whose time has passed.
    package static func refusal(to request: Closed) throws -> IQ {
        let peer = request.peer.isEmpty ? nil : try JID(received: request.peer)
        return refusal(to: peer, id: request.id, StanzaError(.internalServerError))
    }

    /// Returns an error in answer to a request.
    package static func refusal(to peer: JID?, id: ForeignText, _ error: StanzaError) -> IQ {
        IQ(type: .error, to: peer, id: id, payload: error.element)
    }

    private static func peer(_ iq: IQ) -> String { iq.from?.description ?? "" }
}
