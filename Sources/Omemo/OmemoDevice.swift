public import Handlers
public import XMPPCore

/// A device of a user as far as it is known: what a person looks at before trusting it.
///
/// ```swift
/// let devices = try account.store.read { try account.omemo.devices(of: juliet, in: $0) }
/// let unknown = devices.filter { $0.trust == .undecided }
/// ```
public struct OmemoDevice: Hashable, Sendable {
    /// Its user's bare address.
    public let jid: JID
    /// Its number.
    public let device: OmemoDeviceID
    /// The versions whose list names it now. None when it was removed, or wrote without ever being listed.
    public let versions: [OmemoVersion]
    /// Its identity key, whose fingerprint other clients show. Nil before anything was fetched from it or came from it.
    public let key: IdentityKey?
    /// The user's decision about that key. Nil while the key is not known.
    public let trust: OmemoTrust?
    /// When a list last named it; nil when none ever did.
    package let lastListed: Timestamp?

    /// This device with the versions and the time of its row in another list.
    fileprivate func merged(with other: OmemoDevice) -> OmemoDevice {
        OmemoDevice(
            jid: jid, device: device,
            versions: OmemoService.versions.filter { versions.contains($0) || other.versions.contains($0) },
            key: key, trust: trust, lastListed: [lastListed, other.lastListed].compactMap(\.self).max())
    }
}

extension OmemoService {
    /// Returns all devices of a user that were ever seen.
    ///
    /// They were listed or wrote. They are in the order of their numbers, each with its last key.
    ///
    /// ```swift
    /// for device in try account.omemo.devices(of: juliet, in: step) {
    ///     print(device.device, device.key?.fingerprint ?? "-", device.trust ?? .undecided)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - jid: The user, or the own address; its resource is ignored.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The devices, those that are listed no more among them.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func devices(of jid: JID, in source: borrowing some Readable) throws(HandlerError) -> [OmemoDevice]
    {
        try OmemoKeyring(account: account.id).devices(of: jid, in: source)
    }
}

/// The devices and keys that a store knows for one account, without the account itself: for tools beside the running
/// program.
package struct OmemoKeyring {
    private let account: Int64

    package init(account: Int64) { self.account = account }

    /// Returns the accounts in a store that have a device, with its number and key.
    package static func accounts(
        in source: borrowing some Readable
    ) throws(HandlerError) -> [(id: Int64, own: OmemoDevice)] {
        let rows = try source.all(
            """
            SELECT a.id, a.jid, o.device, o.identity FROM account a JOIN omemo_own o ON o.account = a.id ORDER BY a.jid
            """
        ) { (row) throws(HandlerError) -> (Int64, OmemoDevice)? in
            guard let jid = try? JID(received: row.text(1)),
                let device = OmemoDeviceID(rawValue: UInt32(clamping: row.integer(2)))
            else { return nil }
            let own = OmemoDevice(
                jid: jid.bare, device: device, versions: [], key: IdentityKey(bytes: row.blob(3)), trust: nil,
                lastListed: nil)
            return (row.integer(0), own)
        }
        return rows.compactMap { $0.map { (id: $0.0, own: $0.1) } }
    }

    /// Returns the users with a known device.
    package func users(in source: borrowing some Readable) throws(HandlerError) -> [JID] {
        try source.all(
            """
            SELECT jid FROM omemo_device WHERE account = ?1 UNION SELECT jid FROM omemo_device_identity WHERE account = ?1
            ORDER BY jid
            """, account
        ) { try? JID(received: $0.text(0)) }.compactMap(\.self)
    }

    package func devices(of jid: JID, in source: borrowing some Readable) throws(HandlerError)
        -> [OmemoDevice]
    {
        let user = jid.bare
        let rows = try source.all(
            """
            SELECT d.device, CASE WHEN l.removed_at IS NULL THEN l.namespace END, l.last_seen, i.identity, t.trust
            FROM (SELECT device FROM omemo_device WHERE account = ?1 AND jid = ?2
                UNION SELECT device FROM omemo_device_identity WHERE account = ?1 AND jid = ?2) d
            LEFT JOIN omemo_device l ON l.account = ?1 AND l.jid = ?2 AND l.device = d.device
            LEFT JOIN omemo_device_identity i ON i.account = ?1 AND i.jid = ?2 AND i.device = d.device
            LEFT JOIN omemo_identity t ON t.account = ?1 AND t.jid = ?2 AND t.identity = i.identity
            ORDER BY d.device
            """, account, user.description
        ) { (row) throws(HandlerError) -> OmemoDevice? in
            guard let device = OmemoDeviceID(rawValue: UInt32(clamping: row.integer(0))) else { return nil }
            let listed = row.optionalText(1)
            return OmemoDevice(
                jid: user, device: device, versions: OmemoService.versions.filter { $0.namespace == listed },
                key: row.isNull(3) ? nil : IdentityKey(bytes: row.blob(3)),
                trust: row.optionalInteger(4).flatMap(OmemoTrust.init(rawValue:)),
                lastListed: row.optionalTimestamp(2))
        }
        return rows.compactMap(\.self).reduce(into: []) { devices, device in
            if let last = devices.last, last.device == device.device {
                devices[devices.count - 1] = last.merged(with: device)
            } else {
                devices.append(device)
            }
        }
    }

    /// Writes down a decision.
    ///
    /// - Returns: False when that user never had this key.
    package func set(
        _ trust: OmemoTrust, in key: IdentityKey, of jid: JID, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        try OmemoIdentityTable(account: account).set(trust, in: key, of: jid, in: step)
    }
}
