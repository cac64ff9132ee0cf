import Handlers
import XMPPCore
import XMPPTransport

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
            """
            -- One that nobody knew is not being asked for and has its timer. A verification by another hash than sha-1 has that in front
            -- of it, and a colon.
            ALTER TABLE capability_query ADD COLUMN is_running INTEGER NOT NULL DEFAULT 1;
            ALTER TABLE capability_query ADD COLUMN has_timer INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE capability_query ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
            """,
        ], handlers: [CapabilitiesFetched.self, CapabilitiesDue.self])

    /// The maximum number of stored digests; the oldest are removed first.
    static let limit = 1000
    /// The maximum number of resources stored with their digest; the features of further ones are unknown.
    static let entityLimit = 5000
    /// The maximum number of queries at once: more than any contact list needs, fewer than a flood.
    static let queryLimit = 256
    /// The maximum size of the stored XML in bytes; usual ones have some thousand.
    static let longestInfo = 16_384

    /// A digest of the longest function has 88 characters.
    private static let longestVerification = 100

    /// Returns the name of a digest; nil for one by a function that is not known, or that is too long.
    static func verification(_ caps: Element) -> ForeignText? {
        guard let hash = caps["hash"], let digest = caps["ver"], !digest.isEmpty,
            digest.utf8.count <= longestVerification, !digest.utf8.contains(UInt8(ascii: ":")),
            Crypto.knowsDigest(named: hash)
        else { return nil }
        let name = hash == "sha-1" ? digest : "\(hash):\(digest)"
        return name.utf8.count <= longestVerification ? name : nil
    }

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

        /// The hash function and the digest that a verification stands for.
        static func parts(of verification: ForeignText) -> (hash: ForeignText, digest: ForeignText) {
            let parts = verification.utf8.split(separator: UInt8(ascii: ":"))
                .map { ForeignText(String(decoding: $0, as: UTF8.self)) }
            return parts.count == 2 ? (parts[0], parts[1]) : ("sha-1", verification)
        }
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
            SELECT ?1, ?2 WHERE (SELECT count(*) FROM capability_query WHERE account = ?1 AND is_running = 1) < ?3
            ON CONFLICT(account, verification) DO UPDATE SET is_running = 1 WHERE capability_query.is_running = 0
            """, account, verification, Self.queryLimit) == 1
    }

    /// Nobody has told what it stands for. It is to be asked for again, unless too many are.
    ///
    /// - Returns: After how long; nil when that is not to be scheduled.
    func giveUp(_ verification: ForeignText, in step: borrowing Step) throws(HandlerError) -> Duration? {
        let state = try step.first(
            """
            UPDATE capability_query SET is_running = 0, failures = failures + 1
            WHERE account = ?1 AND verification = ?2
            RETURNING failures, has_timer, (SELECT count(*) FROM capability_query AS other
                WHERE other.account = ?1 AND other.is_running = 0)
            """, account, verification
        ) { (failures: $0.quantity(0), hasTimer: $0.integer(1) != 0, waiting: $0.integer(2)) }
        guard let state else { return nil }
        guard state.waiting < Self.queryLimit else {
            try endQuery(verification, in: step)
            return nil
        }
        guard !state.hasTimer else { return nil }
        try step.write(
            "UPDATE capability_query SET has_timer = 1 WHERE account = ? AND verification = ?", account,
            verification)
        return min(Self.firstRetry * (1 << min(state.failures - 1, 16)), Self.longestRetry)
    }

    /// The wait before those who did not tell are asked again; each is twice as long as the one before.
    private static let firstRetry = Duration.seconds(600)
    /// No wait is longer.
    private static let longestRetry = Duration.seconds(4 * 3600)

    /// The timer of a digest has fired: all who have it may be asked again.
    ///
    /// - Returns: Whether it is to be asked for.
    func startAgain(_ verification: ForeignText, in step: borrowing Step) throws(HandlerError) -> Bool {
        let isDue =
            try step.execute(
                """
                UPDATE capability_query SET has_timer = 0, is_running = 1
                WHERE account = ? AND verification = ? AND is_running = 0
                """, account, verification) == 1
        guard isDue else {
            try step.write(
                "UPDATE capability_query SET has_timer = 0 WHERE account = ? AND verification = ?", account,
                verification)
            return false
        }
        try step.write(
            "UPDATE entity SET asked = 0 WHERE account = ? AND verification = ?", account, verification)
        return true
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
