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
        /// The id that resumes the session; nil if it cannot be resumed.
        var resumptionID: String?
        /// The address bound in this session.
        var fullJID: JID?
        /// Inbound stanzas that were taken in. Our `h` is this, or ends before the first one in ``deferred``.
        var received: HandledCount
        /// The numbers of those that are not handled yet.
        var deferred: [HandledCount]
        /// The server's last `h`.
        var acknowledged: HandledCount
        /// The time for which this account has been connected, in all processes together.
        var connectedTime: Duration
        /// Whether the session could be resumed when it began.
        var wasResumable: Bool
        /// The time for which the server keeps the session after its connection broke.
        var window: Duration?
        /// When a process last noted that it was connected, by the wall clock.
        var aliveAt: Timestamp?

        func management(_ policy: AcknowledgementPolicy) -> StreamManagement {
            StreamManagement(
                received: received, deferred: deferred, acknowledged: acknowledged, policy: policy)
        }

        /// Returns whether the session is likely to be resumed. A clock that was set back says nothing.
        func canResume(now: Timestamp) -> Bool {
            guard resumptionID != nil else { return false }
            guard let window, let aliveAt, now > aliveAt else { return true }
            return now - aliveAt < window + .seconds(1)
        }
    }

    func create(in step: borrowing Step) throws(HandlerError) {
        try step.write("INSERT INTO session(account) VALUES (?) ON CONFLICT DO NOTHING", account)
    }

    func load(in source: borrowing some Readable) throws(HandlerError) -> State {
        // One row for each deferred stanza, and one when there is none.
        let rows = try source.all(
            """
            SELECT session.number, managed, resumption_id, full_jid, received, acknowledged, connected_time, resumable, max,
                alive_at, deferred.number
            FROM session LEFT JOIN deferred ON deferred.account = session.account AND deferred.session = session.number
            WHERE session.account = ?
            """, account
        ) { row in
            var state = State(
                number: row.quantity(0), isManaged: row.integer(1) != 0, resumptionID: row.optionalText(2),
                fullJID: row.optionalText(3).flatMap { try? JID(received: $0) },
                received: HandledCount(rawValue: UInt32(truncatingIfNeeded: row.integer(4))), deferred: [],
                acknowledged: HandledCount(rawValue: UInt32(truncatingIfNeeded: row.integer(5))),
                connectedTime: row.duration(6), wasResumable: row.quantity(7) != 0,
                window: row.optionalQuantity(8).map { .seconds($0) },
                aliveAt: row.optionalTimestamp(9))
            if let number = row.optionalInteger(10) {
                state.deferred = [HandledCount(rawValue: UInt32(truncatingIfNeeded: number))]
            }
            return state
        }
        guard var state = rows.first else {
            throw HandlerError(
                .databaseCorrupt,
                "the account \(account) has no session row; restore the database from a copy")
        }
        state.deferred = rows.flatMap(\.deferred)
        return state
    }

    /// Returns the address bound in the last session.
    func fullJID(in source: borrowing some Readable) throws(HandlerError) -> JID? {
        try source.first("SELECT full_jid FROM session WHERE account = ?", account) { $0.optionalText(0) }?
            .flatMap { try? JID(received: $0) }
    }

    /// Returns the number of the session.
    func number(in step: borrowing Step) throws(HandlerError) -> Int64 {
        try step.first("SELECT number FROM session WHERE account = ?", account) { $0.integer(0) } ?? 0
    }

    /// A new session was bound. Counting starts at zero on both sides.
    func start(_ bound: BoundSession, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE session SET number = number + 1, open_number = number + 1, managed = ?, resumption_id = ?, location = ?,
                full_jid = ?, received = 0, acknowledged = 0, bound_count = bound_count + 1, resumable = ?, max = ?,
                alive_at = ?, damage = NULL, damage_at = NULL
            WHERE account = ?
            """, bound.isManaged, bound.resumptionID, bound.location, bound.fullJID.description,
            bound.resumptionID != nil, bound.window?.components.seconds, step.now, account)
    }

    /// The session goes on over a new connection.
    func resume(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE session SET open_number = number, resumed_count = resumed_count + 1 WHERE account = ?",
            account)
    }

    /// The connection is gone; the session may be resumed.
    func suspend(connectedTime: Duration, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE session SET open_number = NULL, connected_time = ?, alive_at = ? WHERE account = ?",
            connectedTime.milliseconds,
            step.now,
            account)
    }

    /// The session cannot be resumed any more.
    func lose(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE session SET open_number = NULL, managed = 0, resumption_id = NULL, location = NULL WHERE account = ?",
            account)
    }

    func advance(received: HandledCount, connectedTime: Duration, in step: borrowing Step)
        throws(HandlerError)
    {
        try step.write(
            "UPDATE session SET received = ?, connected_time = ?, alive_at = ? WHERE account = ?",
            received.rawValue, connectedTime.milliseconds, step.now, account)
    }

    func setAcknowledged(_ count: HandledCount, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE session SET acknowledged = ? WHERE account = ?", count.rawValue, account)
    }

    // MARK: What cannot be read

    /// The damage of an element without a readable end, which ended a stream.
    struct Damage {
        /// The number of stanzas that arrived in the session before it.
        let position: HandledCount
        /// The kind, which distinguishes it from other damage.
        let kind: String

        /// Bytes of the element's name that distinguish it.
        private static let nameBytes = 64

        init(position: HandledCount, _ error: StreamParserError) {
            self.position = position
            let name = error.element?.name ?? ""
            kind = "\(error.code) \(String(decoding: name.utf8.prefix(Self.nameBytes), as: UTF8.self))"
        }
    }

    /// Notes damage.
    ///
    /// - Returns: Whether a stream of this session ended with the same damage at the same place before.
    func meet(_ damage: Damage, in step: borrowing Step) throws(HandlerError) -> Bool {
        let isKnown = try step.first(
            """
            SELECT damage IS NOT DISTINCT FROM ? AND damage_at IS NOT DISTINCT FROM ? FROM session
            WHERE account = ?
            """, damage.kind,
            damage.position.rawValue, account
        ) { $0.integer(0) != 0 }
        if isKnown == true { return true }
        try step.write(
            "UPDATE session SET damage = ?, damage_at = ? WHERE account = ?", damage.kind,
            damage.position.rawValue, account)
        return false
    }

    // MARK: Stanzas that are handled later

    func deferred(session: Int64, in source: borrowing some Readable) throws(HandlerError) -> [HandledCount] {
        try source.all("SELECT number FROM deferred WHERE account = ? AND session = ?", account, session) {
            HandledCount(rawValue: UInt32(truncatingIfNeeded: $0.integer(0)))
        }
    }

    func hasDeferred(session: Int64, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first("SELECT 1 FROM deferred WHERE account = ? AND session = ? LIMIT 1", account, session) {
            $0.integer(0)
        } != nil
    }

    func `defer`(_ stanza: DeferredStanza, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "INSERT INTO deferred(account, session, number) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", account,
            stanza.session, stanza.number)
    }

    func isDeferred(_ stanza: DeferredStanza, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first(
            "SELECT 1 FROM deferred WHERE account = ? AND session = ? AND number = ?", account,
            stanza.session, stanza.number
        ) { $0.integer(0) } != nil
    }

    /// Counts a deferred stanza as handled.
    ///
    /// - Returns: False when it was handled before, or its session is lost.
    func settle(_ stanza: DeferredStanza, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "DELETE FROM deferred WHERE account = ? AND session = ? AND number = ?", account, stanza.session,
            stanza.number) > 0
    }

    /// Whatever was to be handled later comes again, in a way that has nothing to do with this session.
    func forgetDeferred(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM deferred WHERE account = ?", account)
    }

    /// The session that may carry a stanza committed now; nil while there is no stream.
    func openNumber(in step: borrowing Step) throws(HandlerError) -> Int64? {
        try step.first("SELECT open_number FROM session WHERE account = ?", account) {
            $0.optionalInteger(0)
        } ?? nil
    }

    func connectedTime(in step: borrowing Step) throws(HandlerError) -> Duration {
        try step.first("SELECT connected_time FROM session WHERE account = ?", account) {
            $0.duration(0)
        } ?? .zero
    }
}

/// The server's answers to binding a resource and enabling stream management.
struct BoundSession: Hashable, Sendable {
    var fullJID: JID
    /// Whether `<enabled/>` was received.
    var isManaged: Bool
    /// The id of `<enabled/>`; nil unless it said `resume='true'` (XEP-0198 section 3: without it the id resumes nothing).
    var resumptionID: String?
    /// The location for resuming the session.
    var location: String?
    /// The time for which the server keeps the session after its connection broke; nil if it announced none.
    var window: Duration?
    /// The reason why the server did not enable stream management although it offers it.
    var refusal: StanzaError?
    /// The namespaces of the server's features (RFC 6120 section 4.3.2); nil when the server did not show them.
    var features: Set<ForeignText>?
}
