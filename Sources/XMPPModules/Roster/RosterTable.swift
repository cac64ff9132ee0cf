import Handlers
import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The stored roster of an account; read and written only inside steps.
struct RosterTable {
    let account: Int64

    static let script = """
        -- `version` is that of the items; NULL when the server gave none. `versioned` whether the server announced that it
        -- has versions, `loaded` whether the roster was asked for and answered in this session.
        CREATE TABLE roster(
            account INTEGER PRIMARY KEY,
            version TEXT,
            versioned INTEGER NOT NULL DEFAULT 0,
            loaded INTEGER NOT NULL DEFAULT 0);

        CREATE TABLE roster_item(
            account INTEGER NOT NULL,
            jid TEXT NOT NULL,
            name TEXT,
            subscription TEXT NOT NULL,
            ask INTEGER NOT NULL,
            approved INTEGER NOT NULL,
            groups TEXT NOT NULL,                       -- a JSON list
            PRIMARY KEY(account, jid)) WITHOUT ROWID;
        """

    /// Texts that are there already get the bounds of new ones; a character has four bytes at most. Without a version the
    /// server sends the whole roster again.
    static let bounds = """
        UPDATE roster SET version = NULL WHERE length(CAST(version AS BLOB)) > 1024 OR account IN (
            SELECT account FROM roster_item
            WHERE length(CAST(name AS BLOB)) > 1024 OR length(CAST(groups AS BLOB)) > 17000);
        UPDATE roster_item SET name = substr(name, 1, 256) WHERE length(CAST(name AS BLOB)) > 1024;
        UPDATE roster_item SET groups = '[]' WHERE length(CAST(groups AS BLOB)) > 17000;
        UPDATE contact_presence SET status = substr(status, 1, 256) WHERE length(CAST(status AS BLOB)) > 1024;
        """

    struct State {
        var version: ForeignText?
        var isVersioned: Bool
        var isLoaded: Bool
    }

    func state(in source: borrowing some Readable) throws(HandlerError) -> State {
        try source.first("SELECT version, versioned, loaded FROM roster WHERE account = ?", account) { row in
            State(
                version: row.optionalForeignText(0), isVersioned: row.integer(1) != 0,
                isLoaded: row.integer(2) != 0)
        } ?? State(version: nil, isVersioned: false, isLoaded: false)
    }

    func setLoaded(_ isLoaded: Bool, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO roster(account, loaded) VALUES (?, ?)
            ON CONFLICT(account) DO UPDATE SET loaded = excluded.loaded
            """, account, isLoaded)
    }

    func setVersion(_ version: ForeignText?, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO roster(account, version) VALUES (?, ?)
            ON CONFLICT(account) DO UPDATE SET version = excluded.version
            """, account, version)
    }

    /// Records the roster versions in the server's stream features.
    func setVersioned(_ isVersioned: Bool, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO roster(account, versioned) VALUES (?, ?)
            ON CONFLICT(account) DO UPDATE SET versioned = excluded.versioned
            """, account, isVersioned)
    }

    // MARK: Items

    private static let columns = "jid, name, subscription, ask, approved, groups"

    func items(in source: borrowing some Readable) throws(HandlerError) -> [RosterItem] {
        try source.all(
            "SELECT \(Self.columns) FROM roster_item WHERE account = ? ORDER BY jid", account, read: Self.read
        ).compactMap(\.self)
    }

    func item(for jid: JID, in source: borrowing some Readable) throws(HandlerError) -> RosterItem? {
        try source.first(
            "SELECT \(Self.columns) FROM roster_item WHERE account = ? AND jid = ?", account, jid.description,
            read: Self.read) ?? nil
    }

    /// The maximum number of stored items.
    static let maximumItems = 10_000

    /// - Returns: False when there are too many, or the address is too long for a key; nothing was changed then.
    func set(_ item: RosterItem, in step: borrowing Step) throws -> Bool {
        guard ForeignBounds.fitKey(item.jid) else { return false }
        let isKept = try step.first(
            """
            SELECT EXISTS (SELECT 1 FROM roster_item WHERE account = ?1 AND jid = ?2)
                OR (SELECT count(*) FROM (SELECT 1 FROM roster_item WHERE account = ?1 LIMIT ?3) AS kept) < ?3
            """, account, item.jid.description, Self.maximumItems
        ) { $0.integer(0) != 0 }
        guard isKept == true else { return false }
        try write(item, in: step)
        return true
    }

    private func write(_ item: RosterItem, in step: borrowing Step) throws {
        let groups = String(decoding: try JSONEncoder().encode(item.groups), as: UTF8.self)
        try step.write(
            """
            INSERT INTO roster_item(account, \(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT(account, jid) DO UPDATE SET name = excluded.name, subscription = excluded.subscription,
                ask = excluded.ask, approved = excluded.approved, groups = excluded.groups
            """, account, item.jid.description, item.name, item.subscription.rawValue, item.isAsking,
            item.isApproved, groups)
    }

    func remove(_ jid: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM roster_item WHERE account = ? AND jid = ?", account, jid.description)
    }

    /// - Returns: False when an address is too long for a key; that item was left out.
    @discardableResult
    func replace(with items: some Sequence<RosterItem>, in step: borrowing Step) throws -> Bool {
        try step.write("DELETE FROM roster_item WHERE account = ?", account)
        var areAllKept = true
        for item in items {
            guard ForeignBounds.fitKey(item.jid) else {
                areAllKept = false
                continue
            }
            try write(item, in: step)
        }
        return areAllKept
    }

    private static func read(_ row: borrowing Row) throws(HandlerError) -> RosterItem? {
        guard let jid = try? JID(received: row.text(0)) else { return nil }
        let groups = try? JSONDecoder().decode([String].self, from: Data(row.text(5).utf8))
        return RosterItem(
            jid, name: row.optionalText(1), subscription: .init(rawValue: row.text(2)) ?? .none,
            isAsking: row.integer(3) != 0, isApproved: row.integer(4) != 0, groups: groups ?? [])
    }
}
