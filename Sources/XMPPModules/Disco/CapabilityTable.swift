import Handlers
import XMPPCore

/// The features of entities, by the digest in their presence (XEP-0115).
struct CapabilityTable {
    let account: Int64

    static let schema = Schema(
        module: "xmpp-disco",
        migrations: [
            """
            -- What a digest stands for, whoever has it: checked, so the same for every account. `info` is disco XML.
            CREATE TABLE capability(
                verification TEXT PRIMARY KEY,
                info TEXT NOT NULL,
                learned_at INTEGER NOT NULL) WITHOUT ROWID;
            -- Whose presence carries which digest, in this session.
            CREATE TABLE entity(
                account INTEGER NOT NULL,
                jid TEXT NOT NULL,
                verification TEXT NOT NULL,
                PRIMARY KEY(account, jid)) WITHOUT ROWID;
            -- What is being asked for.
            CREATE TABLE capability_query(
                account INTEGER NOT NULL,
                verification TEXT NOT NULL,
                PRIMARY KEY(account, verification)) WITHOUT ROWID;
            """,
            """
            -- The oldest digests make way by this index.
            CREATE INDEX capability_oldest ON capability(learned_at);
            """,
            """
            -- The node that presence names beside the digest, NULL for one that is too long, and whether that entity was asked.
            ALTER TABLE entity ADD COLUMN node TEXT;
            ALTER TABLE entity ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
            """,
        ], handlers: [CapabilitiesFetched.self])

    /// The maximum number of stored digests; the oldest are removed first.
    static let limit = 1000
    /// The maximum number of resources stored with their digest; the features of further ones are unknown.
    static let entityLimit = 5000
    /// The maximum number of queries at once: more than any contact list needs, fewer than a flood.
    static let queryLimit = 256
    /// The maximum size of the stored XML in bytes; usual ones have some thousand.
    static let longestInfo = 16_384

    func forgetEntities(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM entity WHERE account = ?", account)
        try step.write("DELETE FROM capability_query WHERE account = ?", account)
    }

    /// What the presence of an entity says (XEP-0115 section 4).
    struct Claim: Hashable {
        let jid: JID
        let verification: ForeignText
        /// The node, without the digest.
        let node: ForeignText?
    }

    /// - Returns: False when there are too many, or the address is too long for a key; nothing was changed then.
    func set(_ claim: Claim, in step: borrowing Step) throws(HandlerError) -> Bool {
        guard ForeignBounds.fitKey(claim.jid) else { return false }
        return try step.execute(
            """
            INSERT INTO entity(account, jid, verification, node) SELECT ?1, ?2, ?3, ?5
            WHERE EXISTS (SELECT 1 FROM entity WHERE account = ?1 AND jid = ?2)
                OR (SELECT count(*) FROM (SELECT 1 FROM entity WHERE account = ?1 LIMIT ?4) AS kept) < ?4
            ON CONFLICT(account, jid) DO UPDATE SET verification = excluded.verification, node = excluded.node,
                asked = CASE WHEN entity.verification = excluded.verification THEN entity.asked ELSE 0 END
            """, account, claim.jid.description, claim.verification, Self.entityLimit, claim.node) > 0
    }

    func recordAsked(_ jid: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE entity SET asked = 1 WHERE account = ? AND jid = ?", account, jid.description)
    }

    /// An entity with that digest that was not asked in this session.
    func unasked(_ verification: ForeignText, in step: borrowing Step) throws -> Claim? {
        let found = try step.first(
            "SELECT jid, node FROM entity WHERE account = ? AND verification = ? AND asked = 0 LIMIT 1",
            account,
            verification
        ) { (jid: $0.text(0), node: $0.optionalForeignText(1)) }
        return try found.map {
            Claim(jid: try JID(received: $0.jid), verification: verification, node: $0.node)
        }
    }

    func forget(_ jid: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM entity WHERE account = ? AND jid = ?", account, jid.description)
    }

    func isKnown(_ verification: ForeignText, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists("SELECT 1 FROM capability WHERE verification = ?", verification)
    }

    /// - Returns: False when it is being asked for already, or too much is.
    func startQuery(_ verification: ForeignText, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            """
            INSERT INTO capability_query(account, verification)
            SELECT ?1, ?2 WHERE (SELECT count(*) FROM capability_query WHERE account = ?1) < ?3
            ON CONFLICT DO NOTHING
            """, account, verification, Self.queryLimit) == 1
    }

    func endQuery(_ verification: ForeignText, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM capability_query WHERE account = ? AND verification = ?", account, verification)
    }

    func learn(_ verification: ForeignText, _ info: DiscoInfo, in step: borrowing Step) throws(HandlerError) {
        let text = info.element().serialized()
        guard text.utf8.count <= Self.longestInfo else { return }
        try step.write(
            """
            INSERT INTO capability(verification, info, learned_at) VALUES (?, ?, ?)
            ON CONFLICT(verification) DO UPDATE SET info = excluded.info, learned_at = excluded.learned_at
            """, verification, text, step.now)
        try step.write(
            """
            DELETE FROM capability WHERE verification IN (
                SELECT verification FROM capability ORDER BY learned_at
                LIMIT (SELECT CASE WHEN count(*) > ?1 THEN count(*) - ?1 ELSE 0 END FROM capability))
            """, Self.limit)
    }

    func info(of jid: JID, in source: borrowing some Readable) throws -> DiscoInfo? {
        let text = try source.first(
            """
            SELECT info FROM entity JOIN capability USING(verification) WHERE account = ? AND jid = ?
            """, account, jid.description
        ) { $0.text(0) }
        return try text.flatMap { DiscoInfo(try Element(parsing: $0)) }
    }
}
