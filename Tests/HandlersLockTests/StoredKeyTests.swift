@testable import Handlers
@testable import HandlersPostgres
import IQTracker
import Omemo
@testable import PubSub
import PushwakeCommands
import TestServers
import TestSupport
import TestThreads
import Testing
import Upload
import XMPPAccount
import XMPPCore
import XMPPModules

/// The longest texts that the limits admit, in the keys of all tables, on both engines.
///
/// An entry of an index of PostgreSQL has 2704 bytes at most, and SQLite has no such limit. The tables are read from the catalog of the
/// engine, so that a new one takes part; a column of a key whose kind is not stated fails the test.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct StoredKeyTests {
    /// What a text in a key is, with its greatest length in bytes.
    enum Kind {
        /// An address; one without a resource; the nickname that a room gives, which is a resource.
        case address, bareAddress, nickname
        /// An id that somebody else has chosen; ``ForeignBounds/token``.
        case id
        /// A name that the program gives: of a handler, an event, a module, a scope.
        case name
        /// The key of a handler and of an order; the name of a lane.
        case key, lane
        /// A text of the program that has no limit but that of the whole key.
        case ofProgram
        /// A word of the library, such as a state, or a namespace.
        case word
        /// The digest of an entity's features; bytes that are a digest or a key; an item of PubSub, or the digest of a longer one.
        case verification, digest, item

        var length: Int {
            switch self {
            case .address: ForeignBounds.address
            case .bareAddress: ForeignBounds.bareAddress
            case .nickname: 1023
            case .id: ForeignBounds.token
            case .name: NameBounds.name
            case .key: NameBounds.key
            case .lane: Lanes.longestName
            case .ofProgram: ForeignBounds.key
            case .word: 64
            case .verification: 100
            case .digest: 33
            case .item: SeenItemTable.longestID + 1
            }
        }
    }

    /// The kind of each text in a key.
    static let kinds: [String: [String: Kind]] = [
        // The runtime's.
        "handler_activity": ["name": .name],
        "calendar": [:], "chain_limit": [:], "chain_member": [:],
        "connected_clock": ["scope": .name], "connected_slot": ["scope": .name],
        "dropped_call": ["name": .name], "early_signal": ["key": .key], "ending": [:],
        "ending_detail": ["key": .key], "event": ["name": .name, "scope": .name],
        "handler_failure": [:],
        "handler": ["name": .name, "scope": .name], "handler_join": [:], "handler_key": ["key": .key],
        "identity": [:], "join_child": [:], "journal": [:], "lane": ["name": .lane],
        "lane_entry": ["lane": .lane, "order_key": .key, "share": .key],
        "lane_share": ["lane": .lane, "share": .key], "module_schema": ["module": .name], "place": [:],
        "handler_progress": [:], "handler_repair": [:],
        "migration_text": ["module": .name], "node": [:], "node_lease": [:], "node_step": [:],
        "step_lock": [:],
        // Those of accounts.
        "account": ["jid": .bareAddress], "deferred": [:], "fast_token": [:],
        "inbound_request": ["peer": .address, "stanza_id": .id],
        "listener": ["event": .ofProgram, "key": .ofProgram], "login": [:], "module": ["name": .name],
        "outbox": [:], "own_presence": [:], "ownership": [:], "request": ["stanza_id": .id],
        "seen": ["peer": .address, "stanza_id": .id], "seen_mark": ["mark": .digest],
        "seen_sender": ["digest": .digest], "session": [:],
        // Those of modules.
        "archive": ["jid": .bareAddress], "archive_query": ["query": .word], "blocked": ["jid": .address],
        "capability": ["verification": .verification], "capability_query": ["verification": .verification],
        "contact_presence": ["jid": .address, "bare": .bareAddress],
        "delivery": ["stanza_id": .id, "peer": .bareAddress], "entity": ["jid": .address],
        "occupant": ["room": .bareAddress, "nick": .nickname],
        "pubsub_seen_item": ["service": .bareAddress, "item": .item],
        "pubsub_typed_listener": [:],
        "push_registration": ["service": .address, "node": .ofProgram], "push_removal": [:],
        "room": ["jid": .bareAddress], "room_invitation": ["room": .bareAddress],
        "room_message": ["room": .bareAddress, "stanza_id": .id], "room_watch": [:], "roster": [:],
        "roster_item": ["jid": .address], "subscription_request": ["jid": .bareAddress],
        "subscription_stanza": ["jid": .bareAddress], "subscription_wait": ["jid": .bareAddress],
        "upload": ["state": .word], "upload_service": [:],
        // Those of OMEMO.
        "omemo_device": ["jid": .bareAddress, "namespace": .word],
        "omemo_device_identity": ["jid": .bareAddress],
        "omemo_device_list": ["jid": .bareAddress, "namespace": .word],
        "omemo_duty": ["jid": .bareAddress, "namespace": .word],
        "omemo_fetch": ["jid": .bareAddress, "namespace": .word],
        "omemo_identity": ["jid": .bareAddress, "identity": .digest], "omemo_listener": ["key": .ofProgram],
        "omemo_own": [:], "omemo_prekey": [:], "omemo_publication": ["namespace": .word],
        "omemo_room_member": ["room": .bareAddress],
        "omemo_session": ["jid": .bareAddress, "namespace": .word], "omemo_signed_prekey": [:],
        "omemo_waiting": ["target": .bareAddress],
        // Those of the command.
        "message": ["peer": .bareAddress], "shown_output": [:], "answered": ["ticket": .word],
        "told_invitation": ["room": .bareAddress], "watched": ["peer": .bareAddress],
    ]

    /// Tables whose code asks ``ForeignBounds/fitKey(_:)`` before it writes: `ForeignKeyTests` of XMPPModules has each refusal.
    static let asking: Set<String> = [
        "blocked", "contact_presence", "entity", "inbound_request", "listener", "occupant",
        "push_registration",
        "room_message", "roster_item",
        // Written by older programs only; a move to PostgreSQL removes what is longer.
        "seen",
    ]

    /// What writes a row of such a table, called with the longest texts: it refuses them, or shortens them.
    static let writing: [String: @Sendable (borrowing Step) throws -> Void] = [
        "inbound_request": { step in
            let from = "\(letters(1000))@evil.example/\(letters(1000))"
            let iq = try IQ(
                element: Element(
                    parsing: """
                        <iq xmlns='jabber:client' type='get' from='\(from)' id='\(letters(ForeignBounds.token))'>\
                        <ping xmlns='urn:xmpp:ping'/></iq>
                        """))
            let table = InboundRequestTable(account: 1, timeout: .seconds(60))
            guard try table.hasRoom(for: iq, in: step) else { return }
            #expect(try table.open(iq, connectedTime: .zero, in: step))
        }
    ]

    static let schemas =
        Account.schemas + PubSubEvents.schemas + OmemoService.schemas + UploadModule.schemas
        + [ClientApp.schema]

    @Test("S17 the longest texts that the limits admit fit into each key of each table, on SQLite")
    func sqlite() throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/all.db", registry: HandlerRegistry(), schemas: Self.schemas)
        try Self.check(store, Self.sqliteCatalog, before: "PRAGMA defer_foreign_keys = ON")
    }

    @Test("S17 the longest texts that the limits admit fit into each key of each table, on PostgreSQL")
    func postgres() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let store = try HandlerStore(
            postgres: database.connection(), registry: HandlerRegistry(),
            schemas: Self.schemas.filter { $0.module != ClientApp.schema.module },
            durability: .onPrimary)
        try Self.check(
            store, Self.postgresCatalog,
            before: "SET LOCAL session_replication_role = replica", "SET LOCAL enable_seqscan = off")
    }
}

