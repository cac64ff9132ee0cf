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
        /// When the own side began it; nil once the other side began one.
        var beganAt: Int64?
        /// The chain for which a heartbeat was sent.
        var heartbeat: [UInt8]?
        /// Whether it is good for reading only.
        var isOld: Bool

        /// Hands the record on without keeping it: a second reference would keep its bytes from being wiped.
        mutating func takeRecord() -> [UInt8] {
            let taken = record
            record = []
            return taken
        }
    }

    func session(with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) -> Session? {
        try step.first(
            """
            SELECT record, began_at, heartbeat, is_old FROM omemo_session
            WHERE account = ? AND jid = ? AND device = ? AND namespace = ?
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace
        ) { (row) throws(HandlerError) in
            Session(
                record: row.blob(0), beganAt: row.optionalQuantity(1),
                heartbeat: row.isNull(2) ? nil : row.blob(2), isOld: row.integer(3) != 0)
        }
    }

    /// - Parameter isBegun: Whether the own side has just begun it; otherwise it is as good for sending as it was.
    func store(
        _ record: [UInt8], identity: IdentityKey, beganAt: Int64?, isBegun: Bool = false,
        with peer: OmemoAddress, in step: borrowing Step
    ) throws(HandlerError) {
        try step.execute(
            """
            INSERT INTO omemo_session(account, jid, device, namespace, record, identity, began_at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT(account, jid, device, namespace) DO UPDATE SET
                record = excluded.record, identity = excluded.identity, began_at = excluded.began_at,
                is_old = is_old AND NOT ?
            """, account, peer.jid.description, peer.device.rawValue, peer.version.namespace, record,
            identity.bytes, beganAt, isBegun)
    }

    /// Nothing is sent any more in the sessions that there are; they stay readable until others take their place.
    func retireAll(in step: borrowing Step) throws(HandlerError) {
        try step.execute("UPDATE omemo_session SET is_old = 1 WHERE account = ?", account)
    }

    /// Stores a ratchet that went on.
    func advance(_ record: [UInt8], with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "UPDATE omemo_session SET record = ? WHERE account = ? AND jid = ? AND device = ? AND namespace = ?",
            record, account, peer.jid.description, peer.device.rawValue, peer.version.namespace)
    }

    func noteHeartbeat(chain: [UInt8], with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError)
    {
        try step.execute(
            "UPDATE omemo_session SET heartbeat = ? WHERE account = ? AND jid = ? AND device = ? AND namespace = ?",
            chain, account, peer.jid.description, peer.device.rawValue, peer.version.namespace)
    }

    /// Forgets the session, so that the next message begins a new one.
    func delete(with peer: OmemoAddress, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "DELETE FROM omemo_session WHERE account = ? AND jid = ? AND device = ? AND namespace = ?",
            account,
            peer.jid.description, peer.device.rawValue, peer.version.namespace)
    }
}
