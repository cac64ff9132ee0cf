import Handlers
import TestServers
import TestThreads
import Testing

@testable import HandlersPostgres

/// Servers that a store does not take, with errors that say what to do.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct RefusedServerTests {
    private func refusal(
        _ settings: String, durability: PostgresDurability = .onPrimary, schemas: [Schema] = [notes]
    ) -> HandlerError? {
        do {
            _ = try HandlerStore(
                postgres: settings, registry: HandlerRegistry(), schemas: schemas, durability: durability)
            return nil
        } catch { return error as? HandlerError }
    }

    @Test("G4 a server without a standby is refused, unless the program says that it is enough")
    func withoutStandby() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let error = refusal(database.connection(), durability: .onStandby)
        #expect(error?.code == .databaseUnavailable)
        #expect(error?.message.contains("durability: .onPrimary") == true)
        #expect(try database.query("SELECT to_regclass('handler') IS NULL") == "t")
        #expect(refusal(database.connection()) == nil)
    }

    @Test("G4 a server that does not sync is refused")
    func withoutSync() throws {
        var options = PostgresOptions()
        options.fsync = false
        let server = try PostgresServer(options: options)
        try server.start()
        defer { server.close() }
        let error = refusal(server.connection())
        #expect(error?.code == .databaseUnavailable)
        #expect(error?.message.contains("fsync is off") == true)
    }

    @Test("G4 a standby is refused, and its primary is taken with it as its standby")
    func standby() throws {
        let server = try PostgresServer()
        try server.start()
        defer { server.close() }
        let standby = try server.makeStandby(name: "second", synchronous: true)
        defer { standby.close() }
        let error = refusal(standby.connection())
        #expect(error?.code == .databaseReadOnly)
        #expect(error?.message.contains("target_session_attrs") == true)
        #expect(refusal(server.connection(), durability: .onStandby) == nil)
    }

    @Test("G8 a wrong address, password, name or connection string names the place and says what to do")
    func unreachable() throws {
        let server = try PostgresServer.shared
        let tcp = server.connection(over: .tcp)
        for settings in [
            "host=127.0.0.1 port=1 dbname=a", tcp + " password=wrong", server.connection(to: "nowhere"),
        ] {
            let error = refusal(settings)
            #expect(error?.code == .databaseUnavailable, "\(settings)")
            #expect(error?.message.contains("postgresql://") == true, "\(settings)")
            #expect(error?.message.contains("wrong") != true || error?.message.contains("password=") != true)
        }
        let error = refusal("host")
        #expect(error?.code == .databaseUnavailable)
        #expect(error?.message.contains("host=… dbname=…") == true)
    }

    @Test("G8 a role without permission is told so, and tables of a newer program are left alone")
    func permission() throws {
        let database = try PostgresServer.shared.makeDatabase()
        try database.query("DROP ROLE IF EXISTS guest")
        try database.query("CREATE ROLE guest LOGIN")
        #expect(refusal(database.connection() + " user=guest")?.code == .databaseReadOnly)
        #expect(refusal(database.connection()) == nil)
        let newer = Schema(module: "notes", migrations: notes.migrations + ["CREATE TABLE more(a TEXT)"])
        #expect(refusal(database.connection(), schemas: [newer]) == nil)
        #expect(refusal(database.connection())?.code == .databaseNewer)
        try database.query("REASSIGN OWNED BY guest TO postgres; DROP OWNED BY guest; DROP ROLE guest")
    }
}
