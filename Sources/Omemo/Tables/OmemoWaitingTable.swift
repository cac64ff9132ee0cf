import Handlers
import XMPPCore

/// The messages that wait for lists and bundles, in order.
struct OmemoWaitingTable {
    let account: Int64

    struct Waiting {
        let id: Int64
        let draft: OmemoDraft
        let acknowledged: [UInt8]?
        let handler: HandlerID<OmemoSending>?
    }

    func append(
        _ draft: OmemoDraft, acknowledged: [UInt8]?, handler: HandlerID<OmemoSending>?,
        in step: borrowing Step
    ) throws(HandlerError) {
        let content = Element("content", namespace: OmemoEnvelope.namespace, children: draft.content.children)
        try step.write(
            """
            INSERT INTO omemo_waiting(
                account, target, is_room, stanza_id, content, acknowledged, handler, created_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """, account, draft.target.description, draft.isRoom, draft.id, content.serialized(),
            acknowledged,
            handler, step.now)
    }

    func hasAny(for target: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM omemo_waiting WHERE account = ? AND target = ? LIMIT 1", account,
            target.description)
    }

    func count(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first("SELECT count(*) FROM omemo_waiting WHERE account = ?", account) {
            Int($0.integer(0))
        } ?? 0
    }

    /// Users with waiting messages.
    func targets(in step: borrowing Step) throws(HandlerError) -> [JID] {
        try step.all("SELECT DISTINCT target FROM omemo_waiting WHERE account = ?", account) {
            try? JID(received: $0.text(0))
        }.compactMap(\.self)
    }

    /// The oldest message to a target.
    func first(for target: JID, in step: borrowing Step) throws -> Waiting? {
        let row = try step.first(
            """
            SELECT id, is_room, stanza_id, content, acknowledged, handler FROM omemo_waiting
            WHERE account = ? AND target = ? ORDER BY id LIMIT 1
            """, account, target.description
        ) { row in
            (
                id: row.integer(0), isRoom: row.integer(1) != 0, stanzaID: row.text(2), content: row.text(3),
                acknowledged: row.isNull(4) ? nil : row.blob(4),
                handler: row.optionalInteger(5).map(HandlerID<OmemoSending>.init(rawValue:))
            )
        }
        guard let row else { return nil }
        let content = OmemoContent(children: try Element(parsing: row.content).elements)
        let draft = OmemoDraft(id: row.stanzaID, target: target, isRoom: row.isRoom, content: content)
        return Waiting(id: row.id, draft: draft, acknowledged: row.acknowledged, handler: row.handler)
    }

    func delete(_ id: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM omemo_waiting WHERE id = ?", id)
    }
}
