import Handlers
import XMPPCore

/// Steps of subscriptions that are not over: requests of others, stanzas on their way, handlers that wait for an answer.
struct SubscriptionTable {
    let account: Int64

    static let script = """
        -- Requests of others that the user has not answered.
        CREATE TABLE subscription_request(
            account INTEGER NOT NULL,
            jid TEXT NOT NULL,
            status TEXT,
            nick TEXT,
            received_at INTEGER NOT NULL,
            PRIMARY KEY(account, jid)) WITHOUT ROWID;

        -- Presence of ours that the server has not acknowledged. `lost` with the session that carried it: then the next
        -- session carries it again.
        CREATE TABLE subscription_stanza(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            account INTEGER NOT NULL,
            jid TEXT NOT NULL,
            type TEXT NOT NULL,
            status TEXT,
            lost INTEGER NOT NULL DEFAULT 0);
        CREATE INDEX subscription_stanza_jid ON subscription_stanza(account, jid);

        -- Handlers that wait until a contact has decided; `asked` once the roster has said that the contact was asked.
        CREATE TABLE subscription_wait(
            handler INTEGER PRIMARY KEY,
            account INTEGER NOT NULL,
            jid TEXT NOT NULL,
            asked INTEGER NOT NULL DEFAULT 0);
        CREATE INDEX subscription_wait_jid ON subscription_wait(account, jid);
        """

    // MARK: Requests of others

    static let bounds = """
        -- The oldest requests make way by this index. Those that are there already get the bounds of new ones; a character has
        -- four bytes at most.
        CREATE INDEX subscription_request_oldest ON subscription_request(account, received_at, jid);
        UPDATE subscription_request SET status = substr(status, 1, 256) WHERE length(CAST(status AS BLOB)) > 1024;
        UPDATE subscription_request SET nick = substr(nick, 1, 256) WHERE length(CAST(nick AS BLOB)) > 1024;
        """

    /// How many requests are kept; strangers make them. The oldest make way, and the server shows them again in the next
    /// session (RFC 6121 section 3.1.3).
    static let maximumRequests = 1000

    /// - Returns: The request if it was not known.
    func record(_ presence: Presence, from jid: JID, in step: borrowing Step) throws(HandlerError)
        -> SubscriptionRequest?
    {
        let nick = presence.element.child("nick", Namespaces.nick)?.text
        let status = presence.element.child("status", presence.element.namespace)?.text
        let request = SubscriptionRequest(
            jid: jid, status: Self.shortened(status), nick: Self.shortened(nick), receivedAt: step.now)
        let isNew =
            try step.execute(
                """
                INSERT INTO subscription_request(account, jid, status, nick, received_at)
                VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
                """, account, jid.description, request.status, request.nick, request.receivedAt) == 1
        guard isNew else { return nil }
        try step.write(
            """
            DELETE FROM subscription_request WHERE account = ?1 AND jid IN (
                SELECT jid FROM subscription_request WHERE account = ?1 ORDER BY received_at, jid
                LIMIT (SELECT CASE WHEN count(*) > ?2 THEN count(*) - ?2 ELSE 0 END FROM subscription_request
                    WHERE account = ?1))
            """, account, Self.maximumRequests)
        return request
    }

    private static func shortened(_ text: ForeignText?) -> ForeignText? {
        text.flatMap { $0.isEmpty ? nil : $0.prefix(bytes: ForeignBounds.words) }
    }

    func requests(in source: borrowing some Readable) throws(HandlerError) -> [SubscriptionRequest] {
        try source.all(
            """
            SELECT jid, status, nick, received_at FROM subscription_request WHERE account = ?
            ORDER BY received_at, jid
            """, account
        ) { row in
            (try? JID(received: row.text(0))).map {
                SubscriptionRequest(
                    jid: $0, status: row.optionalForeignText(1), nick: row.optionalForeignText(2),
                    receivedAt: row.timestamp(3))
            }
        }.compactMap(\.self)
    }

