import Foundation
import Handlers
import Omemo
import PubSub
import TestThreads
import Testing
import Upload
import XMPPAccount
import XMPPModules

/// Whether one text of each statement serves SQLite and PostgreSQL, so that no table brings a second dialect.
@Suite(.ownThread) struct CommonTextTests {
    private static let schemas =
        Account.schemas + PubSubEvents.schemas + OmemoService.schemas + UploadModule.schemas
    private static let folders = [
        "Handlers", "IQTracker", "XMPPAccount", "XMPPModules", "PubSub", "Omemo", "Upload",
    ]

    /// Statements that only SQLite takes, by the reason: each engine has its own, behind one Swift function.
    private static let exceptions: [(reason: String, texts: [String])] = [
        (
            "settings and marks of the file",
            [
                "PRAGMA journal_mode = WAL", "PRAGMA synchronous = EXTRA",
                #"PRAGMA synchronous = \(Self.durability(synchronous))"#,
                "PRAGMA foreign_keys = ON", "PRAGMA cache_size = -2048",
                "PRAGMA page_size", #"PRAGMA cache_size = -\(SQLiteConnection.readerCacheSize)"#,
                #"PRAGMA journal_size_limit = \(Self.logLimit)"#,
                "PRAGMA application_id", #"PRAGMA application_id = \(SQLiteConnection.applicationID)"#,
                "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id",
            ]
        ),
        (
            "control of transactions, which PostgreSQL does not prepare",
            [
                "BEGIN IMMEDIATE", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT handler", "RELEASE handler",
                "ROLLBACK TO handler",
            ]
        ),
        (
            "which tables there are",
            [
                "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?",
                "SELECT count(*) FROM sqlite_schema",
            ]
        ),
        (
            "the newest number that a table has given out",
            [
                "SELECT seq FROM sqlite_sequence WHERE name = ?"
            ]
        ),
        (
            "a table, which PostgreSQL makes from the text of SQLite like those of the migrations",
            [
                "CREATE TABLE IF NOT EXISTS module_schema(module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID"
            ]
        ),
    ]

    /// Statements that SQLite takes and PostgreSQL does not, which show that the test can fail.
    private static let dialect = [
        "INSERT OR IGNORE INTO account(jid) VALUES (?)",
        "INSERT OR REPLACE INTO room_watch(account, handler, due) VALUES (?, ?, ?)",
        "SELECT ifnull(due, 0) FROM handler WHERE id = ?",
        "SELECT id FROM handler WHERE scope IS ?",
        "SELECT max(due, ?) FROM handler",
        "SELECT rowid FROM outbox",
        "SELECT 1 FROM own_presence WHERE late",
        "INSERT INTO dropped_call(name, calls, bytes, last_at) VALUES (?, 1, 1, 1) ON CONFLICT(name) DO UPDATE SET calls = calls + 1",
    ]

    @Test("S17 SQLite and PostgreSQL prepare every statement of the libraries in one text")
    func prepares() throws {
        let statements = try Self.folders.flatMap(SourceStatement.all)
        #expect(statements.count > 400, "the literals were not found")
        let own = Set(Self.exceptions.flatMap(\.texts))
        let database = try PlanDatabase(Self.schemas)
        for statement in statements {
            #expect(
                throws: Never.self, "SQLite: \(statement.file): \(statement.sql)",
                performing: { _ = try database.plan(of: statement.sql) })
            // Prepared on both, but PostgreSQL refuses to run it.
            #expect(!statement.sql.contains("LIMIT -"), "\(statement.file): \(statement.sql)")
        }

        let texts = statements.map(\.sql) + Self.dialect
        let outcome = try PostgresCluster().prepare(
            texts.map(Self.numbered), schema: database.schema().map(Self.translated))
        for (index, text) in texts.enumerated() {
            let error = outcome.errors[index]
            if Self.dialect.contains(text) || own.contains(text) {
                #expect(error != nil, "PostgreSQL prepares it, too: \(text)")
            } else {
                #expect(error == nil, "PostgreSQL: \(statements[index].file): \(text)")
            }
        }
        #expect(outcome.prepared == texts.count - outcome.errors.count)
    }

    @Test("S17 each statement that only SQLite takes is listed with its reason, and no other one")
    func exceptions() throws {
        let own = Self.exceptions.flatMap(\.texts)
        let control = try Self.folders.flatMap(SourceStatement.control)
        for statement in control {
            #expect(own.contains(statement.sql), "\(statement.file): say why it stays: \(statement.sql)")
        }
        let found = try Set((Self.folders.flatMap(SourceStatement.all) + control).map(\.sql))
        #expect(own.filter { !found.contains($0) } == [], "remove the exceptions that no source has any more")
    }

    @Test(
        "S17 parameters get the numbers that SQLite gives them",
        arguments: [
            ("a = ? AND b = ?", "a = $1 AND b = $2"), ("a = ?2 AND b = ?1", "a = $2 AND b = $1"),
            ("a = ?3 AND b = ?", "a = $3 AND b = $4"), ("a = ?12", "a = $12"),
            ("a = '?' AND b = ? || '''?'", "a = '?' AND b = $1 || '''?'"),
            ("a = ? -- of b?\nAND c = ?", "a = $1 -- of b?\nAND c = $2"),
        ])
    func numbering(sqlite: String, postgres: String) {
        #expect(Self.numbered(sqlite) == postgres)
    }

    /// The text with `$1` in place of `?` and `?1`, outside of literals and comments.
    private static func numbered(_ sql: String) -> String {
        var highest = 0
        return sql.replacing(#/'[^']*'|--[^\n]*|\?(?<number>\d*)/#) { match in
            guard let digits = match.number else { return String(match.output.0) }
            let number = Int(digits) ?? highest + 1
            highest = max(highest, number)
            return "$\(number)"
        }
    }

    /// The four replacements that make a table's text one of PostgreSQL.
    private static func translated(_ sql: String) -> String {
        sql.replacing(#/\bINTEGER\b/#, with: "BIGINT").replacing(#/\bBLOB\b/#, with: "BYTEA")
            .replacing(#/\bAUTOINCREMENT\b/#, with: "GENERATED BY DEFAULT AS IDENTITY")
            .replacing(#/\bWITHOUT ROWID\b/#, with: "")
    }
}
