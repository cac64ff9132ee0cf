import CSQLite
import Foundation
import Handlers
import Testing

/// A database with the tables of all modules and nothing in them, which explains statements.
final class PlanDatabase {
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

    /// The statements that make the tables and indices, in the order in which they were made.
    func schema() throws -> [String] {
        try rows(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY rowid",
            column: 0)
    }

    /// The lines of `EXPLAIN QUERY PLAN`. Parameters stay unbound, as SQLite plans without their values.
    func plan(of sql: String) throws -> [String] {
        try rows("EXPLAIN QUERY PLAN " + sql, column: 3)
    }

    /// The columns of a table that name a row of another one.
    struct Reference {
        let table: String
        let columns: [String]
        let parent: String
    }

    /// Each foreign key of the tables.
    func references() throws -> [Reference] {
        try rows(
            """
            SELECT m.name || ' ' || k."table" || ' ' || group_concat(k."from", ' ')
            FROM sqlite_schema m, pragma_foreign_key_list(m.name) k WHERE m.type = 'table' GROUP BY m.name, k.id
            """, column: 0
        ).map { row in
            let words = row.split(separator: " ").map(String.init)
            return Reference(table: words[0], columns: Array(words[2...]), parent: words[1])
        }
    }

    private func rows(_ sql: String, column: Int32) throws -> [String] {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v2(database, sql, -1, &statement, nil)
        defer { sqlite3_finalize(statement) }
        try #require(code == SQLITE_OK, "\(String(cString: sqlite3_errmsg(database))): \(sql)")
        var rows: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            rows.append(String(cString: sqlite3_column_text(statement, column)))
        }
        return rows
    }
}
