import CSQLite
import Foundation
import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

@testable import Omemo

/// One column of a store after the other, altered: nothing that is stored ends a process, or keeps it for ever.
///
/// `ALTERED_VALUES=all` takes every value for every column, with a server (`make torture`); otherwise two for each column that
/// fit its type, and the account finds no server. `ALTERED_FROM=table.column` leaves out the columns before that one: a long run
/// that was ended goes on there.
@Suite(.ownThread, .timeLimit(.minutes(120)))
struct AlteredStoreTests {
    private static let isWhole = ProcessInfo.processInfo.environment["ALTERED_VALUES"] == "all"

    private static let first = ProcessInfo.processInfo.environment["ALTERED_FROM"]

    /// SQL of what is put into a column.
    private static let values: [String] =
        isWhole
        ? sharp + [
            "-1", "0", "1", "4294967296", "-4611686018427387904", "4611686018427387904", "NULL", "''", "x''",
            "CAST(x'fffe00' AS TEXT)", "zeroblob(250000)", "9e999", "-1e300", "randomblob(300)",
        ] : sharp
    private static let sharp = [
        "-9223372036854775808", "9223372036854775807", "replace(hex(zeroblob(125000)), '0', 'x')",
    ]

    struct Case: Sendable {
        let table: String
        let column: String
        let value: String
        /// As it is, for comparison.
        static let unaltered = Case(table: "place", column: "copies", value: "copies")
        var place: String { "\(table).\(column)" }
        var sql: String { "UPDATE OR REPLACE \"\(table)\" SET \"\(column)\" = \(value)" }
    }

    @Test(
        "X22 no value of any column ends an account's process or keeps it: opened, one step, connecting, closed"
    )
    func accounts() async throws {
        let scene = try ScriptedScene()
        // Each visit leaves a session behind, and each message goes to all that wait to be resumed.
        scene.server.update { $0.resumptionWindow = .seconds(10) }
        let folder = try TemporaryFolder()
        let store = folder.path + "/store.db"
        try await Self.populate(store, scene)
        let all = try Self.cases(store, Self.values)
        #expect(all.count > 500)
        let rest = all.drop { (Self.first ?? $0.place) != $0.place }
        #expect(!rest.isEmpty, "no column is named \(Self.first ?? "")")
        let cases = [Case.unaltered] + rest
        let next = Kept(0)
        let failures = Kept<[String]>([])
        let outcomes = Kept<[String: Int]>([:])
        let authority = scene.authorityFile
        let port = Self.isWhole ? scene.server.directTLSPort : 0
        await withTaskGroup(of: Void.self) { group in
            // Most of a visit is waiting.
            for number in 0..<4 {
                group.addTask {
                    do {
                        let copy = folder.path + "/copy\(number).db"
                        try await onThread {
                            try Self.visit(
                                store, copy, port, authority, cases, next,
                                { outcome in outcomes.withLock { $0[outcome, default: 0] += 1 } },
                                { text in failures.withLock { $0.append(text) } })
                        }
                    } catch {
                        failures.withLock { $0.append("\(error)") }
                    }
                }
            }
        }
        let found = failures.withLock { $0 }
        #expect(found.isEmpty, "\(found.count): \(found.prefix(400).joined(separator: "\n"))")
        // Most columns do no harm: then the account gets as far as the server, which is not there.
        let reached = outcomes.withLock { $0 }
        if Self.isWhole { print("\(cases.count) altered columns: \(reached)") }
        #expect((reached["failed"] ?? 0) + (reached["connected"] ?? 0) > cases.count * 3 / 4, "\(reached)")
        #expect(next.withLock { $0 } >= cases.count)
        await scene.close()
    }

    /// How many cases a child takes, about: a store that is let go closes a little later.
    private static let visitsOfChild = 50

