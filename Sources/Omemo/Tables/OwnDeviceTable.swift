import Handlers
import XMPPTransport

/// The own device and its keys, with their private parts.
struct OwnDeviceTable {
    let account: Int64

    // MARK: Identity

    func own(in source: borrowing some Readable) throws(HandlerError) -> OwnIdentity? {
        let found = try source.first(
            "SELECT device, identity, secret, copies FROM omemo_own WHERE account = ?", account
        ) {
            (row) throws(HandlerError) -> OwnIdentity? in
            guard let device = UInt32(exactly: row.integer(0)).flatMap({ OmemoDeviceID(rawValue: $0) }),
                let key = IdentityKey(bytes: row.blob(1))
            else { return nil }
            return OwnIdentity(
                device: device, key: key, secret: row.blob(2).thenWiped { SecretBytes($0) },
                copies: row.integer(3))
        }
        guard let found else { return nil }
        guard let own = found else {
            throw HandlerError(
                .databaseCorrupt, "the own OMEMO device is stored wrongly; restore the database from a copy")
        }
        return own
    }

    func insert(_ own: OwnIdentity, in step: borrowing Step) throws(HandlerError) {
        var secret = own.secret.withBytes { Array($0) }
        defer { secret.wipe() }
        try step.write(
            """
            INSERT INTO omemo_own(account, device, identity, secret, created_at, copies)
            VALUES (?, ?, ?, ?, ?, ?)
            """, account, own.device.rawValue, own.key.bytes, secret, step.now, step.copies)
        for version in OmemoVersion.allCases {
            try step.write(
                "INSERT INTO omemo_publication(account, namespace) VALUES (?, ?)", account, version.namespace)
        }
    }

    /// - Returns: Whether the database was put back from a backup, or copied, since this was last asked.
    func isCopied(_ own: OwnIdentity, in step: borrowing Step) throws(HandlerError) -> Bool {
        let copies = try step.copies
        guard own.copies != copies else { return false }
        return try step.execute(
            "UPDATE omemo_own SET copies = ? WHERE account = ? AND copies <> ?", copies, account, copies) == 1
    }

    func setDevice(_ device: OmemoDeviceID, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE omemo_own SET device = ? WHERE account = ?", device.rawValue, account)
    }

    // MARK: Prekeys

    /// Which prekeys are given out.
    private static let given = "used_at IS NULL AND retired_at IS NULL"

    /// Returns the number of prekeys that are given out.
    func preKeyCount(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first("SELECT count(*) FROM omemo_prekey WHERE account = ? AND \(Self.given)", account) {
            Int($0.integer(0))
        } ?? 0
    }

    /// Makes prekeys until there are enough.
    ///
    /// - Returns: Whether any were made.
    func fillPreKeys(upTo count: Int, in step: borrowing Step) throws -> Bool {
        let missing = try count - preKeyCount(in: step)
        guard missing > 0 else { return false }
        let context = try KeyContext()
        for _ in 0..<missing {
            let id = try nextID("next_prekey", below: 1 << 24 - 1, in: step)
            try SignalKeys.makePreKey(id: id, context: context).thenWiped { record in
                _ = try step.execute(
                    """
                    INSERT INTO omemo_prekey(account, id, record) VALUES (?, ?, ?)
                    ON CONFLICT(account, id) DO UPDATE SET record = excluded.record, used_at = NULL, retired_at = NULL
                    """, account, id, copy record)
            }
        }
        return true
    }