// MARK: - The tables of the catalog

extension StoredKeyTests {
    struct Column: Hashable {
        let name: String
        let type: String

        var isInteger: Bool { ["INTEGER", "BIGINT"].contains(type.uppercased()) }
        var isText: Bool { type.uppercased() == "TEXT" }
    }

    struct Table {
        let name: String
        var columns: [Column] = []
        /// The columns of each index, that of the primary key and of unique ones included.
        var keys: [String: [String]] = [:]
    }

    struct Catalog {
        let tables: String
        /// The columns of the table `?1`: name, type.
        let columns: String
        /// The columns of its indices: index, column.
        let keys: String
    }

    static let sqliteCatalog = Catalog(
        tables:
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
        columns: "SELECT name, type FROM pragma_table_info(?)",
        keys: """
            SELECT list.name, info.name FROM pragma_index_list(?) list JOIN pragma_index_info(list.name) info
            ORDER BY list.name, info.seqno
            """)

    static let postgresCatalog = Catalog(
        tables: "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
        columns: """
            SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
            WHERE attrelid = (?::text)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
            """,
        keys: """
            SELECT indexrelid::regclass::text, attname::text
            FROM pg_index, unnest(indkey) WITH ORDINALITY AS part(number, place)
            JOIN pg_attribute ON attnum = number
            WHERE indrelid = (?::text)::regclass AND attrelid = indrelid ORDER BY 1, place
            """)

    static func tables(_ catalog: Catalog, in step: borrowing Step) throws -> [Table] {
        try step.all(catalog.tables) { $0.text(0) }.sorted().map { name in
            var table = Table(name: name)
            table.columns = try step.all(catalog.columns, name) { Column(name: $0.text(0), type: $0.text(1)) }
            for part in try step.all(catalog.keys, name, read: { (key: $0.text(0), column: $0.text(1)) }) {
                table.keys[part.key, default: []].append(part.column)
            }
            return table
        }
    }
}

// MARK: - Rows

extension StoredKeyTests {
    private struct Undone: Error {}

