import Handlers
import XMPPTransport
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
            """,
            """
            -- A digest stands for a long id from now on, see `key`; an item with one counts as new once.
            DELETE FROM pubsub_seen_item WHERE length(CAST(item AS BLOB)) > 128;
            """,
            """
            -- Standing handlers that take values: what comes without its content is fetched for them.
            CREATE TABLE pubsub_typed_listener(handler INTEGER PRIMARY KEY);
            """,
        ], handlers: PubSubService.handlers)

    let handler: AnyHandlerID

    /// The maximum number of remembered items of one node: a service repeats the last one, not all.
    static let itemsPerNode = 64
    /// The maximum number of remembered items for one handler over all services: one node for each contact.
    static let items = 10_000
    /// The longest id that is kept as it is, in bytes; of longer ones a digest is kept.
    static let longestID = 128

    /// Returns the key of an id in the table. No id that is stored unchanged has this length.
    static func key(_ id: ForeignText) -> ForeignText {
        guard id.utf8.count > longestID else { return id }
        let digest = Crypto.base64(Crypto.digest(.sha256, id.utf8))
        return "\(digest)\(String(repeating: "=", count: longestID + 1 - digest.utf8.count))"
    }

    /// Those of the items that are new or have other content than before; they are noted.
    ///
    /// What has no id is not kept by the service, and what has no content may have changed: both are always new.
    func recordNews(
        _ items: [PubSubItem], at service: JID, in step: borrowing Step
    ) throws(HandlerError) -> [PubSubItem] {
        var known = try known(at: service, in: step)
        var changed: [ForeignText] = []
        let news = items.filter { item in
            guard let id = item.id, let payload = item.payload else { return true }
            let (key, digest) = (Self.key(id), Self.digest(of: payload))
            guard known[key] != digest || BuiltInFault.repeatItems.isOn else { return false }
            known[key] = digest
            changed.append(key)
            return true
        }
        // What would go again at once is not written: an event may hold thousands of items.
        let kept = changed.suffix(Self.itemsPerNode).map { (id: $0, digest: known[$0]) }
        try record(kept, at: service, in: step)
        return news
    }

    private func known(
        at service: JID, in step: borrowing Step
    ) throws(HandlerError) -> [ForeignText: Int64] {
        let rows = try step.all(
            "SELECT item, digest FROM pubsub_seen_item WHERE handler = ? AND service = ?", handler,
            service.description
        ) { ($0.foreignText(0), $0.integer(1)) }
        return Dictionary(rows) { _, newer in newer }
    }

    private func record(
        _ items: [(id: ForeignText, digest: Int64?)], at service: JID, in step: borrowing Step
    ) throws(HandlerError) {
        guard !items.isEmpty else { return }
        var isTimeToLook = false
        for item in items {
            // A changed item gets a new row, because the row numbers order the items by age.
            let old = try step.first(
                "DELETE FROM pubsub_seen_item WHERE handler = ? AND service = ? AND item = ? RETURNING row",
                handler, service.description, item.id
            ) { $0.integer(0) }
            try step.write(
                "INSERT INTO pubsub_seen_item(handler, service, item, digest) VALUES (?, ?, ?, ?)", handler,
                service.description, item.id, item.digest)
            let row = try step.lastInsertedRow
            isTimeToLook = isTimeToLook || row % 64 == 0 && row != old
        }
        try trim(service, in: step)
        if isTimeToLook { try trimAll(in: step) }
    }

    private func trim(_ service: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM pubsub_seen_item WHERE row IN (
                SELECT row FROM pubsub_seen_item WHERE handler = ? AND service = ?
                ORDER BY row DESC LIMIT ? OFFSET ?)
            """, handler, service.description, Int64.max, Self.itemsPerNode)
    }

    /// Removes what is too much over all services. It is looked at now and then only, and then for all handlers: those that
    /// stand side by side could else take turns so that one is never looked at.
    private func trimAll(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM pubsub_seen_item WHERE row IN (
                SELECT row FROM (
                    SELECT row, row_number() OVER (PARTITION BY handler ORDER BY row DESC) AS place
                    FROM pubsub_seen_item) AS placed
                WHERE place > ?)
            """, Self.items)
    }

    /// Items that are gone: published again, they are new.
    func forget(_ ids: [ForeignText], at service: JID, in step: borrowing Step) throws(HandlerError) {
        for id in ids {
            try step.write(
                "DELETE FROM pubsub_seen_item WHERE handler = ? AND service = ? AND item = ?", handler,
                service.description, Self.key(id))
        }
    }

    /// All items of a service's node are gone.
    func forgetAll(at service: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM pubsub_seen_item WHERE handler = ? AND service = ?", handler, service.description)
    }

    /// The handler takes values.
    func setTyped(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "INSERT INTO pubsub_typed_listener(handler) VALUES (?) ON CONFLICT DO NOTHING", handler)
    }

    func isTyped(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists("SELECT 1 FROM pubsub_typed_listener WHERE handler = ?", handler)
    }

    /// The handler is gone.
    func remove(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM pubsub_seen_item WHERE handler = ?", handler)
        try step.write("DELETE FROM pubsub_typed_listener WHERE handler = ?", handler)
    }

    /// A number made from an item's content. No defense against forgery: publishers could only hide items of their own.
    private static func digest(of payload: Element) -> Int64 {
        StableHash(Serializer().bytes(ordered(payload))).stored
    }

    /// The order of attributes means nothing (XML 1.0 section 3.1), and a service that keeps them in tables shows them in
    /// another one when it was started again.
    private static func ordered(_ element: Element) -> Element {
        var ordered = element
        ordered.attributes.sort { ($0.name, $0.namespace ?? "") < ($1.name, $1.namespace ?? "") }
        ordered.children = element.children.map { child in
            if case .element(let inner) = child { .element(Self.ordered(inner)) } else { child }
        }
        return ordered
    }
}
