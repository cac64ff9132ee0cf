import Handlers
public import XMPPCore

/// An available resource of a contact.
///
/// ```swift
/// let resources = try account.store.read { try account.roster.presence(of: juliet, in: $0) }
/// print(resources.first?.show ?? "available")
/// ```
///
/// Source: RFC 6121 section 4.7.2.
public struct ContactPresence: Hashable, Sendable {
    /// The full address of the resource. A service may be available without one.
    public let jid: JID
    /// The availability; nil for plainly available. `away`, `chat`, `dnd`, `xa`; open for others.
    public let show: ForeignText?
    /// The user's status text.
    public let status: ForeignText?
    /// -128 to 127; messages to the bare address go to the resource with the highest.
    public let priority: Int8
}

extension ContactPresence {
    init(_ presence: Presence, from jid: JID) {
        func text(_ name: String, _ limit: Int) -> ForeignText? {
            let text = presence.element.child(name, presence.element.namespace)?.text
            return text.flatMap { $0.isEmpty ? nil : $0.prefix(bytes: limit) }
        }
        self.init(
            jid: jid, show: text("show", 16), status: text("status", ForeignBounds.words),
            priority: presence.priority)
    }
}

/// The contacts' resources that are available, as of this session.
struct ContactPresenceTable {
    let account: Int64

    static let script = """
        -- Resources that are available, in this session.
        CREATE TABLE contact_presence(
            account INTEGER NOT NULL,
            jid TEXT NOT NULL,
            bare TEXT NOT NULL,
            show TEXT,
            status TEXT,
            priority INTEGER NOT NULL,
            PRIMARY KEY(account, jid)) WITHOUT ROWID;
        CREATE INDEX contact_presence_bare ON contact_presence(account, bare);
        """

    /// The maximum number of stored resources of one contact; more are an attack.
    static let maximumResources = 100
    /// The maximum number of stored resources of all contacts.
    static let maximumRows = 5000
    /// The maximum number of stored resources while the roster is unknown, of possible strangers and of all others together.
    static let maximumUnknown = 1000

    /// - Parameter limit: How many resources of all may be kept for this one to be kept, too.
    /// - Returns: False when there are too many, or the address is too long for a key; nothing was changed then.
    func set(
        _ presence: ContactPresence, limit: Int = maximumRows, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        guard ForeignBounds.fitKey(presence.jid) else { return false }
        let bare = presence.jid.bare.description
        return try step.execute(
            """
            INSERT INTO contact_presence(account, jid, bare, show, status, priority)
            SELECT ?1, ?2, ?3, ?4, ?5, ?6
            WHERE EXISTS (SELECT 1 FROM contact_presence WHERE account = ?1 AND jid = ?2)
                OR ((SELECT count(*) FROM (
                    SELECT 1 FROM contact_presence WHERE account = ?1 AND bare = ?3 LIMIT ?7) AS of_contact) < ?7
                AND (SELECT count(*) FROM (
                    SELECT 1 FROM contact_presence WHERE account = ?1 LIMIT ?8) AS of_account) < ?8)
            ON CONFLICT(account, jid) DO UPDATE
            SET show = excluded.show, status = excluded.status, priority = excluded.priority
            """, account, presence.jid.description, bare, presence.show, presence.status,
            Int(presence.priority), Self.maximumResources, limit) > 0
    }

    /// - Returns: Whether anything was there.
    func remove(_ jid: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        let column = jid.isBare ? "bare" : "jid"
        return try step.execute(
            "DELETE FROM contact_presence WHERE account = ? AND \(column) = ?", account, jid.description) > 0
    }

    func removeAll(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM contact_presence WHERE account = ?", account)
    }

    /// Removes what is not of the account itself or of a contact whose presence it may see.
    func removeStrangers(own: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM contact_presence WHERE account = ?1 AND bare <> ?2 AND bare NOT IN
                (SELECT jid FROM roster_item WHERE account = ?1 AND subscription IN ('to', 'both'))
            """, account, own.description)
    }

    /// The resources of one contact, that with the highest priority first.
    func presence(of jid: JID, in source: borrowing some Readable) throws(HandlerError) -> [ContactPresence] {
        try source.all(
            """
            SELECT jid, show, status, priority FROM contact_presence WHERE account = ? AND bare = ?
            ORDER BY priority DESC, jid
            """, account, jid.bare.description
        ) { row in
            (try? JID(received: row.text(0))).map {
                ContactPresence(
                    jid: $0, show: row.optionalForeignText(1), status: row.optionalForeignText(2),
                    priority: Int8(clamping: row.integer(3)))
            }
        }.compactMap(\.self)
    }
}
