import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Looking into a store on PostgreSQL without having a part in it.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct PostgresReaderTests {
    private func texts(_ settings: String) throws -> [String] {
        try StoreReader(postgres: settings, schemas: [notes]).read { snapshot in
            try snapshot.all("SELECT text FROM note ORDER BY id") { $0.text(0) }
        }
    }

    private func error(_ settings: String, _ schemas: [Schema] = []) -> HandlerError? {
        do {
            try StoreReader(postgres: settings, schemas: schemas).read { _ in }
            return nil
        } catch { return error as? HandlerError }
    }

    private func nodes(_ settings: String) throws -> [StoreProcess] {
        let reader = try StoreReader(postgres: settings)
        return try reader.read { try reader.processes(in: $0) }
    }

    @Test(
        "G8 a store inside a step is read as it was committed last, without waiting and without being a node")
    func besideAStep() throws {
        try withStore { store, database in
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
            try store.step { step in
                // Sent and answered: its locks are held now.
                try step.execute("INSERT INTO note(text) VALUES ('two')")
                #expect(try texts(database.connection()) == ["one"])
            }
            #expect(try texts(database.connection()) == ["one", "two"])
            #expect(try database.query("SELECT count(*) FROM node") == "1")
        }
    }

    @Test("G8 a reader cannot write, not even through a function")
    func readsOnly() throws {
        try withStore { store, database in
            let reader = try StoreReader(postgres: database.connection())
            for (sql, expected) in [
                ("DELETE FROM note RETURNING text", ErrorCode<HandlerError>.sql),
                ("SELECT setval('note_id_seq', 7)", .databaseReadOnly),
            ] {
                let found = code { try reader.read { _ = try $0.all(sql) { $0.isNull(0) } } }
                #expect(found == expected, "\(sql)")
            }
            withExtendedLifetime(store) {}
        }
    }

    @Test("G8 a database without a store, a newer and an older store are refused, and nothing is made")
    func refused() throws {
        let database = try PostgresServer.shared.makeDatabase()
        #expect(error(database.connection())?.code == .databaseForeign)
        #expect(try database.query("SELECT to_regclass('module_schema') IS NULL") == "t")
        let store = try openStore(database)
        let newer = Schema(module: "notes", migrations: notes.migrations + ["SELECT 1"])
        #expect(error(database.connection(), [newer])?.code == .databaseOlder)
        #expect(
            error(database.connection(), [Schema(module: "notes", migrations: [])])?.code == .databaseNewer)
        #expect(error(database.connection(), [notes]) == nil)
        #expect(error(database.server.connection(to: "nowhere"))?.code == .databaseUnavailable)
        withExtendedLifetime(store) {}
    }

    @Test("G8 a standby is read, also after its primary has died")
    func standby() throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        defer {
            standby.close()
            server.close()
        }
        let database = try server.makeDatabase()
        let store = try openStore(database)
        try store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
        let settings = standby.connection(to: database.name)
        // It has the commit on its disk, and replays it a little later.
        let isThere = becomesTrue(before: .now + .seconds(40)) { (try? texts(settings)) == ["one"] }
        try #require(isThere)
        let isAlive = try becomesTrue(before: .now + .seconds(40)) {
            try nodes(settings).map(\.life) == [.alive]
        }
        #expect(isAlive)
        #expect(try nodes(settings).map(\.slot) == [store.slotNumber])
        server.kill()
        #expect(try texts(settings) == ["one"])
    }

    @Test("G6 a read of a store refuses a standby, which may be behind, and goes on once that is promoted")
    func standbyOfStore() throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        defer {
            standby.close()
            server.close()
        }
        let database = try server.makeDatabase()
        let line = try LoopbackProxy(to: server.port)
        var settings = try PostgresSettings(
            database.connection(over: .tcp) + " port=\(line.port)", durability: .onPrimary)
        settings.outageLimit = .seconds(1)
        let store = try openStore(settings)
        try store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
        #expect(try store.texts() == ["one"])
        line.lead(to: standby.port)
        line.cut()
        // The connection that it had is lost; the next one leads to the standby.
        let isRefused = becomesTrue(before: .now + .seconds(40)) {
            code { _ = try store.texts() } == .databaseReadOnly
        }
        #expect(isRefused)
        server.kill()
        try standby.promote()
        #expect(try store.texts() == ["one"])
    }

    @Test("G8 a role that only reads, and has a schema of its own, sees that a node lives, and where")
    func readingRole() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let role = "reader_of_\(database.name)"
        let store = try openStore(
            PostgresSettings(
                database.connection(over: .tcp) + " application_name=bots", durability: .onPrimary))
        try database.query(
            "CREATE ROLE \(role) LOGIN; CREATE SCHEMA AUTHORIZATION \(role); GRANT SELECT ON ALL TABLES IN SCHEMA public TO \(role)"
        )
        let found = try nodes(database.connection() + " user=\(role)")
        #expect(found.map(\.life) == [.alive] && found.map(\.slot) == [store.slotNumber])
        #expect(found.first?.application == "bots")
        let ofOwner = try nodes(database.connection())
        #expect(ofOwner.map(\.address) == ["127.0.0.1"])
        try database.query("DROP OWNED BY \(role); DROP ROLE \(role)")
    }

    @Test(
        "G8 a database is named without user and password",
        arguments: [
            ("host=pg1 port=7 dbname=bots user=juliet password=hush", "postgresql://pg1:7/bots"),
            ("postgres://juliet:hush@pg1,pg2/bots?sslmode=require", "postgresql://pg1,pg2/bots"),
            ("service=bots password=hush", "postgresql:///?service=bots"),
        ])
    func name(settings: String, expected: String) throws {
        #expect(try StoreReader(postgres: settings).path == expected)
    }

    @Test(
        "G8 no error about a connection string shows a part of its password",
        arguments: [
            "postgresql://juliet:hush%zz@pg1/bots", "postgresql://juliet:hu@hush@pg1/bots",
            "postgresql://juliet:hu/hush@pg1/bots", "postgresql://juliet:hush@[pg1/bots",
            "postgresql://juliet:hu\"hush@[pg1/bots", "host=pg1 password=hu hush", "password='hush",
        ])
    func password(settings: String) {
        let found = error(settings)
        #expect(found?.code == .databaseUnavailable)
        #expect(found?.message.contains("hush") == false, "\(found?.message ?? "")")
        #expect(found?.message.contains("cannot be read") == true, "\(found?.message ?? "")")
    }
}
