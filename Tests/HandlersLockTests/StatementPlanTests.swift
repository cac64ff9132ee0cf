import CSQLite
import Foundation
import Handlers
import Omemo
import PubSub
import PushwakeCommands
import Testing
import Upload
import XMPPAccount
import XMPPModules

/// How SQLite runs each statement that the modules hold, read from their sources.
///
/// No test copies a statement: the literals of the sources are explained as they stand, in a database with all tables.
@Suite struct StatementPlanTests {
    private static let schemas =
        Account.schemas + PubSubEvents.schemas + OmemoService.schemas + UploadModule.schemas + [
            ClientApp.schema
        ]
    /// What people run by hand, and tests, may read all there is.
    private static let folders = [
        "Handlers", "IQTracker", "XMPPAccount", "XMPPModules", "PubSub", "Omemo", "Upload",
        "PushwakeCommands/Client",
    ]

    @Test(
        "H16 no statement of the sources reads a table that grows from end to end, or sorts handlers, requests or the outbox for their first rows"
    )
    func plans() throws {
        let statements = try Self.folders.flatMap(SourceStatement.all)
        #expect(statements.count > 400, "the literals were not found")
        let database = try PlanDatabase(Self.schemas)
        for statement in statements where !Self.isMeant(statement.sql) {
            let plan = try database.plan(of: statement.sql)
            let bad = Self.faults(of: plan, statement.sql)
            #expect(bad.isEmpty, "\(statement.file): \(statement.sql)\n\(plan.joined(separator: "\n"))")
        }
    }

    @Test(
        "H16 a statement without an index is found",
        arguments: [
            "SELECT id FROM handler WHERE bound_at < ?", "DELETE FROM request WHERE peer = ?",
            "SELECT id FROM handler WHERE scope IS ? AND lane = ? AND due IS NOT NULL ORDER BY bound_at LIMIT ?",
            "SELECT seq FROM outbox WHERE account = ? ORDER BY created_at LIMIT 1",
        ])
    func found(sql: String) throws {
        let plan = try PlanDatabase(Self.schemas).plan(of: sql)
        #expect(!Self.faults(of: plan, sql).isEmpty, "\(plan)")
    }

    /// Tables that hold a row or a few, however much there is.
    private static let small = [
        "CONSTANT", "sqlite_schema", "sqlite_master", "sqlite_sequence", "pragma_application_id", "place",
        "identity",
        "live_seat", "dropped_call", "push_removal", "capability",
    ]
    /// Tables in which a program leaves as many rows as it wants; the others are bounded for each contact, room or node.
    private static let large = ["handler", "request", "outbox", "ending", "event"]

    /// The lines of a plan that read all of a table, or sort what they read of a large one to give out its first rows.
    private static func faults(of plan: [String], _ sql: String) -> [String] {
        let words = plan.map { $0.split(separator: " ").map(String.init) }
        // What is made for the statement is read once, and is no table.
        let made = words.filter { ["CO-ROUTINE", "MATERIALIZE"].contains($0.first) }.compactMap {
            $0.dropFirst().first
        }
        let sorts = plan.contains { $0.contains("TEMP B-TREE FOR ORDER BY") } && sql.contains("LIMIT")
        // The first rows in the order of the table or of an index.
        let isPrefix = sql.contains("LIMIT") && !sql.contains("WHERE") && !sorts
        return zip(plan, words).filter { line, words in
            guard words.count > 1 else { return false }
            // A row that is found by its number leaves nothing to sort.
            let isOne = line.hasSuffix("USING INTEGER PRIMARY KEY (rowid=?)")
            if sorts, !isOne, ["SCAN", "SEARCH"].contains(words[0]), large.contains(words[1]) { return true }
            return words[0] == "SCAN" && !isPrefix && !(small + made).contains(words[1])
        }.map(\.0)
    }

    /// How statements begin that may read all of something: what a person or a program asks for now and then.
    private static let meant = [
        // The program looks at its handlers, a page at a time.
        "SELECT DISTINCT name FROM handler ORDER BY name",
        "SELECT id, name, version, arguments, kind, state, bound_at, due, attempts, deaths, reason, size, trace FROM handler",
        // The server has refused a stanza for its size.
        "UPDATE outbox SET refusals = refusals + ?",
        // Looked at every so many events only.
        "DELETE FROM pubsub_seen_item WHERE row IN ( SELECT row FROM ( SELECT row, row_number()",
        // Commands of a person.
        "SELECT a.id, a.jid, o.device, o.identity FROM account a",
        "SELECT count(*) FROM message",
    ]

    private static func isMeant(_ sql: String) -> Bool {
        let words = sql.split { $0.isWhitespace }.joined(separator: " ")
        return meant.contains { words.hasPrefix($0) }
    }
}

/// A statement of a source file.
private struct SourceStatement {
    let file: String
    let sql: String