    /// - Returns: Whether there was one.
    @discardableResult
    func removeRequest(of jid: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "DELETE FROM subscription_request WHERE account = ? AND jid = ?", account, jid.description) > 0
    }

    /// Another client of the account has approved them.
    func removeApproved(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM subscription_request WHERE account = ?1 AND jid IN
                (SELECT jid FROM roster_item WHERE account = ?1 AND subscription IN ('from', 'both'))
            """, account)
    }

    // MARK: Stanzas on their way

    /// Notes a stanza; one to the same contact about the same side that was lost is not sent any more.
    func add(_ type: Presence.Kind, to jid: JID, status: String?, in step: borrowing Step)
        throws(HandlerError) -> Int64
    {
        let sides: [[Presence.Kind]] = [[.subscribe, .unsubscribe], [.subscribed, .unsubscribed]]
        for kind in sides.first(where: { $0.contains(type) }) ?? [type] {
            try step.write(
                "DELETE FROM subscription_stanza WHERE account = ? AND jid = ? AND type = ? AND lost <> 0",
                account, jid.description, kind.rawValue)
        }
        try step.write(
            "INSERT INTO subscription_stanza(account, jid, type, status) VALUES (?, ?, ?, ?)", account,
            jid.description, type.rawValue, status)
        return try step.lastInsertedRow
    }

    struct Stanza {
        let row: Int64
        let jid: JID
        let type: Presence.Kind
        let status: String?
    }

    private static func read(_ row: borrowing Row) throws(HandlerError) -> Stanza? {
        guard let jid = try? JID(received: row.text(1)), let type = Presence.Kind(rawValue: row.text(2))
        else {
            return nil
        }
        return Stanza(row: row.integer(0), jid: jid, type: type, status: row.optionalText(3))
    }

    func remove(row: Int64, in step: borrowing Step) throws(HandlerError) -> Stanza? {
        try step.first(
            "DELETE FROM subscription_stanza WHERE account = ? AND id = ? RETURNING id, jid, type, status",
            account, row, read: Self.read) ?? nil
    }

    func lose(row: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE subscription_stanza SET lost = 1 WHERE account = ? AND id = ?", account, row)
    }

    /// Takes those that were lost with their session, oldest first; of several to one contact about the same side only the
    /// last counts.
    func claimLost(in step: borrowing Step) throws(HandlerError) -> [Stanza] {
        let lost = try step.all(
            """
            SELECT id, jid, type, status FROM subscription_stanza WHERE id IN
                (SELECT max(id) FROM subscription_stanza WHERE account = ? AND lost <> 0
                GROUP BY jid, type IN ('subscribe', 'unsubscribe'))
            ORDER BY id
            """, account, read: Self.read)
        try step.write("DELETE FROM subscription_stanza WHERE account = ? AND lost <> 0", account)
        return lost.compactMap(\.self)
    }

    /// Returns whether a request to that contact has not reached the server, as far as is known.
    func isUnderWay(to jid: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM subscription_stanza WHERE account = ? AND jid = ? AND type = 'subscribe'", account,
            jid.description)
    }

    // MARK: Handlers that wait for a decision

    func wait(_ handler: HandlerID<SubscriptionDecision>, for jid: JID, in step: borrowing Step)
        throws(HandlerError)
    {
        try step.write(
            "INSERT INTO subscription_wait(handler, account, jid) VALUES (?, ?, ?)", handler, account,
            jid.description)
    }

    /// The contacts whose decision is waited for.
    func awaited(in step: borrowing Step) throws(HandlerError) -> [JID] {
        try step.all("SELECT DISTINCT jid FROM subscription_wait WHERE account = ? ORDER BY jid", account) {
            try? JID(received: $0.text(0))
        }.compactMap(\.self)
    }

    func recordAsked(_ jid: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE subscription_wait SET asked = 1 WHERE account = ? AND jid = ?", account, jid.description)
    }

    /// Takes the handlers that wait for a contact, oldest first.
    ///
    /// - Parameter askedOnly: Leaves those whose request the roster does not show yet.
    func claimWaiting(for jid: JID, askedOnly: Bool = false, in step: borrowing Step) throws(HandlerError)
        -> [HandlerID<SubscriptionDecision>]
    {
        let rule = "account = ? AND jid = ?" + (askedOnly ? " AND asked <> 0" : "")
        let handlers = try step.all(
            "SELECT handler FROM subscription_wait WHERE \(rule) ORDER BY handler", account, jid.description
        ) { HandlerID<SubscriptionDecision>(rawValue: $0.integer(0)) }
        try step.write("DELETE FROM subscription_wait WHERE \(rule)", account, jid.description)
        return handlers
    }
}
