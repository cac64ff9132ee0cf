import Handlers
import XMPPCore

/// The items that standing handlers were called with last, to recognize those that a service shows again.
///
/// Each standing handler has its own, because one that was added later has not seen what the others have.
struct SeenItemTable {
    static let schema = Schema(
        module: "pubsub-events",
        migrations: [
            """
            -- What a standing handler was last called with of an item. The rows of the oldest go first.
            CREATE TABLE pubsub_seen_item(
                row INTEGER PRIMARY KEY,
                handler INTEGER NOT NULL,
                service TEXT NOT NULL,
                item TEXT NOT NULL,
                digest INTEGER NOT NULL,
                UNIQUE(handler, service, item));
            """
        ])

    let handler: HandlerID

    /// How many items are kept of one node: a service shows the last one again, not all.
    static let itemsPerNode = 64
    /// How many items are kept for one handler over the nodes of all services: one node for each contact.
    static let items = 10_000

    /// Those of the items that are new or have other content than before; they are noted.
    ///
    /// What has no id is not kept by the service, and what has no content may have changed: both are always new.
    func takeNews(
        _ items: [PubSubEvent.Item], at service: JID, in step: borrowing Step
    ) throws(HandlerError) -> [PubSubEvent.Item] {
        var news: [PubSubEvent.Item] = []
        for item in items where try isNews(item, at: service, in: step) { news.append(item) }
        return news
    }

    private func isNews(
        _ item: PubSubEvent.Item, at service: JID, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        guard let id = item.id, let payload = item.payload else { return true }
        let digest = Self.digest(of: payload)
        let known = try step.first(
            "SELECT digest FROM pubsub_seen_item WHERE handler = ? AND service = ? AND item = ?", handler,
            service.description, id
        ) { (row) throws(HandlerError) in row.integer(0) }
        guard known != digest else { return false }
        try step.execute(
            "INSERT OR REPLACE INTO pubsub_seen_item(handler, service, item, digest) VALUES (?, ?, ?, ?)",
            handler, service.description, id, digest)
        try trim(service, after: step.lastInsertedRow, in: step)
        return true
    }

    /// Removes what is too much. The count over all services is looked at now and then only.
    private func trim(
        _ service: JID, after row: Int64, in step: borrowing Step
    ) throws(HandlerError) {
        try step.execute(
            """
            DELETE FROM pubsub_seen_item WHERE row IN (
                SELECT row FROM pubsub_seen_item WHERE handler = ? AND service = ?
                ORDER BY row DESC LIMIT -1 OFFSET ?)
            """, handler, service.description, Self.itemsPerNode)
        guard row % 64 == 0 else { return }
        try step.execute(
            """
            DELETE FROM pubsub_seen_item WHERE row IN (
                SELECT row FROM pubsub_seen_item WHERE handler = ? ORDER BY row DESC LIMIT -1 OFFSET ?)
            """, handler, Self.items)
    }

    /// Items that are gone: published again, they are new.
    func forget(_ ids: [String], at service: JID, in step: borrowing Step) throws(HandlerError) {
        for id in ids {
            try step.execute(
                "DELETE FROM pubsub_seen_item WHERE handler = ? AND service = ? AND item = ?", handler,
                service.description, id)
        }
    }

    /// All items of a service's node are gone.
    func forgetAll(at service: JID, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "DELETE FROM pubsub_seen_item WHERE handler = ? AND service = ?", handler, service.description)
    }

    /// The handler is gone.
    func remove(in step: borrowing Step) throws(HandlerError) {
        try step.execute("DELETE FROM pubsub_seen_item WHERE handler = ?", handler)
    }

    /// A number made from an item's content. FNV-1a: the same in every process, unlike Swift's own hashing. No defense against
    /// forgery: publishers could only hide items of their own.
    private static func digest(of payload: Element) -> Int64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in Serializer().bytes(payload) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return Int64(bitPattern: hash)
    }
}
