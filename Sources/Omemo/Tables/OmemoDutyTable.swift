import Handlers
import XMPPCore

/// The empty messages that other devices are owed.
struct OmemoDutyTable {
    let account: Int64

    enum Kind: Int64 {
        /// Says that a key exchange arrived, so that it need not be repeated.
        case answer = 0
        /// Moves the ratchet on after a long chain.
        case heartbeat = 1
        /// Begins a new session in place of a broken one.
        case repair = 2
    }

    struct Duty {
        let peer: OmemoAddress
        let kind: Kind
    }

    /// The time until a device is offered another session: a peer may send undecryptable messages on purpose, and each repair uses
    /// up a prekey of the other side.
    static let repairPause = Duration.seconds(3600)

    /// The maximum number of owed messages of a kind, or of repairs in that time, for one user's devices: the numbers of
    /// devices are anybody's to make up.
    static let maximumEach = 100
    /// The maximum number of owed messages of all users.
    static let maximum = 5000

    /// Adds a duty.
    ///
    /// - Returns: Whether it is new, and not a repair too soon after another, or one too many.
    func add(_ kind: Kind, to peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            """
            INSERT INTO omemo_duty(account, jid, device, namespace, kind, since) SELECT ?1, ?2, ?3, ?4, ?5, ?6
            WHERE EXISTS (SELECT 1 FROM omemo_duty
                    WHERE account = ?1 AND jid = ?2 AND device = ?3 AND namespace = ?4 AND kind = ?5)
                OR ((SELECT count(*) FROM omemo_duty WHERE account = ?1 AND jid = ?2 AND kind = ?5) < ?8
                AND (SELECT count(*) FROM (SELECT 1 FROM omemo_duty WHERE account = ?1 LIMIT ?9) AS owed) < ?9)
            ON CONFLICT(account, jid, device, namespace, kind) DO UPDATE SET since = ?6, done_at = NULL
            WHERE omemo_duty.done_at <= ?6 - ?7
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace, kind.rawValue,
            step.now, Self.repairPause.milliseconds, Self.maximumEach, Self.maximum) > 0
    }

    /// Forgets repairs after which another may follow.
    func forgetOld(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM omemo_duty WHERE account = ? AND done_at <= ?", account, step.now - Self.repairPause)
    }

    /// The oldest duties.
    func open(limit: Int, in step: borrowing Step) throws(HandlerError) -> [Duty] {
        try step.all(
            """
            SELECT jid, device, namespace, kind FROM omemo_duty WHERE account = ? AND done_at IS NULL
            ORDER BY since LIMIT ?
            """, account, limit
        ) { (row) throws(HandlerError) -> Duty? in
            guard let jid = try? JID(received: row.text(0)),
                let version = OmemoVersion(rawValue: row.text(2)),
                let device = OmemoDeviceID(rawValue: UInt32(clamping: row.integer(1))),
                let kind = Kind(rawValue: row.integer(3))
            else { return nil }
            return Duty(peer: OmemoAddress(jid: jid, device: device, version: version), kind: kind)
        }.compactMap(\.self)
    }

    func isOpen(_ kind: Kind, to peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            """
            SELECT 1 FROM omemo_duty WHERE account = ? AND jid = ? AND device = ? AND namespace = ? AND kind = ?
                AND done_at IS NULL
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace, kind.rawValue)
    }

    /// Forgets a duty that is not needed any more.
    func drop(_ kind: Kind, to peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM omemo_duty WHERE account = ? AND jid = ? AND device = ? AND namespace = ? AND kind = ?
                AND done_at IS NULL
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace, kind.rawValue)
    }

    /// Ends a duty. A repair is remembered.
    func done(_ kind: Kind, to peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) {
        let sql =
            kind == .repair
            ? """
            UPDATE omemo_duty SET done_at = ?1
            WHERE account = ?2 AND jid = ?3 AND device = ?4 AND namespace = ?5 AND kind = ?6
            """
            : """
            DELETE FROM omemo_duty WHERE CAST(?1 AS BIGINT) IS NOT NULL
                AND account = ?2 AND jid = ?3 AND device = ?4 AND namespace = ?5 AND kind = ?6
            """
        try step.write(
            sql, step.now, account, peer.jid.description, peer.device.rawValue, peer.version.namespace,
            kind.rawValue)
    }
}