    /// Notes that a prekey must not be given out any more.
    ///
    /// - Returns: Whether it was unused until now.
    func markUsed(preKey id: UInt32, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "UPDATE omemo_prekey SET used_at = ? WHERE account = ? AND id = ? AND used_at IS NULL", step.now,
            account, id) > 0
    }

    /// The maximum number of prekeys that were retired: those of the last ten times.
    private static let maximumRetired = 1000

    /// Notes that sessions may have begun with the prekeys that are not known here. They are given out no more, and stay readable
    /// for a time: others may have the bundle in which they are.
    func retirePreKeys(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE omemo_prekey SET retired_at = ? WHERE account = ? AND retired_at IS NULL", step.now,
            account)
        try step.write(
            """
            DELETE FROM omemo_prekey WHERE account = ?1 AND id IN (
                SELECT id FROM omemo_prekey WHERE account = ?1 AND retired_at IS NOT NULL
                ORDER BY retired_at DESC, id DESC LIMIT ?2 OFFSET ?3)
            """, account, Int64.max, Self.maximumRetired)
    }

    /// Whether a session that begins with one of the prekeys may have gone on without the knowledge of this database.
    func isOld(preKeys: [UInt32], in step: borrowing Step) throws(HandlerError) -> Bool {
        for id in preKeys {
            let isOld = try step.first(
                "SELECT retired_at IS NOT NULL FROM omemo_prekey WHERE account = ? AND id = ?", account, id
            ) { $0.integer(0) != 0 }
            if isOld == true { return true }
        }
        return false
    }

    /// Deletes the prekeys that were used before a time.
    func deleteUsedPreKeys(before time: Timestamp, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM omemo_prekey WHERE account = ? AND used_at < ?", account, time)
    }

    /// Deletes the prekeys that were retired before a time.
    func deleteRetiredPreKeys(before time: Timestamp, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM omemo_prekey WHERE account = ? AND retired_at < ?", account, time)
    }

    func preKey(_ id: UInt32, in step: borrowing Step) throws(HandlerError) -> [UInt8]? {
        try step.first("SELECT record FROM omemo_prekey WHERE account = ? AND id = ?", account, id) {
            $0.blob(0)
        }
    }

    // MARK: Signed prekeys

    /// The time at which the signed prekey in use was made.
    func signedPreKeyMadeAt(in step: borrowing Step) throws(HandlerError) -> Timestamp? {
        try step.first(
            "SELECT created_at FROM omemo_signed_prekey WHERE account = ? AND replaced_at IS NULL", account
        ) { $0.timestamp(0) }
    }

    /// Makes a signed prekey; the one before stays readable.
    func rotateSignedPreKey(_ own: OwnIdentity, in step: borrowing Step) throws {
        let id = try nextID("next_signed_prekey", below: 1 << 24 - 1, in: step)
        try step.write(
            "UPDATE omemo_signed_prekey SET replaced_at = ? WHERE account = ? AND replaced_at IS NULL",
            step.now,
            account)
        try SignalKeys.makeSignedPreKey(id: id, own: own, now: step.now).thenWiped { record in
            _ = try step.execute(
                """
                INSERT INTO omemo_signed_prekey(account, id, record, created_at) VALUES (?, ?, ?, ?)
                ON CONFLICT(account, id) DO UPDATE SET record = excluded.record,
                    created_at = excluded.created_at, replaced_at = NULL
                """, account, id, copy record, step.now)
        }
    }

    func deleteSignedPreKeys(replacedBefore time: Timestamp, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM omemo_signed_prekey WHERE account = ? AND replaced_at <= ?", account, time)
    }

    func signedPreKey(_ id: UInt32, in step: borrowing Step) throws(HandlerError) -> [UInt8]? {
        try step.first("SELECT record FROM omemo_signed_prekey WHERE account = ? AND id = ?", account, id) {
            $0.blob(0)
        }
    }

    /// Ids go round below the limit that the legacy version's libraries have; 0 is none.
    private func nextID(_ column: String, below limit: Int64, in step: borrowing Step) throws(HandlerError)
        -> UInt32
    {
        // One of two fixed names, so that the statement is prepared once for each.
        let id = try step.first(
            "UPDATE omemo_own SET \(column) = \(column) % ? + 1 WHERE account = ? RETURNING \(column)",
            limit - 1,
            account
        ) { UInt32(clamping: $0.integer(0)) }
        return id ?? 1
    }

    // MARK: The bundle

    /// Returns the bundle that others need to start a session with this device.
    func bundle(_ own: OwnIdentity, _ version: OmemoVersion, in step: borrowing Step) throws -> OmemoBundle {
        let newest = try step.first(
            "SELECT id, record FROM omemo_signed_prekey WHERE account = ? AND replaced_at IS NULL", account
        ) { (UInt32(clamping: $0.integer(0)), $0.blob(1)) }
        guard let (signedID, signedRecord) = newest else {
            throw OmemoError(.noDevice, "the own device has no signed prekey; start OMEMO first")
        }
        var records = try step.all(
            "SELECT id, record FROM omemo_prekey WHERE account = ? AND \(Self.given) ORDER BY id", account
        ) { (UInt32(clamping: $0.integer(0)), $0.blob(1)) }
        let signed = try signedRecord.thenWiped { record in
            try SignalKeys.published(signedPreKey: copy record, version)
        }
        var keys: [OmemoBundle.PreKey] = []
        for index in records.indices {
            defer { records[index].1.wipe() }
            let key = try SignalKeys.published(preKey: records[index].1, version)
            keys.append(OmemoBundle.PreKey(id: records[index].0, key: key))
        }
        return OmemoBundle(
            version: version, identityKey: try own.key.wire(version),
            signedPreKey: .init(id: signedID, key: signed.key), signature: signed.signature, preKeys: keys)
    }
}