    /// Lets children take case after case; one that dies or stays away too long is named and another one started.
    private static func visit(
        _ store: String, _ copy: String, _ port: UInt16, _ authority: String, _ cases: [Case],
        _ next: Kept<Int>,
        _ outcomes: (String) -> Void, _ report: (String) -> Void
    ) throws {
        var child: ChildProcess?
        defer { child?.killAndWait() }
        while case let index = take(next), index < cases.count {
            if index % visitsOfChild == 0 {
                child?.killAndWait()
                child = nil
            }
            // On a busy machine a child may have had no processor: it counts when it is late again.
            for isLast in [false, true] {
                let running = try child ?? start(store, copy, port, authority)
                child = running
                do {
                    outcomes(try visit(cases[index], running))
                    break
                } catch {
                    running.killAndWait()
                    child = nil
                    if !isLast, (error as? ChildProcessError)?.code == .timedOut { continue }
                    let words = (try? running.errors?.readToEnd(deadline: .now + .seconds(10))) ?? ""
                    report("\(cases[index].sql.prefix(200)): \(error) \(words.prefix(600))")
                    break
                }
            }
        }
    }

    /// - Returns: How far it came.
    private static func visit(_ altered: Case, _ child: ChildProcess) throws -> String {
        try child.write("connect \(altered.sql)\n")
        let begin = try child.output?.readLine(deadline: .now + .seconds(30))
        let end = try child.output?.readLine(deadline: .now + .seconds(30))
        guard begin == "begin", let end, end.hasPrefix("end ") else { throw Ended() }
        if altered.value == Case.unaltered.value {
            #expect(end.contains(isWhole ? "end connected" : "refused the connection"), "\(end)")
        }
        return String(end.dropFirst(4).prefix { $0 != ":" })
    }

    /// A child starts with the store as it was, not with what the last case of the child before left.
    private static func start(_ store: String, _ copy: String, _ port: UInt16, _ authority: String) throws
        -> ChildProcess
    {
        for file in [copy, copy + "-wal", copy + "-shm"] where FileManager.default.fileExists(atPath: file) {
            try FileManager.default.removeItem(atPath: file)
        }
        try FileManager.default.copyItem(atPath: store, toPath: copy)
        return try ChildProcess(
            BuiltProduct.path("omemo-device"), ["altered", copy, String(port), authority], input: .pipe,
            output: .pipe, errors: .pipe)
    }

    struct Ended: Error {}

    private static func take(_ next: Kept<Int>) -> Int {
        next.withLock { next in
            defer { next += 1 }
            if isWhole, next % 500 == 0 { print("\(next) altered columns begun") }
            return next
        }
    }

    // MARK: inspect

    private static let inspected = [
        "account", "session", "ownership", "request", "outbox", "handler", "connected_clock", "ending",
        "event",
        "deferred", "dropped_call", "module_schema", "place",
    ]

