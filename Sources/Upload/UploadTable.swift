import Handlers
import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Uploads that have not ended, and the service of each account; read and written only inside steps.
struct UploadTable {
    let account: Int64

    static let schema = Schema(
        module: "xmpp-upload",
        migrations: [
            """
            -- What was to be uploaded and has not ended. `state` is an UploadTable.State. `handler` is the program's, `job` the
            -- row of ours that goes on with it: a request, a timer or a PUT. `slot` is JSON, with what lets upload in it.
            -- `link` may hold a key.
            CREATE TABLE upload(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                account INTEGER NOT NULL REFERENCES account(id),
                state TEXT NOT NULL DEFAULT 'waiting',
                handler INTEGER,
                job INTEGER,
                path TEXT NOT NULL,
                name TEXT NOT NULL,
                type TEXT,
                size INTEGER NOT NULL,
                inode INTEGER NOT NULL,
                modified INTEGER NOT NULL,
                encrypted INTEGER NOT NULL,
                recipient TEXT,
                attempts INTEGER NOT NULL DEFAULT 0,
                slot TEXT,
                slot_at INTEGER,
                link TEXT);
            CREATE INDEX upload_state ON upload(account, state, job, id);

            -- The upload service of an account's server. `round` counts searches, `open` the questions of this one that wait
            -- for an answer, `silent` those that got none; `tries` counts searches in which some did.
            CREATE TABLE upload_service(
                account INTEGER PRIMARY KEY REFERENCES account(id),
                round INTEGER NOT NULL DEFAULT 0,
                open INTEGER NOT NULL DEFAULT 0,
                silent INTEGER NOT NULL DEFAULT 0,
                tries INTEGER NOT NULL DEFAULT 0,
                jid TEXT,
                maximum INTEGER);
            """,
            """
            -- When the service was found: nobody says that it has moved, or what it takes.
            ALTER TABLE upload_service ADD COLUMN learned_at INTEGER NOT NULL DEFAULT 0;
            """,
        ],
        handlers: [
            UploadDue.self, UploadSlotAnswered.self, UploadSlotUnanswered.self, UploadPut.self,
            UploadAbandoned.self, UploadItemsAnswered.self, UploadServiceAnswered.self,
            UploadServiceUnanswered.self, UploadSearchDue.self,
        ])

    /// The state of an upload.
    enum State: String {
        /// For its turn, a service or a time.
        case waiting
        /// For a slot.
        case asked
        /// With a slot, to be put.
        case putting
        /// On the server; the message could not be sent yet.
        case uploaded
    }

    struct Row: Sendable {
        var id: UploadID
        var state: State
        var handler: HandlerID<UploadEnded>?
        var job: AnyHandlerID?
        var file: UploadFile
        var identity: LocalFile.Identity
        var isEncrypted: Bool
        var recipient: JID?
        var attempts: Int
        /// Nil where there is none, or where it cannot be read any more.
        var slot: UploadSlot?
        var slotAt: Timestamp
        var link: String?

        /// The size of the upload in bytes.
        var size: Int64 { FileBody.size(of: identity.size, encrypted: isEncrypted) }
    }

    private static let columns =
        "id, state, handler, job, path, name, type, size, inode, modified, encrypted, recipient, attempts, slot, slot_at, link"

    func insert(
        _ file: UploadFile, _ identity: LocalFile.Identity, encrypted: Bool, recipient: JID?,
        handler: HandlerID<UploadEnded>?, in step: borrowing Step
    ) throws(HandlerError) -> UploadID {
        try step.write(
            """
            INSERT INTO upload(account, handler, path, name, type, size, inode, modified, encrypted, recipient)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """, account, handler?.rawValue, file.path, file.name, file.type, identity.size, identity.inode,
            identity.modified, encrypted, recipient?.description)
        return UploadID(rawValue: try step.lastInsertedRow)
    }

    func row(_ id: UploadID, in source: borrowing some Readable) throws(HandlerError) -> Row? {
        try source.first(
            "SELECT \(Self.columns) FROM upload WHERE id = ? AND account = ?", id.rawValue, account,
            read: Self.read)
    }

    /// The oldest ones, those that go on first.
    func rows(limit: Int, in source: borrowing some Readable) throws(HandlerError) -> [Row] {
        try source.all(
            "SELECT \(Self.columns) FROM upload WHERE account = ? AND state IN ('waiting', 'asked', 'putting', 'uploaded') ORDER BY id LIMIT ?",
            account, limit, read: Self.read)
    }

    /// Those that wait for nothing but their turn or a service.
    func ready(limit: Int, in step: borrowing Step) throws(HandlerError) -> [Row] {
        try step.all(
            """
            SELECT \(Self.columns) FROM upload WHERE account = ? AND state = 'waiting' AND job IS NULL
            ORDER BY id LIMIT ?
            """, account, limit, read: Self.read)
    }

    /// Returns the number of uploads, counted up to a limit.
    func count(upTo limit: Int, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            "SELECT count(*) FROM (SELECT 1 FROM upload WHERE account = ? LIMIT ?) AS counted", account, limit
        ) { Int($0.integer(0)) } ?? 0
    }

    /// Returns the number of uploads that have a slot or wait for one.
    func active(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            "SELECT count(*) FROM upload WHERE account = ? AND state IN ('asked', 'putting')", account
        ) { Int($0.integer(0)) } ?? 0
    }

    func set(
        _ id: UploadID, _ state: State, job: AnyHandlerID?, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            "UPDATE upload SET state = ?, job = ? WHERE id = ?", state.rawValue, job?.rawValue, id.rawValue)
    }

    func set(_ id: UploadID, slot: UploadSlot?, in step: borrowing Step) throws {
        let json = try slot.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) }
        try step.write("UPDATE upload SET slot = ?, slot_at = ? WHERE id = ?", json, step.now, id.rawValue)
    }

    func set(_ id: UploadID, link: ForeignText, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE upload SET link = ? WHERE id = ?", link, id.rawValue)
    }

    func setAttempts(_ attempts: Int, of id: UploadID, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE upload SET attempts = ? WHERE id = ?", attempts, id.rawValue)
    }

    func remove(_ id: UploadID, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM upload WHERE id = ?", id.rawValue)
    }

    private static func read(_ row: borrowing Handlers.Row) throws(HandlerError) -> Row {
        Row(
            id: UploadID(rawValue: row.integer(0)), state: State(rawValue: row.text(1)) ?? .waiting,
            handler: row.optionalInteger(2).map(HandlerID.init(rawValue:)),
            job: row.optionalInteger(3).map(AnyHandlerID.init(rawValue:)),
            file: UploadFile(row.text(4), name: row.text(5), type: row.optionalText(6)),
            identity: .init(size: row.quantity(7), inode: row.integer(8), modified: row.integer(9)),
            isEncrypted: row.integer(10) != 0,
            recipient: row.optionalText(11).flatMap { try? JID(received: $0) },
            attempts: Int(clamping: row.quantity(12)),
            slot: row.optionalText(13).flatMap {
                try? JSONDecoder().decode(UploadSlot.self, from: Data($0.utf8))
            },
            slotAt: row.timestamp(14), link: row.optionalText(15))
    }
}
