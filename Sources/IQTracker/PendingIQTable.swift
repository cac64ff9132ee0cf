package import Handlers
package import XMPPCore

/// Pending requests of one account, one row each.
///
/// Every operation works inside a ``/Handlers/Step``. A request, its stanza and its handler commit together; so do an
/// answer, the handler's effects and the account's received count.
///
/// An `Account` keeps one by itself; a program needs it only to look.
///
/// ```swift
/// let requests = PendingIQTable(account: 1)
/// let deadline = try store.read { try requests.nextConnectedDeadline(in: $0) }
/// ```
package struct PendingIQTable: Sendable {
    /// Schema of the table.
    package static let schema = Schema(
        module: "iq-tracker",
        migrations: [
            """
            CREATE TABLE request(
                account INTEGER NOT NULL,
                stanza_id TEXT NOT NULL,
                peer TEXT,
                session INTEGER,
                handler INTEGER NOT NULL REFERENCES handler(id) DEFERRABLE INITIALLY DEFERRED,
                deadline INTEGER NOT NULL,
                on_timeout INTEGER NOT NULL DEFAULT 0,  -- 0 call the handler, 1 invalidate it
                PRIMARY KEY(account, stanza_id)) WITHOUT ROWID;
            CREATE INDEX request_deadline ON request(account, deadline);
            CREATE INDEX request_session ON request(account, session);
            CREATE INDEX request_handler ON request(handler);
            """,
            // A lost session is settled a few rows at a time, in the order of their handlers, without sorting all of them.
            """
            DROP INDEX request_session;
            CREATE INDEX request_session ON request(account, session, handler);
            """,
            // What an answer that is to be handled later has told: its place among all that arrived in the session, and
            // the outcome with which its handler ends. Its deadline never comes.
            """
            ALTER TABLE request ADD COLUMN number INTEGER;
            ALTER TABLE request ADD COLUMN outcome INTEGER;
            CREATE INDEX request_number ON request(account, number) WHERE number IS NOT NULL;
            """,
        ])

    /// Pending request.
    package struct Request: Hashable, Sendable {
        /// The IQ's id.
        package let stanzaID: ForeignText
        /// Recipient of the request; nil for the own account.
        package let peer: JID?
        /// The handler that its answer calls.
        package let handler: AnyHandlerID
        /// Action for the handler when the request times out.
        package var timeoutPolicy = RequestTimeoutPolicy.call
        /// The place of an answer that is to be handled later among all that arrived in the session; nil without one.
        package var number: UInt32?
    }

    /// Result of matching an answer.
    package enum Match: Hashable, Sendable {
        /// The request it answers; its row is removed.
        case request(Request)
        /// A pending request has that id but another recipient: the answer is refused and nothing changes.
        case refused
        /// No pending request has that id: it was answered, timed out or was never sent.
        case unknown
    }

    /// The account's row in the store.
    package let account: Int64

    /// Makes a view of the requests of one account; nothing is read or written.
    ///
    /// - Parameter account: The account's row in the store.
    package init(account: Int64) { self.account = account }

    /// Adds a request.
    ///
    /// - Parameters:
    ///   - stanzaID: The IQ's id, unique for the account.
    ///   - peer: The recipient; nil for the own account.
    ///   - session: The session that may carry it; nil while there is none, so that it cannot have been sent.
    ///   - handler: The handler that its answer calls.
    ///   - connectedDeadline: When it times out, in the account's connected time.
    ///   - timeoutPolicy: What becomes of the handler then.
    ///   - step: The step.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails or a request of that id waits already.
    package func insert<Context>(
        stanzaID: ForeignText, peer: JID?, session: Int64?, handler: HandlerID<Context>,
        connectedDeadline: Duration, timeoutPolicy: RequestTimeoutPolicy = .call, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO request(account, stanza_id, peer, session, handler, deadline, on_timeout)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """, account, stanzaID, peer?.description, session, handler,
            connectedDeadline.milliseconds, timeoutPolicy.rawValue)
    }

    /// Claims the request that an IQ of type `result` or `error` answers.
    ///
    /// A request whose answer is to be handled later (`hold`) has been answered: for any other
    /// answer it is unknown.
    ///
    /// - Parameters:
    ///   - iq: The answer.
    ///   - number: The answer's place among all that arrived in the session, when it was there before and was to be handled
    ///     later.
    ///   - own: The account's own address, full once a resource is bound.
    ///   - step: The step.
    /// - Returns: The request with its handler, or why there is none.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func claim(
        answer iq: IQ, number: UInt32? = nil, own: JID, in step: borrowing Step
    ) throws(HandlerError) -> Match {
        guard let request = try find(iq.id, in: step), request.number == number else { return .unknown }
        guard
            PeerRule.accepts(
                from: iq.from, asked: request.peer, account: own, isError: iq.type == .error,
                isSecret: StanzaID.isRandom(iq.id))
        else { return .refused }
        try remove(request.stanzaID, in: step)
        return .request(request)
    }

    // MARK: Answers that are handled later

    /// Restores a request whose answer is deferred: its timeout stops, and only the same answer is accepted.
    ///
    /// - Parameters:
    ///   - request: What ``claim(answer:number:own:in:)`` gave, with the answer's number.
    ///   - session: The session in which the answer arrived.
    ///   - outcome: With what its handler ends.
    ///   - step: The step.
    package func hold(
        _ request: Request, session: Int64, outcome: Outcome, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO request(account, stanza_id, peer, session, handler, deadline, on_timeout, number, outcome)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """, account, request.stanzaID, request.peer?.description, session, request.handler, Int64.max,
            request.timeoutPolicy.rawValue, request.number.map(Int64.init), outcome.rawValue)
    }

    /// Claims the request whose deferred answer has that number.
    ///
    /// - Returns: Its handler, and with what it ends; nil when it was no answer, or its request was given up.
    package func claimHeld(
        number: UInt32, in step: borrowing Step
    ) throws(HandlerError) -> (handler: AnyHandlerID, outcome: Outcome)? {
        let held = try step.first(
            "DELETE FROM request WHERE account = ? AND number = ? RETURNING handler, outcome", account, number
        ) { (AnyHandlerID(rawValue: $0.integer(0)), Outcome(rawValue: $0.integer(1)) ?? .result) }
        return held
    }

    // MARK: Canceling, and what never comes

    /// Claims the request with that id, or its successor, to cancel it.
    ///
    /// - Parameters:
    ///   - id: The id under which the first request of its kind was sent.
    ///   - step: The step.
    /// - Returns: The request; nil when none waits.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func claim(id: ForeignText, in step: borrowing Step) throws(HandlerError) -> Request? {
        var request = try find(id, in: step)
        if request == nil { request = try successor(of: id, in: step) }
        guard let request else { return nil }
        try remove(request.stanzaID, in: step)
        return request
    }

    /// Returns the id of the request that continues an answered one: of several steps one waits at a time, and each is found by
    /// the id of the first one.
    ///
    /// - Parameter id: The id of the step before.
    package static func nextID(after id: ForeignText) -> ForeignText {
        let id = id.string
        guard let mark = id.lastIndex(of: successorMark), let number = Int(id[id.index(after: mark)...]),
            number < .max
        else { return ForeignText(id + [successorMark] + "2") }
        return ForeignText(id[...mark] + String(number + 1))
    }

    private static let successorMark: Character = "/"

    /// Removes and returns requests whose deadline has passed, oldest deadline first.
    ///
    /// - Parameters:
    ///   - connectedTime: The account's connected time.
    ///   - limit: The most to return, so that a step stays short.
    ///   - step: The step.
    /// - Returns: The requests; their handlers are the caller's to end.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    /// - Complexity: In the number returned, not in the number that waits.
    package func claimExpired(connectedTime: Duration, limit: Int, in step: borrowing Step)
        throws(HandlerError)
        -> [Request]
    {
        let expired = try step.all(
            """
            SELECT stanza_id, peer, handler, on_timeout, number FROM request WHERE account = ? AND deadline <= ?
            ORDER BY deadline, stanza_id LIMIT ?
            """, account, connectedTime.milliseconds, limit, read: Self.read)
        for request in expired { try remove(request.stanzaID, in: step) }
        return expired
    }

    /// Removes and returns requests that were sent in a session that is lost, oldest handler first.
    ///
    /// - Parameters:
    ///   - session: The number of the session.
    ///   - limit: The most to return, so that a step stays short.
    ///   - step: The step.
    /// - Returns: The requests; their handlers are the caller's to invalidate.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func claimLost(session: Int64, limit: Int, in step: borrowing Step) throws(HandlerError)
        -> [Request]
    {
        let lost = try step.all(
            """
            SELECT stanza_id, peer, handler, on_timeout, number FROM request WHERE account = ? AND session = ?
            ORDER BY handler LIMIT ?
            """, account, session, limit, read: Self.read)
        for request in lost { try remove(request.stanzaID, in: step) }
        return lost
    }

    /// Removes and returns requests of any session, oldest handler first: the account is logged out.
    ///
    /// - Parameters:
    ///   - last: Where the last call ended: the handler of its last request. Zero for the first.
    ///   - newest: The last handler that counts; what is bound later stays.
    ///   - limit: The most to return, so that a step stays short.
    ///   - step: The step.
    /// - Returns: The requests; their handlers are the caller's to invalidate.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func claimAny(
        boundAfter last: AnyHandlerID = AnyHandlerID(rawValue: 0), upTo newest: AnyHandlerID, limit: Int,
        in step: borrowing Step
    ) throws(HandlerError) -> [Request] {
        // By handler, not by account and then sorted: the rows of other accounts are passed once, this one's read once.
        let requests = try step.all(
            """
            SELECT stanza_id, peer, handler, on_timeout, number FROM request
            WHERE +account = ? AND handler > ? AND handler <= ? ORDER BY handler LIMIT ?
            """, account, last, newest, limit, read: Self.read)
        for request in requests { try remove(request.stanzaID, in: step) }
        return requests
    }

    /// Lets a session carry the requests that none has carried yet.
    ///
    /// - Parameters:
    ///   - session: The number of the session.
    ///   - step: The step.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func adopt(session: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE request SET session = ? WHERE account = ? AND session IS NULL", session, account)
    }

    /// Returns the earliest deadline in connected time, or nil when nothing waits.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The deadline, to be compared with the account's connected time.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func nextConnectedDeadline(in source: borrowing some Readable) throws(HandlerError) -> Duration? {
        try source.first("SELECT min(deadline) FROM request WHERE account = ?", account) {
            $0.integer(0) == .max ? nil : $0.optionalDuration(0)
        } ?? nil
    }

    // MARK: Rows

    private func find(_ id: ForeignText, in step: borrowing Step) throws(HandlerError) -> Request? {
        try step.first(
            "SELECT stanza_id, peer, handler, on_timeout, number FROM request WHERE account = ? AND stanza_id = ?",
            account, id,
            read: Self.read)
    }

    /// Returns the request with an id of ``nextID(after:)``: the mark and a digit.
    private func successor(of id: ForeignText, in step: borrowing Step) throws(HandlerError) -> Request? {
        try step.first(
            """
            SELECT stanza_id, peer, handler, on_timeout, number FROM request
            WHERE account = ?1 AND stanza_id > ?2 || '/' AND stanza_id < ?2 || '/:'
            """, account, id, read: Self.read)
    }

    private func remove(_ id: ForeignText, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM request WHERE account = ? AND stanza_id = ?", account, id)
    }

    private static func read(_ row: borrowing Row) throws(HandlerError) -> Request {
        Request(
            stanzaID: row.foreignText(0),
            peer: row.isNull(1) ? nil : try row.jid(1, of: "the request '\(row.text(0))'"),
            handler: AnyHandlerID(rawValue: row.integer(2)),
            timeoutPolicy: RequestTimeoutPolicy(rawValue: row.integer(3)) ?? .call,
            number: row.optionalInteger(4).map { UInt32(truncatingIfNeeded: $0) })
    }
}
