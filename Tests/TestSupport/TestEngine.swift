import Foundation
package import Handlers
import HandlersPostgres
import Synchronization
import TestServers
import TestThreads
package import Testing

/// The engine on which these tests run. ``TestEngine/Kind/sqlite`` if the environment variable `HANDLERS_TEST_ENGINE` names no other one.
///
/// With PostgreSQL each path stands for a database of the server that the tests share; child processes find it by a file there.
package enum TestEngine {
    /// An engine of stores, by its name in the environment.
    package enum Kind: String, Sendable {
        case sqlite, postgres
        /// PostgreSQL, where each step runs twice, which may change nothing that is stored.
        case postgresTwice = "postgres-twice"
    }

    private static let kind: Kind = {
        let name = ProcessInfo.processInfo.environment["HANDLERS_TEST_ENGINE"] ?? Kind.sqlite.rawValue
        guard let kind = Kind(rawValue: name) else {
            fatalError("HANDLERS_TEST_ENGINE is '\(name)': say sqlite, postgres or postgres-twice.")
        }
        return kind
    }()
    package static let isPostgres = kind != .sqlite
    /// Whether each step runs twice.
    package static let runsTwice = kind == .postgresTwice

    /// At full scale each suite that names PostgreSQL also runs with each step twice.
    fileprivate static func isAmong(_ kinds: [Kind]) -> Bool {
        kinds.contains(kind) || kind == .postgresTwice && TestScale.isFull && kinds.contains(.postgres)
    }

    private static let databases = Mutex<[String: TestDatabase]>([:])

    /// Opens the store of a test.
    package static func open(
        _ path: String, registry: HandlerRegistry, schemas: [Schema], role: HandlerStore.Role = .main,
        synchronous: HandlerStore.Synchronous = .normal, busyTimeout: Duration = .seconds(5),
        time: TimeSource,
        log: HandlerLog? = nil
    ) throws -> HandlerStore {
        guard isPostgres else {
            return try HandlerStore(
                path: path, registry: registry, schemas: schemas, role: role, synchronous: synchronous,
                busyTimeout: busyTimeout, time: time, log: log)
        }
        return try HandlerStore(
            PostgresSettings(connection(path), durability: nil, runsTwice: runsTwice),
            registry: registry, schemas: schemas, role: role, time: time, log: log)
    }

    private static func connection(_ path: String) throws -> String {
        let file = path + ".postgres"
        if let known = try? String(contentsOfFile: file, encoding: .utf8) { return known }
        let new = try database(path).connection()
        try new.write(toFile: file, atomically: true, encoding: .utf8)
        return new
    }

    /// A database with the tables of handlers, which a copy has at once.
    private static let template = Result { () throws -> TestDatabase in
        let database = try PostgresServer.shared.makeDatabase()
        _ = try HandlerStore(
            PostgresSettings(database.connection(), durability: nil), registry: HandlerRegistry(),
            schemas: [], role: .main, time: .system, log: nil)
        return database
    }

    private static func database(_ path: String) throws -> TestDatabase {
        try databases.withLock { databases in
            if let known = databases[path] { return known }
            let new = try PostgresServer.shared.makeDatabase(from: template.get().name)
            databases[path] = new
            return new
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Runs the tests of a suite on each of these engines, in a run of its own; a suite without this trait runs on SQLite alone.
    ///
    /// `scripts/test.py` reads the engines from the source, and fails when a test did not run on one of them.
    package static func engines(_ kinds: TestEngine.Kind...) -> Self {
        .enabled(if: TestEngine.isAmong(kinds), "its suite is not about this engine")
    }
}

extension Trait where Self == ConditionTrait {
    /// A test of files, of SQLite's own statements, or of programs that open a file.
    package static var sqliteOnly: Self { .disabled(if: TestEngine.isPostgres, "it is about files") }
}

extension Trait where Self == ConditionTrait {
    /// A test with handlers that do something in memory, which happens twice where a step runs twice, or with expectations inside of
    /// steps.
    package static var effectsInMemory: Self {
        .disabled(if: TestEngine.isPostgres, "it has effects in memory")
    }
}

extension Trait where Self == ConditionTrait {
    /// A test that counts in memory what runs in steps, or that knows the ids of rows: where each step runs twice, both are twice
    /// as many.
    package static var countsInMemory: Self {
        .disabled(if: TestEngine.runsTwice, "it counts what each step does twice here")
    }
}
