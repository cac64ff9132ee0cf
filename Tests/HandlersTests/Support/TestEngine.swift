import Foundation
import Handlers
import HandlersPostgres
import Synchronization
import TestServers

/// The engine on which these tests run: SQLite, or PostgreSQL when the environment variable `HANDLERS_TEST_ENGINE` is `postgres`.
///
/// With PostgreSQL each path stands for a database of the server that the tests share.
enum TestEngine {
    static let isPostgres = ProcessInfo.processInfo.environment["HANDLERS_TEST_ENGINE"] == "postgres"
    private static let databases = Mutex<[String: PostgresDatabase]>([:])

    /// Opens the store of a test.
    static func open(
        _ path: String, registry: HandlerRegistry, schemas: [Schema], role: HandlerStore.Role = .main,
        synchronous: HandlerStore.Synchronous = .normal, busyTimeout: Int = 5000, time: TimeSource,
        log: HandlerLog? = nil
    ) throws -> HandlerStore {
        guard isPostgres else {
            return try HandlerStore(
                path: path, registry: registry, schemas: schemas, role: role, synchronous: synchronous,
                busyTimeout: busyTimeout, time: time, log: log)
        }
        return try HandlerStore(
            postgres: database(path).connection(), registry: registry, schemas: schemas, role: role,
            durability: nil, time: time, log: log, system: SystemServices())
    }

    private static func database(_ path: String) throws -> PostgresDatabase {
        try databases.withLock { databases in
            if let known = databases[path] { return known }
            let new = try PostgresServer.shared.makeDatabase()
            databases[path] = new
            return new
        }
    }
}
