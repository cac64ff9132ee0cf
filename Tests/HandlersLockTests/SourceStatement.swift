import Foundation
import Handlers
import Testing
import XMPPAccount
import XMPPModules

/// A statement of a source file.
struct SourceStatement {
    let file: String
    let sql: String

    /// The statements of a folder of `Sources`. A literal that is put together from parts is there once for each value.
    static func all(in folder: String) throws -> [SourceStatement] {
        try literals(in: folder, beginning: #/\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b/#).flatMap { literal in
            try expanded(literal.sql, literal.file, literal.code).map {
                SourceStatement(file: literal.file, sql: $0)
            }
        }
    }

    /// The statements of a folder of `Sources` that steer the engine or make a table, as the literals stand.
    static func control(in folder: String) throws -> [SourceStatement] {
        let words =
            #/\s*(ALTER|ANALYZE|ATTACH|BEGIN|COMMIT|CREATE|DETACH|DROP|END|EXPLAIN|PRAGMA|REINDEX|RELEASE|REPLACE|ROLLBACK|SAVEPOINT|VACUUM)\b/#
        return try literals(in: folder, beginning: words).map { SourceStatement(file: $0.file, sql: $0.sql) }
    }

    /// The statements of a folder as the literals stand, with the names of numbers.
    static func written(in folder: String) throws -> [SourceStatement] {
        try literals(in: folder, beginning: #/\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b/#).map {
            SourceStatement(file: $0.file, sql: $0.sql)
        }
    }

    /// Files whose statements read the catalog of SQLite, and tables that the libraries do not know; `MovedServer` does the same for
    /// PostgreSQL.
    private static let catalogReaders = ["MovedFile.swift"]

    /// The literals of a folder that start like a statement, each with its file and the code of that file.
    private static func literals(
        in folder: String, beginning words: Regex<(Substring, Substring)>
    ) throws -> [(file: String, sql: String, code: String)] {
        let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources/" + folder)
        let files = FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
        var found: [(file: String, sql: String, code: String)] = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift", !catalogReaders.contains(file.lastPathComponent) else {
                continue
            }
            let code = try String(contentsOf: file, encoding: .utf8)
            // Several statements in one literal are a migration, which runs once.
            for literal in literals(in: code) where !literal.contains(";") {
                guard literal.prefixMatch(of: words) != nil else { continue }
                found.append((file.lastPathComponent, literal, code))
            }
        }
        return found
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

    private static let openWaits =
        "SELECT waiter FROM journal WHERE handler = ? AND value IS NULL AND error IS NULL"

    /// The handlers that a runner is to invalidate.
    private static let invalidated =
        ["id = ?"]
        + [
            "SELECT handler FROM join_child WHERE parent = ?",
            openWaits, "SELECT handler FROM join_child WHERE parent IN (\(openWaits))",
            "SELECT CAST(? AS BIGINT)",
        ].flatMap {
            ["id IN (\($0)) AND \(Chains.isOver)", "id IN (\($0)) AND call IS DISTINCT FROM ?"]
        }

    /// What stands in `\(name)`, where the file has no literal of that name.
    private static let values: [String: [String]] = [
        "RoomTable.swift condition": [
            "jid = ?", "state = ?", "1 = 1", "state = 'wanted' AND tried_at IS NULL",
            "((state = 'joined' AND heard_at + ? <= ?) OR (state = 'wanted' AND tried_at + ? <= ?))",
        ],
        "RoomTable+Forms.swift table": ["room_message", "occupant"],
        "SubscriptionTable.swift rule": [
            "account = ? AND jid = ?", "account = ? AND jid = ? AND asked <> 0",
        ],
        "ContactPresence.swift column": ["jid", "bare"],
        "SeenTable.swift table": ["seen_mark", "seen"],
        "Outbox.swift rows": ["row FROM room_message", "seq FROM outbox"],
        "Ending.swift condition": [
            "handler = ?", "ending_detail.key = ? ORDER BY ending_detail.handler DESC LIMIT 1",
        ],
        "HandlerStatus.swift condition": ["", "state = 0 AND ", "state <> 0 AND state = 2 AND "].map {
            $0 + """
                id > ? AND name = coalesce(?, name) AND coalesce(trace, id) = coalesce(?, trace, id) ORDER BY id LIMIT ?
                """
        } + ["id = ?", "id = (SELECT handler FROM handler_key WHERE key = ?)"],
        "HandlerTable.swift orElse": ["NULL", "or_else"],
        "HandlerTable.swift culprit": ["NULL", "culprit"],
        "HandlerTable.swift state": ["NULL", "state"],
        "HandlerTable.swift reason": ["NULL", "reason"],
        "Journals.swift openWaits": [openWaits],
        "HandlerTable.swift condition": [
            "", " AND kind = \(Transaction.Kind.once.sql) AND state = \(Transaction.State.pending.sql)",
            " AND kind = \(Transaction.Kind.once.sql) AND state <> \(Transaction.State.leased.sql)",
            " AND kind = \(Transaction.Kind.standing.sql)",
        ],
        "Invalidations.swift condition": invalidated,
        "Journals.swift workflows": ["?"]
            + invalidated.map { "SELECT id FROM handler WHERE \($0)" },
        "DueRows.swift isStillDue": ["due <= ?", "connected_due <= ?"],
        "Repairs.swift condition": [
            "id = ?", "name = ?", "1 = 1", "state = 1 AND name = ? AND version = ?",
        ],
        "OmemoSessionTable.swift table": ["omemo_duty", "omemo_device_identity"],
        "OwnDeviceTable.swift column": ["next_prekey", "next_signed_prekey"],
        "OmemoDeviceListTable.swift table": ["omemo_device", "omemo_device_list"],
        "PushTable.swift rest": ["account = ? AND service = ?"],
        "ClientApp.swift condition": [
            "peer = ?", "peer NOT IN (SELECT peer FROM watched WHERE CAST(process AS TEXT) <> ?)",
        ],
    ]

    /// The named numbers, as the sources write them.
    private static let names: [String: String] = {
        var names: [String: String] = [:]
        func add<State: StoredState>(_ type: State.Type, as name: String) {
            for state in (0..<16).compactMap(State.init(rawValue:)) {
                names["\(name).\(state).sql"] = state.sql
            }
        }
        add(Transaction.Kind.self, as: "Kind")
        add(Transaction.State.self, as: "State")
        add(LaneState.self, as: "LaneState")
        add(Outbox.Kind.self, as: "Kind")
        add(ArchiveTable.State.self, as: "State")
        add(PushTable.Answer.self, as: "Answer")
        for state in Transaction.State.allCases { names["State.\(state).condition"] = state.condition }
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