    @Test(
        "X22 no value of any column ends inspect, as text and as JSON, or takes ten seconds of processor time"
    )
    func inspect() async throws {
        let scene = try ScriptedScene()
        let folder = try TemporaryFolder()
        let store = folder.path + "/store.db"
        try await Self.populate(store, scene)
        await scene.close()
        let cases = try Self.cases(store, Self.values).filter { Self.inspected.contains($0.table) }
        #expect(cases.count > 100)
        let next = Kept(0)
        let failures = Kept<[String]>([])
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<2 {
                group.addTask {
                    do {
                        try await onThread {
                            while case let index = Self.take(next), index < cases.count {
                                let copy = folder.path + "/copy\(number).db"
                                _ = unlink(copy)
                                try FileManager.default.copyItem(atPath: store, toPath: copy)
                                try Self.alter(copy, cases[index].sql)
                                for words in [[], ["--json"]] {
                                    if let failure = Self.inspect(copy, words) {
                                        failures.withLock {
                                            $0.append("\(cases[index].sql) \(words): \(failure)")
                                        }
                                    }
                                }
                            }
                        }
                    } catch {
                        failures.withLock { $0.append("\(error)") }
                    }
                }
            }
        }
        let found = failures.withLock { $0 }
        #expect(found.isEmpty, "\(found.map { $0.prefix(800) }.joined(separator: "\n"))")
    }

    /// - Returns: What is wrong with how `inspect` ended; nil where nothing is.
    private static func inspect(_ store: String, _ words: [String]) -> String? {
        do {
            let ending = try ProgramEnding(
                of: "pushwake", ["inspect", "--store", store] + words, environment: ["COLUMNS": "40"])
            let isReadable = ending.status == 0 || ending.status == 1
            return isReadable && ending.processorTime < .seconds(10) ? nil : "\(ending)"
        } catch {
            return "\(error)"
        }
    }

    // MARK: The store

    /// A store that an account used, and a row in each table that stayed empty.
    private static func populate(_ path: String, _ scene: ScriptedScene) async throws {
        let romeo = try await scene.device(ScriptedScene.romeo)
        _ = try await scene.device(ScriptedScene.juliet)
        try await romeo.account.caughtUp()
        await romeo.account.close()
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: romeo.store.filePath + suffix)
        {
            try FileManager.default.copyItem(atPath: romeo.store.filePath + suffix, toPath: path + suffix)
        }
        do {
            // What PubSub and the program keep.
            _ = try HandlerStore(
                path: path, registry: HandlerRegistry(),
                schemas: Account.schemas + PubSubEvents.schemas + OmemoService.schemas)
        }
        try alter(path, "PRAGMA wal_checkpoint(TRUNCATE)")
        for table in try rows(
            path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        {
            guard try rows(path, "SELECT 1 FROM \"\(table)\" LIMIT 1").isEmpty else { continue }
            let columns = try rows(path, "SELECT name || ' ' || type FROM pragma_table_info('\(table)')")
            let bound = try rows(
                path, "SELECT \"from\" FROM pragma_foreign_key_list('\(table)') WHERE \"table\" = 'handler'")
            let values = try columns.map { column in
                let words = column.split(separator: " ").map(String.init)
                if bound.contains(words[0]) { return try ownHandler(path) }
                return words[1] == "INTEGER"
                    ? "1" : words[1] == "BLOB" ? "CAST('{}' AS BLOB)" : "'juliet@localhost'"
            }
            try alter(path, "INSERT INTO \"\(table)\" VALUES (\(values.joined(separator: ", ")))")
        }
    }

    /// The id of a new handler: a row that shares its handler with another table keeps it from being removed.
    private static func ownHandler(_ path: String) throws -> String {
        try alter(
            path,
            """
            INSERT INTO handler(name, version, arguments, kind, bound_at)
            VALUES ('device.woken', 1, CAST('{}' AS BLOB), 0, 1)
            """)
        return try #require(try rows(path, "SELECT max(id) FROM handler").first)
    }

    private static func cases(_ path: String, _ values: [String]) throws -> [Case] {
        let columns = try rows(
            path,
            """
            SELECT t.name || ' ' || c.name || ' ' || c.type
            FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
            WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_stat%' ORDER BY t.name, c.cid
            """)
        return columns.flatMap { column in
            let words = column.split(separator: " ").map(String.init)
            let fitting =
                isWhole ? values : words.last == "INTEGER" ? Array(values.prefix(2)) : Array(values.suffix(2))
            return fitting.map { Case(table: words[0], column: words[1], value: $0) }
        }
    }

    private static func alter(_ path: String, _ sql: String) throws { _ = try rows(path, sql) }

    /// The first column of each row, by a connection that checks nothing.
    private static func rows(_ path: String, _ sql: String) throws -> [String] {
        var database: OpaquePointer?
        defer { sqlite3_close(database) }
        try #require(sqlite3_open(path, &database) == SQLITE_OK)
        sqlite3_exec(database, "PRAGMA ignore_check_constraints = ON", nil, nil, nil)
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        try #require(sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK, "\(sql)")
        var found: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            found.append(sqlite3_column_text(statement, 0).map { String(cString: $0) } ?? "")
        }
        return found
    }
}
