import Handlers
import XMPPCore

/// The identity keys of others and the trust in them.
struct OmemoIdentityTable {
    let account: Int64

    /// Notes which key a device has, and decides about a new one.
    ///
    /// - Returns: The trust in it.
    @discardableResult
    func record(
        _ identity: IdentityKey, of jid: JID, device: OmemoDeviceID, in step: borrowing Step
    ) throws(HandlerError) -> OmemoTrust {
        let user = jid.bare.description
        let before = try step.first(
            "SELECT identity FROM omemo_device_identity WHERE account = ? AND jid = ? AND device = ?",
            account, user, device.rawValue
        ) { $0.blob(0) }
        if before != identity.bytes {
            try step.write(
                """
                INSERT INTO omemo_device_identity(account, jid, device, identity) VALUES (?, ?, ?, ?)
                ON CONFLICT(account, jid, device) DO UPDATE SET identity = excluded.identity
                """, account, user, device.rawValue, identity.bytes)
        }
        if let known = try trust(in: identity, of: jid, in: step) { return known }
        let trust = OmemoTrust.atFirstSight(
            replacesAnother: before != nil, hasVerified: try hasVerified(user, in: step))
        try step.write(
            "INSERT INTO omemo_identity(account, jid, identity, trust, first_seen) VALUES (?, ?, ?, ?, ?)",
            account, user, identity.bytes, trust.rawValue, step.now)
        return trust
    }

    private func hasVerified(_ user: String, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM omemo_identity WHERE account = ? AND jid = ? AND trust = ? LIMIT 1", account, user,
            OmemoTrust.verified.rawValue)
    }

    /// Nil when the key was never seen.
    func trust(in identity: IdentityKey, of jid: JID, in step: borrowing Step) throws(HandlerError)
        -> OmemoTrust?
    {
        try step.first(
            "SELECT trust FROM omemo_identity WHERE account = ? AND jid = ? AND identity = ?", account,
            jid.bare.description, identity.bytes
        ) { OmemoTrust(rawValue: $0.integer(0)) ?? .undecided }
    }

    /// - Returns: False when the key was never seen.
    func set(
        _ trust: OmemoTrust, in identity: IdentityKey, of jid: JID, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        try step.execute(
            "UPDATE omemo_identity SET trust = ?, decided_at = ? WHERE account = ? AND jid = ? AND identity = ?",
            trust.rawValue, step.now, account, jid.bare.description, identity.bytes) > 0
    }

    func identity(of device: OmemoDeviceID, of jid: JID, in step: borrowing Step) throws(HandlerError)
        -> IdentityKey?
    {
        try step.first(
            "SELECT identity FROM omemo_device_identity WHERE account = ? AND jid = ? AND device = ?",
            account, jid.bare.description, device.rawValue
        ) { IdentityKey(bytes: $0.blob(0)) } ?? nil
    }

    func identities(of jid: JID, in source: borrowing some Readable) throws(HandlerError) -> [OmemoIdentity] {
        let user = jid.bare
        let rows = try source.all(
            """
            SELECT i.identity, i.trust, i.first_seen, d.device FROM omemo_identity i
            LEFT JOIN omemo_device_identity d ON d.account = i.account AND d.jid = i.jid AND d.identity = i.identity
            WHERE i.account = ? AND i.jid = ? ORDER BY i.first_seen, i.identity, d.device
            """, account, user.description
        ) { row in
            (
                key: row.blob(0), trust: OmemoTrust(rawValue: row.integer(1)) ?? .undecided,
                firstSeen: row.timestamp(2),
                device: row.optionalInteger(3).flatMap { OmemoDeviceID(rawValue: UInt32(clamping: $0)) }
            )
        }
        var identities: [OmemoIdentity] = []
        for row in rows {
            guard let key = IdentityKey(bytes: row.key) else { continue }
            var devices = row.device.map { [$0] } ?? []
            if identities.last?.key == key { devices = (identities.removeLast().devices) + devices }
            identities.append(
                OmemoIdentity(
                    jid: user, key: key, trust: row.trust, devices: devices, firstSeen: row.firstSeen))
        }
        return identities
    }
}
