import Handlers
import XMPPCore

/// A device of a user, as one version of OMEMO addresses it.
struct OmemoAddress: Hashable, Sendable {
    let jid: JID
    let device: OmemoDeviceID
    let version: OmemoVersion
}

/// The sessions with other devices.
struct OmemoSessionTable {
    let account: Int64

    struct Session {
        var record: [UInt8]
        /// When this side started it; nil once the other side started one.
        var startedAt: Timestamp?
        /// The chain for which a heartbeat was sent.
        var heartbeat: [UInt8]?
        /// Whether it is good for reading only.
        var isOld: Bool
        /// When it was used last, within an hour.
        let usedAt: Timestamp

        /// Hands the record on without keeping it: a second reference would keep its bytes from being wiped.
        mutating func removeRecord() -> [UInt8] {
            let taken = record
            record = []
            return taken
        }
    }

    func session(with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) -> Session? {
        try step.first(
            """
            SELECT record, started_at, heartbeat, is_old, used_at FROM omemo_session
            WHERE account = ? AND jid = ? AND device = ? AND namespace = ?
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace
        ) { row in
            Session(
                record: row.blob(0), startedAt: row.optionalTimestamp(1),
                heartbeat: row.isNull(2) ? nil : row.blob(2), isOld: row.integer(3) != 0,
                usedAt: row.timestamp(4))
        }
    }

    /// - Parameter isOld: Whether it is good for reading only; nil when it is as good for sending as it was.
    func store(
        _ record: [UInt8], identity: IdentityKey, startedAt: Timestamp?, isOld: Bool?,
        with peer: OmemoAddress, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO omemo_session(
                account, jid, device, namespace, record, identity, started_at, used_at, is_old)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, 0))
            ON CONFLICT(account, jid, device, namespace) DO UPDATE SET
                record = excluded.record, identity = excluded.identity, started_at = excluded.started_at,
                is_old = coalesce(?9, omemo_session.is_old)
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace, record,
            identity.bytes, startedAt, step.now, isOld)
    }

    /// Nothing is sent any more in the sessions that there are; they stay readable until others take their place.
    func retireAll(in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE omemo_session SET is_old = 1 WHERE account = ?", account)
    }

    /// Stores a ratchet that went on.
    func advance(_ record: [UInt8], with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE omemo_session SET record = ? WHERE account = ? AND jid = ? AND device = ? AND namespace = ?",
            record, account, peer.jid.description, peer.device.rawValue, peer.version.namespace)
    }

    func recordHeartbeat(chain: [UInt8], with peer: OmemoAddress, in step: borrowing Step)
        throws(HandlerError)
    {
        try step.write(
            "UPDATE omemo_session SET heartbeat = ? WHERE account = ? AND jid = ? AND device = ? AND namespace = ?",
            chain, account, peer.jid.description, peer.device.rawValue, peer.version.namespace)
    }
}

// Anybody can begin a session, with devices and keys that are made up. So there are bounds, and what was not used for longest
// makes way: whoever writes in it again is offered a new one.
extension OmemoSessionTable {
    /// The maximum number of sessions of an account.
    static let maximum = 4096
    /// The maximum number of sessions with devices of one user that are not on the user's list.
    static let maximumUnlisted = 32
    /// The maximum number of undecided keys of one user that no device has any more.
    static let maximumUnusedKeys = 100
    /// The maximum delay of the stored time of use: it is not written with every message.
    private static let usedEvery = Duration.seconds(3600)

    /// Notes that a session was used.
    func recordUse(_ session: Session?, with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError)
    {
        guard let session,
            step.now - session.usedAt > Self.usedEvery || step.now < session.usedAt
        else { return }
        try step.write(
            "UPDATE omemo_session SET used_at = ? WHERE account = ? AND jid = ? AND device = ? AND namespace = ?",
            step.now, account, peer.jid.description, peer.device.rawValue, peer.version.namespace)
    }

    /// Makes room after a session was started, or a list has changed.
    func trim(_ user: JID, in step: borrowing Step) throws(HandlerError) {
        let unlisted = try step.all(
            """
            SELECT id, jid, device FROM omemo_session s WHERE account = ?1 AND jid = ?2 AND NOT EXISTS (
                SELECT 1 FROM omemo_device d WHERE d.account = s.account AND d.jid = s.jid
                    AND d.namespace = s.namespace AND d.device = s.device AND d.removed_at IS NULL)
            ORDER BY used_at DESC, id DESC LIMIT ?3 OFFSET ?4
            """, account, user.description, Int64.max, Self.maximumUnlisted, read: Self.readSurplus)
        let surplus = try step.all(
            """
            SELECT id, jid, device FROM omemo_session WHERE account = ?1 ORDER BY used_at, id
            LIMIT (SELECT CASE WHEN count(*) > ?2 THEN count(*) - ?2 ELSE 0 END FROM omemo_session
                WHERE account = ?1)
            """, account, Self.maximum + unlisted.count, read: Self.readSurplus)
        for session in unlisted + surplus { try remove(session, in: step) }
        for user in Set(surplus.map(\.user) + [user.description]) { try trimKeys(of: user, in: step) }
    }

    private struct Surplus {
        let id: Int64
        let user: String
        let device: Int64
    }

    private static func readSurplus(_ row: borrowing Row) throws(HandlerError) -> Surplus {
        Surplus(id: row.integer(0), user: row.text(1), device: row.integer(2))
    }

    /// Removes a session, and with the last one of a device what is owed to it and which key it had.
    private func remove(_ session: Surplus, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM omemo_session WHERE id = ?", session.id)
        for table in ["omemo_duty", "omemo_device_identity"] {
            try step.write(
                """
                DELETE FROM \(table) WHERE account = ?1 AND jid = ?2 AND device = ?3 AND NOT EXISTS
                    (SELECT 1 FROM omemo_session WHERE account = ?1 AND jid = ?2 AND device = ?3)
                """, account, session.user, session.device)
        }
    }

    /// Forgets undecided keys that no device has, oldest first; all of them without a session.
    private func trimKeys(of user: String, in step: borrowing Step) throws(HandlerError) {
        let hasSession = try step.exists(
            "SELECT 1 FROM omemo_session WHERE account = ? AND jid = ? LIMIT 1", account, user)
        try step.write(
            """
            DELETE FROM omemo_identity WHERE account = ?1 AND jid = ?2 AND identity IN (
                SELECT identity FROM omemo_identity WHERE account = ?1 AND jid = ?2 AND decided_at IS NULL
                    AND identity NOT IN
                        (SELECT identity FROM omemo_device_identity WHERE account = ?1 AND jid = ?2)
                ORDER BY first_seen DESC, identity LIMIT ?3 OFFSET ?4)
            """, account, user, Int64.max, hasSession ? Self.maximumUnusedKeys : 0)
    }
}
