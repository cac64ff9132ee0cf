import Handlers
import XMPPCore

/// The stored list of blocked addresses; read and written only inside steps.
struct BlockingTable {
    let account: Int64

    static let script = """
        -- Addresses from which the server lets nothing through.
        CREATE TABLE blocked(
            account INTEGER NOT NULL,
            jid TEXT NOT NULL,
            PRIMARY KEY(account, jid)) WITHOUT ROWID;
        """

    /// The addresses that a list names; malformed ones are left out one by one.
    static func addresses(in list: Element) -> [JID] {
        list.children("item", Namespaces.blocking).compactMap { $0["jid"].flatMap { try? JID(received: $0) } }
    }

    /// All of them, in order.
    func all(in source: borrowing some Readable) throws(HandlerError) -> [JID] {
        try source.all("SELECT jid FROM blocked WHERE account = ? ORDER BY jid", account) {
            try? JID(received: $0.text(0))
        }.compactMap(\.self)
    }

    /// Returns whether an address is on the list, or another one that covers it (XEP-0191 section 5).
    func covers(_ jid: JID, in source: borrowing some Readable) throws(HandlerError) -> Bool {
        let domain = jid.domain
        let resource = jid.resource.map { "\(domain)/\($0)" } ?? domain
        return try source.first(
            "SELECT 1 FROM blocked WHERE account = ? AND jid IN (?, ?, ?, ?)", account, jid.description,
            jid.bare.description, resource, domain
        ) { _ in true } ?? false
    }

    /// The maximum number of stored addresses. The server also blocks further ones, and those that are too long for a key: only
    /// the list here is cut.
    static let maximum = 10_000

    func add(_ jids: [JID], in step: borrowing Step) throws(HandlerError) {
        let count = try step.first("SELECT count(*) FROM blocked WHERE account = ?", account) {
            Int($0.integer(0))
        }
        for jid in jids.prefix(max(0, Self.maximum - (count ?? 0))) where ForeignBounds.fitKey(jid) {
            try step.write(
                "INSERT INTO blocked(account, jid) VALUES (?, ?) ON CONFLICT DO NOTHING", account,
                jid.description)
        }
    }

    func remove(_ jids: [JID], in step: borrowing Step) throws(HandlerError) {
        for jid in jids {
            try step.write("DELETE FROM blocked WHERE account = ? AND jid = ?", account, jid.description)
        }
    }

    func removeAll(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM blocked WHERE account = ?", account)
    }
}
