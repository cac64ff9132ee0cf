import Handlers
import Synchronization
import TestServers

@testable import HandlersPostgres

/// A database with roles of its own: one that owns the schema of a store and nothing else, and one that may only connect.
final class RoleScene: Sendable {
    let database: TestDatabase
    let owner: String
    let guest: String

    init(on server: PostgresServer? = nil) throws {
        database = try (server ?? PostgresServer.shared).makeDatabase()
        owner = "owner_of_\(database.name)"
        guest = "guest_of_\(database.name)"
        try database.query(
            "CREATE ROLE \(owner) LOGIN; CREATE ROLE \(guest) LOGIN; CREATE SCHEMA AUTHORIZATION \(owner)")
    }

    deinit {
        for role in [guest, owner] {
            _ = try? database.query("DROP OWNED BY \(role) CASCADE")
            _ = try? database.query("DROP ROLE \(role)")
        }
    }

    /// The connection string of a role.
    func settings(_ role: String) -> String { database.connection() + " user=\(role)" }

    /// Opens a store as the owner of the schema.
    func open(_ schemas: [Schema] = [notes], log: HandlerLog? = nil) throws -> HandlerStore {
        try HandlerStore(
            PostgresSettings(settings(owner), durability: .onPrimary),
            registry: HandlerRegistry([Note.self, Remark.self]), schemas: schemas, role: .main,
            time: .system,
            log: log)
    }

    /// Connects as the role that may only connect.
    func connectGuest(_ more: String = "") throws -> PostgresConnection {
        let connection = PostgresConnection(
            try PostgresSettings(settings(guest) + more, durability: nil), isReader: false)
        _ = try connection.connected()
        return connection
    }

    /// Runs SQL as the role that may only connect.
    func queryAsGuest(_ sql: String) throws {
        try database.server.query("SET SESSION AUTHORIZATION \(guest); \(sql)", in: database.name)
    }
}

/// What a store has logged.
final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    /// The log that fills it, with entries from warnings on.
    var log: HandlerLog {
        HandlerLog { [self] entry in
            guard entry.level >= .warning else { return }
            lines.withLock { $0.append(entry.message) }
        }
    }

    /// The entries with a text.
    func with(_ text: String) -> [String] { lines.withLock { $0.filter { $0.contains(text) } } }
}
