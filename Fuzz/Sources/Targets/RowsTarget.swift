import CSQLite
import FoundationEssentials
import Glibc
@testable import Handlers
@testable import Omemo
@testable import XMPPAccount
import PushwakeCommands
import XMPPCore
@testable import XMPPModules

extension FuzzTarget {
    /// A store in which somebody changed cells: it is shown, or opened by an account that takes stanzas in and starts a new
    /// session. Each of these succeeds or fails with an error.
    static let rows = FuzzTarget("rows", .short, maximumLength: 256) { bytes in
        let template = try storeTemplate.made()
        let path = try template.copy()
        var directions = Bytes(bytes)
        let isShown = directions.byte() % 2 == 0
        try StoreDamage(template.tables).apply(&directions, to: path)
        if isShown { return show(path) }
        let world = try FuzzAccount(path: path)
        defer { world.close() }
        use(world)
    }

    private static let storeTemplate = Result { () throws in try StoreTemplate() }

    private static func show(_ path: String) {
        let reader = StoreReader(path: path, schemas: Account.schemas)
        guard let contents = try? StoreContents(reader, limit: 100) else { return }
        for width in [nil, 40, 120] { _ = contents.text(TerminalStyle(width: width)) }
        _ = try? JSONEncoder().encode(contents)
    }

    private static func use(_ world: FuzzAccount) {
        let store = world.store
        for xml in [
            "<message from='romeo@montague.example/a' id='n1'><body>x</body></message>",
            "<iq type='result' id='q1' from='capulet.example'/>",
            "<presence from='room@rooms.example/romeo' type='unavailable'/>",
            "<iq type='set' id='p2'><query xmlns='jabber:iq:roster' ver='v3'><item jid='romeo@montague.example' subscription='remove'/></query></iq>",
            "<a xmlns='urn:xmpp:sm:3' h='2'/>",
        ] { try? world.receive(xml) }
        _ = try? store.step { step in
            _ = try step.handlers()
            _ = try world.account.requests.claimExpired(
                connectedTime: .milliseconds(Int64.max), limit: 10, in: step)
            _ = try world.account.outbox.next(session: 1, after: 0, limit: 10, in: step)
            try step.requeueAll()
        }
        _ = try? store.step { step in try world.account.omemo.performDuties(in: step) }
        _ = try? store.step { step in try world.account.omemo.maintain(in: step) }
        _ = try? store.step { step in
            let table = OwnershipTable(account: world.account.id)
            return try table.takeOver(owner: "main", slot: 0, past: nil, in: step)
        }
        _ = try? store.step { step in try world.account.startModules(.session, in: step) }
        _ = try? world.account.canResume()
    }
}

/// A store with something in every table, copied for each input.
private struct StoreTemplate {
    private let path: String
    private let content: [UInt8]
    let tables: [StoreDamage.Table]

    init() throws {
        path = try ScratchFolder.make() + "/store.db"
        let made = path + "-template"
        let world = try FuzzAccount(path: made)
        try world.fill()
        world.close()
        try StoreDamage.execute("PRAGMA wal_checkpoint(TRUNCATE)", in: made)
        content = try FuzzTarget.read(made)
        tables = try StoreDamage.tables(of: made)
    }

    func copy() throws -> String {
        for suffix in ["-wal", "-shm", "-processes", "-signal", "-owners"] { unlink(path + suffix) }
        try FuzzTarget.write(content, to: path)
        return path
    }
}

/// Changes cells as an input says, past all of SQLite's constraints.
private struct StoreDamage {
    struct Table {
        var name: String
        var columns: [String]
        var hasRowID: Bool
        var rows: Int
    }

    private let tables: [Table]

    init(_ tables: [Table]) { self.tables = tables }

    func apply(_ directions: inout Bytes, to path: String) throws {
        try Self.open(path) { database in
            sqlite3_exec(database, "PRAGMA ignore_check_constraints = ON", nil, nil, nil)
            while !directions.isEmpty { change(&directions, database) }
        }
    }

    private func change(_ directions: inout Bytes, _ database: OpaquePointer) {
        let table = Self.chosen(tables, directions.byte(), \.name)
        let column = Self.chosen(table.columns, directions.byte(), \.self)
        let row = Int(directions.byte()) % max(1, table.rows)
        let place =
            table.hasRowID ? " WHERE rowid = (SELECT rowid FROM \"\(table.name)\" LIMIT 1 OFFSET \(row))" : ""
        var statement: OpaquePointer?
        let sql = "UPDATE OR IGNORE \"\(table.name)\" SET \"\(column)\" = ?\(place)"
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK else { return }
        bind(&directions, statement)
        sqlite3_step(statement)
    }

    /// The one whose name draws the highest number with the byte: tables and columns that are added later leave nearly all
    /// inputs what they were.
    private static func chosen<Named>(
        _ list: [Named], _ byte: UInt8, _ name: (Named) -> String
    ) -> Named {
        func number(_ named: Named) -> UInt64 { Digest.of([byte] + Array(name(named).utf8)) % 65521 }
        return list.max { number($0) < number($1) }!  // No table is without columns, no store without tables.
    }

    private static let integers: [Int64] = [.min, .max, -1, 0, 1, 2, 1 << 31, 1 << 32, -(1 << 32), 1 << 53]

    private func bind(_ directions: inout Bytes, _ statement: OpaquePointer?) {
        // Tells SQLite to copy; C has a macro for it.
        let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        let kind = directions.byte()
        switch kind % 6 {
        case 0:
            sqlite3_bind_int64(statement, 1, Self.integers[Int(directions.byte()) % Self.integers.count])
        case 1: sqlite3_bind_int64(statement, 1, directions.integer())
        case 2:
            let text = directions.take(Int(directions.byte()))
            sqlite3_bind_text(
                statement, 1, text.map { CChar(bitPattern: $0) }, Int32(text.count), transient)
        case 3:
            let blob = directions.take(Int(directions.byte()))
            sqlite3_bind_blob(statement, 1, blob, Int32(blob.count), transient)
        case 4:
            sqlite3_bind_double(statement, 1, Double(bitPattern: UInt64(bitPattern: directions.integer())))
        default: sqlite3_bind_null(statement, 1)
        }
    }

    // MARK: SQLite by hand: the library's own connection would refuse

    private static func open<R>(_ path: String, _ body: (OpaquePointer) throws -> R) throws -> R {
        var database: OpaquePointer?
        defer { sqlite3_close_v2(database) }
        guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK, let database else {
            throw Finding("\(path) cannot be opened")
        }
        return try body(database)
    }

    static func execute(_ sql: String, in path: String) throws {
        try open(path) { database in _ = sqlite3_exec(database, sql, nil, nil, nil) }
    }

    static func tables(of path: String) throws -> [Table] {
        try open(path) { database in
            let names = texts(
                database,
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
            )
            return names.map { name in
                Table(
                    name: name,
                    columns: texts(database, "SELECT name FROM pragma_table_info('\(name)')"),
                    hasRowID: texts(database, "SELECT rowid FROM \"\(name)\" LIMIT 1").count == 1,
                    rows: Int(texts(database, "SELECT count(*) FROM \"\(name)\"").first ?? "") ?? 0)
            }.filter { $0.rows > 0 }
        }
    }

    /// The first column of each row; none where the statement makes no sense.
    private static func texts(_ database: OpaquePointer, _ sql: String) -> [String] {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK else { return [] }
        var texts: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            if let text = sqlite3_column_text(statement, 0) { texts.append(String(cString: text)) }
        }
        return texts
    }
}