    /// The statements of a folder of `Sources`. A literal that is put together from parts is there once for each value.
    static func all(in folder: String) throws -> [SourceStatement] {
        let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources/" + folder)
        let files = FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
        var statements: [SourceStatement] = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let code = try String(contentsOf: file, encoding: .utf8)
            let name = file.lastPathComponent
            for literal in literals(in: code)
            where literal.prefixMatch(of: /\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b/) != nil {
                // Several in one are a migration, which runs once.
                if literal.contains(";") { continue }
                statements += try expanded(literal, name, code).map { SourceStatement(file: name, sql: $0) }
            }
        }
        return statements
    }

    /// The string literals of a file; those that `+` joins are one.
    private static func literals(in code: String) -> [String] {
        let literal =
            #/"""\n(?<long>[\s\S]*?)"""|"(?<short>(?:[^"\\\n]|\\.)*)"(?<more>(?:\s*\+\s*"(?:[^"\\\n]|\\.)*")*)/#
        let lines = code.split(separator: "\n", omittingEmptySubsequences: false)
        let statements = lines.map { $0.drop { $0 == " " }.hasPrefix("//") ? "" : String($0) }.joined(
            separator: "\n")
        return statements.matches(of: literal).map { match in
            if let long = match.long { return String(long).replacing("\\\n", with: "") }
            let more = (match.more ?? "").matches(of: #/"((?:[^"\\\n]|\\.)*)"/#).map { String($0.output.1) }
                .joined()
            return String(match.short ?? "") + more
        }
    }

    /// What stands in `\(name)`, where the file has no literal of that name.
    private static let values: [String: [String]] = [
        "RoomTable.swift condition": [
            "jid = ?", "state = ?", "1", "state = 'wanted' AND tried_at IS NULL",
            "((state = 'joined' AND heard_at + ? <= ?) OR (state = 'wanted' AND tried_at + ? <= ?))",
        ],
        "SubscriptionTable.swift rule": ["account = ? AND jid = ?", "account = ? AND jid = ? AND asked"],
        "ContactPresence.swift column": ["jid", "bare"],
        "SeenTable.swift table": ["seen_mark", "seen"],
        "Outbox.swift table": ["room_message", "outbox"],
        "HandlerStatus.swift condition": [
            "id = ?", "due IS NOT NULL ORDER BY due, id LIMIT ?", "id > ? ORDER BY id LIMIT ?",
            "state = ? AND id > ? ORDER BY id LIMIT ?",
            "state <> 0 AND state = ? AND id > ? ORDER BY id LIMIT ?",
        ],
        "Transaction+Due.swift isStillDue": ["due <= ?", "live_due <= ?"],
        "Transaction+Repair.swift condition": [
            "id = ?", "name = ?", "1", "state = 1 AND name = ? AND version = ?",
        ],
        "OmemoSessionTable.swift table": ["omemo_duty", "omemo_device_identity"],
        "OwnDeviceTable.swift column": ["next_prekey", "next_signed_prekey"],
        "OmemoDeviceListTable.swift table": ["omemo_device", "omemo_device_list"],
        "PushTable.swift rest": ["account = ? AND service = ?"],
        "Client.swift condition": ["", "WHERE peer = ?"],
    ]

    /// The named numbers, as the sources write them.
    private static let names: [String: String] = {
        var names: [String: String] = [:]
        for kind in Transaction.Kind.allCases { names["Kind.\(kind).sql"] = kind.sql }
        for state in Transaction.State.allCases {
            names["State.\(state).sql"] = state.sql
            names["State.\(state).condition"] = state.condition
        }
        return names
    }()

    private static func expanded(_ literal: String, _ file: String, _ code: String) throws -> [String] {
        var literal = literal
        for (name, value) in names {
            for name in [name, "Transaction." + name] {
                literal = literal.replacing("\\(\(name))", with: value)
            }
        }
        guard let part = literal.firstMatch(of: #/\\\((?:Self\.)?(\w+)\)/#) else { return [literal] }
        let named = try Regex(
            "let \(part.1)(?:: String)? ?= *\\n? *(?:\"\"\"\\n([\\s\\S]*?)\"\"\"|\"([^\"]*)\")\\n")
        let own = code.firstMatch(of: named).flatMap { ($0[1].substring ?? $0[2].substring).map(String.init) }
        let values = try #require(
            values["\(file) \(part.1)"] ?? own.map { [$0] },
            "say what '\(part.1)' of \(file) can be: \(literal)")
        return try values.flatMap { value in
            try expanded(literal.replacing(String(part.0), with: value), file, code)
        }
    }
}

/// A database with the tables of all modules and nothing in them, which explains statements.
private final class PlanDatabase {
    private var database: OpaquePointer?
    private let folder: URL

    init(_ schemas: [Schema]) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "plans-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appending(path: "all.db").path
        _ = try HandlerStore(path: path, registry: HandlerRegistry(), schemas: schemas)
        try #require(sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK)
    }

    deinit {
        sqlite3_close_v2(database)
        try? FileManager.default.removeItem(at: folder)
    }

    /// The lines of `EXPLAIN QUERY PLAN`. Parameters stay unbound, as SQLite plans without their values.
    func plan(of sql: String) throws -> [String] {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v2(database, "EXPLAIN QUERY PLAN " + sql, -1, &statement, nil)
        defer { sqlite3_finalize(statement) }
        try #require(code == SQLITE_OK, "\(String(cString: sqlite3_errmsg(database))): \(sql)")
        var lines: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            lines.append(String(cString: sqlite3_column_text(statement, 3)))
        }
        return lines
    }
}
