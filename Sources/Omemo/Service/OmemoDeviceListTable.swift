package import Handlers
package import XMPPCore

/// The device lists that an account knows, its own and those of others.
///
/// A device that leaves its list is marked and not deleted: messages of its may still arrive. Of those that left,
/// ``maximumRemoved`` are remembered, because anybody can invent devices. Every operation works inside a step, so that what a list changes commits
/// together with the answer that brought it.
///
/// ```swift
/// let devices = try account.store.read { try account.omemo.deviceLists.devices(of: juliet, .omemo2, in: $0) }
/// ```
package struct OmemoDeviceListTable: Sendable {
    /// Schema of the tables.
    package static let schema = Schema(
        module: "omemo",
        migrations: [
            """
            -- Whose list is known for certain; without a row nothing is known. Times in milliseconds since 1970.
            CREATE TABLE omemo_device_list(
                account INTEGER NOT NULL REFERENCES account(id),
                jid TEXT NOT NULL,
                namespace TEXT NOT NULL,
                learned_at INTEGER NOT NULL,
                PRIMARY KEY(account, jid, namespace)) WITHOUT ROWID;

            CREATE TABLE omemo_device(
                account INTEGER NOT NULL,
                jid TEXT NOT NULL,
                namespace TEXT NOT NULL,
                device INTEGER NOT NULL CHECK(device BETWEEN 1 AND 2147483647),
                label TEXT,
                label_signature TEXT,
                first_seen INTEGER NOT NULL,
                last_seen INTEGER NOT NULL,
                removed_at INTEGER,
                PRIMARY KEY(account, jid, namespace, device),
                FOREIGN KEY(account, jid, namespace) REFERENCES omemo_device_list(account, jid, namespace))
                WITHOUT ROWID;
            """,
            OmemoTables.sessions,
            OmemoTables.copies,
            OmemoTables.bounds,
            OmemoTables.surplus,
            """
            -- When this side started the session.
            ALTER TABLE omemo_session RENAME COLUMN began_at TO started_at;
            """,
            OmemoTables.retiredPreKeys,
            OmemoTables.longRooms,
            """
            -- When something last contradicted the list, and how often in a row of such times that are not far apart.
            ALTER TABLE omemo_device_list ADD COLUMN doubted_at INTEGER;
            ALTER TABLE omemo_device_list ADD COLUMN doubts INTEGER NOT NULL DEFAULT 0;
            """,
        ], handlers: OmemoService.handlers)

    /// A device that is or was on a list.
    package struct KnownDevice: Hashable, Sendable {
        /// The device as the list that named it last describes it.
        package let device: OmemoDeviceList.Device
        /// When a list first named it.
        package let firstSeen: Timestamp
        /// When a list last named it.
        package let lastSeen: Timestamp
        /// When a list first left it out; nil while it is listed.
        package let removedAt: Timestamp?

        /// Whether the list as it is known now names it.
        package var isListed: Bool { removedAt == nil }
    }

    package typealias Change = OmemoRefresh.Change

    /// The maximum number of remembered devices that were removed from a list; the oldest are forgotten first.
    package static let maximumRemoved = 100
    /// Number of lists that an account stores. Beyond it the oldest lists without a session are removed; a removed list
    /// is fetched again when it is needed.
    package static let maximumLists = 5000

    /// The time for which a list holds that nobody pushes.
    package static let age = Duration.seconds(600)
    /// How often a list is doubted within ``age``: anybody can write from devices that are on no list.
    static let maximumDoubts: Int64 = 5

    /// The account's row in the store.
    let account: Int64

    // MARK: Reading

    /// Returns all devices that are or were on a user's list, in the order of their numbers.
    ///
    /// - Parameters:
    ///   - jid: The user; its resource is ignored.
    ///   - version: Which of the two lists.
    ///   - source: The step or snapshot to read in.
    /// - Returns: Nil when nothing is known about the list; empty when the user is known to have none.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails or holds a broken row.
    package func devices(
        of jid: JID, _ version: OmemoVersion, in source: borrowing some Readable
    ) throws(HandlerError) -> [KnownDevice]? {
        guard try learnedAt(jid, version, in: source) != nil else { return nil }
        return try source.all(
            """
            SELECT device, label, label_signature, first_seen, last_seen, removed_at FROM omemo_device
            WHERE account = ? AND jid = ? AND namespace = ? ORDER BY device
            """, account, jid.bare.description, version.namespace, read: Self.read)
    }

    /// Returns when a user's list was last known for certain; nil when it never was.
    ///
    /// - Parameters:
    ///   - jid: The user; its resource is ignored.
    ///   - version: Which of the two lists.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The time.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func learnedAt(
        _ jid: JID, _ version: OmemoVersion, in source: borrowing some Readable
    ) throws(HandlerError) -> Timestamp? {
        try source.first(
            "SELECT learned_at FROM omemo_device_list WHERE account = ? AND jid = ? AND namespace = ?",
            account, jid.bare.description, version.namespace
        ) { $0.timestamp(0) }
    }

    private static func read(_ row: borrowing Row) throws(HandlerError) -> KnownDevice {
        guard let id = UInt32(exactly: row.integer(0)).flatMap({ OmemoDeviceID(rawValue: $0) }) else {
            throw HandlerError(
                .databaseCorrupt,
                "an OMEMO device is stored with the number \(row.integer(0)); restore the database from a copy"
            )
        }
        var label: OmemoDeviceList.Label?
        if let text = row.optionalText(1), let signature = row.optionalText(2) {
            label = OmemoDeviceList.Label(text, signature: signature)
        }
        return KnownDevice(
            device: OmemoDeviceList.Device(id, label: label), firstSeen: row.timestamp(3),
            lastSeen: row.timestamp(4), removedAt: row.optionalTimestamp(5))
    }

    // MARK: Writing

    /// Lets a list hold no longer, as its owner's server says that it has changed.
    func distrust(_ jid: JID, _ version: OmemoVersion, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE omemo_device_list SET session = NULL WHERE account = ? AND jid = ? AND namespace = ?",
            account, jid.bare.description, version.namespace)
    }

    /// Lets a list hold no longer, as something contradicts it.
    ///
    /// - Returns: Whether it is to be requested; false when none is known, or when that was done too often.
    func doubt(_ jid: JID, _ version: OmemoVersion, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            """
            UPDATE omemo_device_list SET session = NULL, doubts = CASE WHEN doubted_at > ?1 THEN doubts + 1 ELSE 1 END,
                doubted_at = CASE WHEN doubted_at > ?1 THEN doubted_at ELSE ?2 END
            WHERE account = ?3 AND jid = ?4 AND namespace = ?5
                AND (doubted_at IS NULL OR doubted_at <= ?1 OR doubts < ?6)
            """, step.now - Self.age, step.now, account, jid.bare.description, version.namespace,
            Self.maximumDoubts) == 1
    }

    /// Takes over a user's list as it is now known for certain. Taking over the same list again changes nothing but
    /// the times.
    ///
    /// - Parameters:
    ///   - list: The whole list; an empty one when the user has none.
    ///   - jid: The user; its resource is ignored.
    ///   - step: The step that it commits with.
    /// - Returns: What it changed.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    package func merge(
        _ list: OmemoDeviceList, of jid: JID, in step: borrowing Step
    ) throws(HandlerError) -> Change {
        let isNew = try learnedAt(jid, list.version, in: step) == nil
        let known = isNew ? [] : try devices(of: jid, list.version, in: step) ?? []
        try step.write(
            """
            INSERT INTO omemo_device_list(account, jid, namespace, learned_at) VALUES (?, ?, ?, ?)
            ON CONFLICT(account, jid, namespace) DO UPDATE SET learned_at = excluded.learned_at
            """, account, jid.bare.description, list.version.namespace, step.now)
        for device in list.devices { try record(device, of: jid, list.version, in: step) }
        let change = Self.change(from: known, to: list)
        for device in change.removed {
            try step.write(
                """
                UPDATE omemo_device SET removed_at = ?
                WHERE account = ? AND jid = ? AND namespace = ? AND device = ?
                """, step.now, account, jid.bare.description, list.version.namespace, device.rawValue)
        }
        if known.count + change.added.count > Self.maximumRemoved {
            try forgetRemoved(of: jid, list.version, in: step)
        }
        if isNew { try forgetLists(in: step) }
        return change
    }

    private func forgetRemoved(
        of jid: JID, _ version: OmemoVersion, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM omemo_device WHERE account = ?1 AND jid = ?2 AND namespace = ?3 AND device IN (
                SELECT device FROM omemo_device
                WHERE account = ?1 AND jid = ?2 AND namespace = ?3 AND removed_at IS NOT NULL
                ORDER BY removed_at DESC, device LIMIT ?4 OFFSET ?5)
            """, account, jid.bare.description, version.namespace, Int64.max, Self.maximumRemoved)
    }

    private func forgetLists(in step: borrowing Step) throws(HandlerError) {
        let lists = try step.all(
            """
            SELECT jid, namespace FROM omemo_device_list l
            WHERE account = ?1 AND jid <> (SELECT jid FROM account WHERE id = ?1)
                AND NOT EXISTS (SELECT 1 FROM omemo_session s WHERE s.account = l.account AND s.jid = l.jid)
            ORDER BY learned_at
            LIMIT (SELECT CASE WHEN count(*) > ?2 THEN count(*) - ?2 ELSE 0 END FROM omemo_device_list
                WHERE account = ?1)
            """, account, Self.maximumLists
        ) { (jid: $0.text(0), namespace: $0.text(1)) }
        for list in lists {
            for table in ["omemo_device", "omemo_device_list"] {
                try step.write(
                    "DELETE FROM \(table) WHERE account = ? AND jid = ? AND namespace = ?", account,
                    list.jid, list.namespace)
            }
        }
    }

    private func record(
        _ device: OmemoDeviceList.Device, of jid: JID, _ version: OmemoVersion, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO omemo_device(
                account, jid, namespace, device, label, label_signature, first_seen, last_seen)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
            ON CONFLICT(account, jid, namespace, device) DO UPDATE SET
                label = excluded.label, label_signature = excluded.label_signature,
                last_seen = excluded.last_seen, removed_at = NULL
            """, account, jid.bare.description, version.namespace, device.id.rawValue, device.label?.text,
            device.label?.signature, step.now)
    }

    /// Returns the change that a list makes: a rule without store.
    static func change(from known: [KnownDevice], to list: OmemoDeviceList) -> Change {
        let listed = Set(list.devices.map(\.id))
        let before = Dictionary(uniqueKeysWithValues: known.map { ($0.device.id, $0.isListed) })
        return Change(
            added: listed.filter { before[$0] == nil }.sorted(),
            returned: listed.filter { before[$0] == false }.sorted(),
            removed: known.filter(\.isListed).map(\.device.id).filter { !listed.contains($0) }.sorted())
    }
}
