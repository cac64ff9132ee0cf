import Handlers
import XMPPCore

/// The messages whose delivery is watched.
struct DeliveryTable {
    let account: Int64

    static let schema = Schema(
        module: "xmpp-chat",
        migrations: [
            """
            -- `recipient` is whom it was sent to, `peer` the bare address of that. Times in milliseconds since 1970.
            -- `failure` is a stanza error's condition, 'timed-out' or 'logged-out'; `timer` and `handler` are rows of the
            -- table handler while the delivery is not over.
            CREATE TABLE delivery(
                account INTEGER NOT NULL,
                stanza_id TEXT NOT NULL,
                peer TEXT NOT NULL,
                recipient TEXT NOT NULL,
                sent_at INTEGER NOT NULL,
                acknowledged_at INTEGER,
                delivered_at INTEGER,
                failure TEXT,
                attempts INTEGER NOT NULL DEFAULT 1,
                tries INTEGER NOT NULL,
                wait INTEGER NOT NULL,
                xml BLOB,
                timer INTEGER,
                handler INTEGER,
                PRIMARY KEY(account, stanza_id)) WITHOUT ROWID;
            CREATE INDEX delivery_peer ON delivery(account, peer);
            """,
            "CREATE INDEX delivery_sent ON delivery(account, sent_at);",
        ],
        handlers: [MessageAcknowledged.self, MessageUnacknowledged.self, DeliveryDeadline.self])

    struct Row {
        var delivery: Delivery
        /// The maximum number of attempts.
        var tries: Int
        /// The time in which it must arrive each time, in milliseconds.
        var wait: Int64
        var xml: [UInt8]
        var timer: HandlerID<TimerFired>?
        var handler: HandlerID<DeliveryEnded>?
    }

    private static let columns =
        "stanza_id, recipient, sent_at, acknowledged_at, delivered_at, failure, attempts, tries, wait, xml, timer, handler"

    func row(_ id: ForeignText, in source: borrowing some Readable) throws -> Row? {
        try source.first(
            "SELECT \(Self.columns) FROM delivery WHERE account = ? AND stanza_id = ?", account, id,
            read: Self.read)
    }

    func rows(with peer: JID, limit: Int, in source: borrowing some Readable) throws -> [Row] {
        try source.all(
            "SELECT \(Self.columns) FROM delivery WHERE account = ? AND peer = ? ORDER BY sent_at DESC LIMIT ?",
            account,
            peer.bare.description, limit, read: Self.read)
    }

    /// - Returns: False when a message with that id is being watched already.
    func insert(_ row: Row, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            """
            INSERT INTO delivery(
                account, stanza_id, peer, recipient, sent_at, tries, wait, xml, timer, handler)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
            """, account, row.delivery.id, row.delivery.peer.bare.description,
            row.delivery.peer.description, row.delivery.sentAt, row.tries, row.wait,
            row.tries > 1 ? row.xml : nil, row.timer?.rawValue, row.handler?.rawValue) == 1
    }

    func update(_ row: Row, in step: borrowing Step) throws(HandlerError) {
        let delivery = row.delivery
        try step.write(
            """
            UPDATE delivery SET acknowledged_at = ?, delivered_at = ?, failure = ?, attempts = ?, timer = ?, handler = ?,
                xml = CASE WHEN ? THEN NULL ELSE xml END
            WHERE account = ? AND stanza_id = ?
            """, delivery.acknowledgedAt, delivery.deliveredAt, delivery.failure.map(Self.text),
            delivery.attempts,
            row.timer?.rawValue, row.handler?.rawValue, delivery.isOver, account, delivery.id)
    }

    func hasWritten(to peer: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM delivery WHERE account = ? AND peer = ? LIMIT 1", account, peer.bare.description)
    }

    /// Removes what is over.
    func forget(sentBefore time: Timestamp, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.execute(
            """
            DELETE FROM delivery WHERE account = ? AND sent_at < ?
                AND (delivered_at IS NOT NULL OR failure IS NOT NULL)
            """, account, time)
    }

    /// The maximum number of kept deliveries that no program has asked for.
    static let maximumUnasked = 10_000
    /// One message in so many removes what is beyond that, so many rows at most.
    static let trimInterval = 64
    private static let trimmedAtOnce = 2 * trimInterval

    /// Removes the oldest deliveries beyond ``maximumUnasked`` that no handler waits for.
    ///
    /// - Returns: Their timers.
    func trim(in step: borrowing Step) throws(HandlerError) -> [HandlerID<TimerFired>] {
        let oldest = try step.first(
            "SELECT sent_at FROM delivery WHERE account = ? ORDER BY sent_at DESC LIMIT 1 OFFSET ?", account,
            Self.maximumUnasked
        ) { $0.integer(0) }
        guard let oldest else { return [] }
        return try step.all(
            """
            DELETE FROM delivery WHERE account = ?1 AND stanza_id IN
                (SELECT stanza_id FROM delivery WHERE account = ?1 AND sent_at <= ?2 AND handler IS NULL
                ORDER BY sent_at LIMIT ?3)
            RETURNING timer
            """, account, oldest, Self.trimmedAtOnce
        ) { $0.optionalInteger(0).map(HandlerID<TimerFired>.init(rawValue:)) }.compactMap(\.self)
    }

    private static func read(_ row: borrowing Handlers.Row) throws(HandlerError) -> Row {
        let delivery = Delivery(
            id: row.foreignText(0), peer: try row.jid(1, of: "a delivery"), sentAt: row.timestamp(2),
            acknowledgedAt: row.optionalTimestamp(3), deliveredAt: row.optionalTimestamp(4),
            attempts: Int(row.quantity(6)), failure: row.optionalText(5).map(failure))
        return Row(
            delivery: delivery, tries: Int(row.quantity(7)), wait: row.quantity(8), xml: row.blob(9),
            timer: row.optionalInteger(10).map(HandlerID.init(rawValue:)),
            handler: row.optionalInteger(11).map(HandlerID.init(rawValue:)))
    }

    static func text(_ failure: Delivery.Failure) -> String {
        switch failure {
        case .refused(let condition): condition.rawValue.prefix(bytes: ForeignBounds.condition).string
        case .timedOut: "timed-out"
        case .loggedOut: "logged-out"
        }
    }

    static func failure(_ text: String) -> Delivery.Failure {
        switch text {
        case "timed-out": .timedOut
        case "logged-out": .loggedOut
        default: .refused(OpenName<StanzaError>(rawValue: ForeignText(text)))
        }
    }
}