    /// Writes, changes, finds and reads a row of each table.
    private static func check(_ store: HandlerStore, _ catalog: Catalog, before settings: String...) throws {
        var count = 0
        #expect(throws: Undone.self) {
            try store.step { step in
                // Rows of other tables are left out.
                for setting in settings { try step.transaction.connection.execute(setting) }
                for table in try tables(catalog, in: step) {
                    count += 1
                    guard let variants = lengths(of: table) else {
                        Issue.record(
                            "state in `kinds` what the texts in the keys of \(table.name) are: \(table.keys)")
                        continue
                    }
                    for lengths in variants {
                        do {
                            try step.undoingOnError { try check(table, lengths, in: step) }
                        } catch {
                            Issue.record("\(table.name) \(lengths): \(error)")
                        }
                    }
                    do {
                        try step.undoingOnError { try checkWriting(table, in: step) }
                    } catch {
                        Issue.record("\(table.name): \(error)")
                    }
                }
                throw Undone()
            }
        }
        #expect(count > 70)
    }

    /// The lengths of the texts in the keys of a table: one list, or one for each text where all together would be too long. Nil where a
    /// column has no kind.
    private static func lengths(of table: Table) -> [[String: Int]]? {
        let texts = table.columns.filter { column in
            !column.isInteger && table.keys.values.contains { $0.contains(column.name) }
        }.map(\.name)
        guard let kinds = kinds[table.name], Set(kinds.keys) == Set(texts) else { return nil }
        let longest = kinds.mapValues(\.length)
        guard asking.contains(table.name) else { return [longest] }
        // One after the other is as long as it can be, and leaves the rest to the others that share a key with it.
        return texts.map { first in
            var lengths = longest.mapValues { min($0, ForeignBounds.key) }
            for key in table.keys.values where key.contains(first) {
                var rest = ForeignBounds.key - (lengths[first] ?? 0)
                for other in key where other != first && lengths[other] != nil {
                    lengths[other] = max(1, min(lengths[other] ?? 0, rest - 1))
                    rest -= lengths[other] ?? 0
                }
            }
            return lengths
        }
    }

    private static func check(_ table: Table, _ lengths: [String: Int], in step: borrowing Step) throws {
        let connection = step.transaction.connection
        var row: [String: SQLValue] = [:]
        for column in table.columns {
            let length = lengths[column.name] ?? 5000
            // The one check of a number that is no limit of its own is that there is one row.
            row[column.name] =
                column.isInteger
                ? .integer(table.name == "shown_output" ? 1 : .random(in: 1000...1 << 30))
                : column.isText
                    ? .text(letters(length)) : .blob((0..<length).map { _ in .random(in: 0...255) })
        }
        func values(_ names: [String]) -> [any SQLConvertible] { names.map { row[$0] ?? .null } }
        let names = table.columns.map(\.name)
        try connection.execute(
            "INSERT INTO \(table.name)(\(names.joined(separator: ", "))) VALUES (\(names.map { _ in "?" }.joined(separator: ", ")))",
            values(names))
        for (column, length) in lengths {
            let old = row[column] ?? .null
            row[column] =
                if case .text = old { .text(letters(length)) } else {
                    .blob((0..<length).map { _ in .random(in: 0...255) })
                }
            let changed = try connection.execute(
                "UPDATE \(table.name) SET \(column) = ? WHERE \(column) = ?", [row[column] ?? .null, old])
            #expect(changed == 1, "\(table.name).\(column)")
        }
        for (key, columns) in table.keys {
            let condition = columns.map { "\($0) = ?" }.joined(separator: " AND ")
            let found = try connection.all(
                "SELECT \(names.joined(separator: ", ")) FROM \(table.name) WHERE \(condition)",
                values(columns)
            ) { row in names.indices.map { row.value($0) ?? .null } }
            #expect(found == [names.map { row[$0] ?? .null }], "\(table.name) by \(key)")
        }
        try connection.execute("DELETE FROM \(table.name) WHERE \(names[0]) = ?", values([names[0]]))
    }

    /// Writes a row with the longest texts as the library does, and looks how long its keys are.
    private static func checkWriting(_ table: Table, in step: borrowing Step) throws {
        guard let write = writing[table.name] else { return }
        try write(step)
        let connection = step.transaction.connection
        for (key, columns) in table.keys {
            let texts = columns.filter { name in !table.columns.contains { $0.name == name && $0.isInteger } }
            let rows = try connection.all("SELECT \(texts.joined(separator: ", ")) FROM \(table.name)") {
                row in
                texts.indices.map {
                    switch row.value($0) {
                    case .text(let text)?: text.utf8.count
                    case .blob(let bytes)?: bytes.count
                    default: 0
                    }
                }
            }
            for lengths in rows {
                #expect(lengths.reduce(0, +) <= ForeignBounds.key, "\(table.name) by \(key): \(lengths)")
            }
        }
    }

    /// Random letters, which no engine makes shorter.
    private static func letters(_ length: Int) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        return String(
            decoding: (0..<length).map { _ in alphabet[.random(in: 0..<alphabet.count)] }, as: UTF8.self)
    }
}
