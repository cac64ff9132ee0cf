@testable import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Roles that have the rights of the page about PostgreSQL, and nothing else.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct GrantTests {
    /// A database whose owner is a role of its own, with the rights of a program.
    private func withDatabase(
        _ body: (_ database: TestDatabase, _ settings: (_ role: String) -> String) throws -> Void
    ) throws {
        let database = try PostgresServer.shared.makeDatabase()
        let name = database.name
        try database.query("CREATE ROLE \(name) LOGIN")
        defer {
            for role in ["\(name)_worker", "\(name)_backup", name] {
                _ = try? database.query("DROP OWNED BY \(role) CASCADE; DROP ROLE \(role)")
            }
        }
        let rights = try GrantedRights.statements("program", for: name)
        try #require(rights.contains("CREATE SCHEMA"))
        try database.query(rights)
        try body(database) { database.connection() + " user=\($0)" }
    }

    private func open(_ settings: String) throws -> HandlerStore {
        try openStore(PostgresSettings(settings, durability: .onPrimary))
    }

    /// Does with a store what programs do: all kinds of statements, the death of another node, notifications.
    private func use(_ store: HandlerStore, _ database: TestDatabase) throws {
        let before = try store.texts().count
        let runner = try HandlerRunner(store)
        try runner.start()
        defer { runner.close() }
        let id = try store.step { step in
            _ = try step.schedule(Remark(text: "due").durable, after: .zero)
            return try step.bind(Note(text: "bound").durable)
        }
        _ = try store.step { try $0.end(id, .result, with: 1) }
        #expect(try becomesTrue(before: .now + .seconds(20)) { try store.texts().count == before + 2 })
        let schema = database.name
        try database.query(
            """
            INSERT INTO \(schema).node(id, is_sharing) VALUES (1000, 0);
            INSERT INTO \(schema).node_lease(node, until, is_dead) VALUES (1000, 0, 1)
            """)
        let isRecovered = try becomesTrue(before: .now + .seconds(20)) {
            try database.query("SELECT count(*) FROM \(schema).node WHERE id = 1000") == "0"
        }
        #expect(isRecovered)
        store.notifyOthers()
    }

    @Test("G8 a program with the rights of the page, and no others, makes its tables and works on them")
    func program() throws {
        try withDatabase { database, settings in
            let (store, other) = (try open(settings(database.name)), try open(settings(database.name)))
            try use(store, database)
            #expect(becomesTrue(before: .now + .seconds(20)) { other.notificationsByOthers > 0 })
            #expect(
                try database.query(
                    "SELECT bool_and(tableowner = '\(database.name)') FROM pg_tables WHERE schemaname = '\(database.name)'"
                ) == "t")
        }
    }

    @Test(
        "G8 a program with the rights of the page for tables of another one works on them, and cannot change them"
    )
    func worker() throws {
        try withDatabase { database, settings in
            do { _ = try open(settings(database.name)) }
            try database.query(try GrantedRights.statements("worker", for: database.name))
            let store = try open(settings("\(database.name)_worker"))
            try use(store, database)
            let newer = Schema(module: "notes", migrations: notes.migrations + ["CREATE TABLE more(a TEXT)"])
            let refusal = failure {
                _ = try openStore(
                    PostgresSettings(settings("\(database.name)_worker"), durability: .onPrimary),
                    schemas: [newer])
            }
            #expect(refusal?.code == .databaseReadOnly, "\(refusal as Any)")
            #expect(code { try store.step { _ = try $0.execute("DROP TABLE note") } } == .databaseReadOnly)
        }
    }

    @Test("G8 a role without rights of its own cannot even connect to such a database")
    func nobody() throws {
        try withDatabase { database, settings in
            try database.query("CREATE ROLE \(database.name)_worker LOGIN")
            let refusal = failure { _ = try open(settings("\(database.name)_worker")) }
            #expect(refusal?.code == .databaseUnavailable)
            #expect(refusal?.message.contains("CONNECT privilege") == true, "\(refusal as Any)")
        }
    }

    @Test("G8 a role with the rights of the page for backups copies the cluster, and reads no table")
    func backup() throws {
        try withDatabase { database, settings in
            do { _ = try open(settings(database.name)) }
            try database.query(try GrantedRights.statements("backup", for: database.name))
            let role = "\(database.name)_backup"
            #expect(try database.server.backUp(as: role).contains("PG_VERSION"))
            #expect(failure { _ = try open(settings(role)) }?.code == .databaseUnavailable)
        }
    }
}
