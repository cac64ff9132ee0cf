import FoundationEssentials
import Glibc
import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

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
        let (server, standby) = try PostgresServer.startWithStandby()
        defer {
            standby.close()
            server.close()
        }
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

    @Test("G8 a server of an older version is refused, with both versions")
    func oldServer() throws {
        // As much as version 13 says before its first statement: no password, its version, ready.
        let name = Array("server_version\0".utf8) + Array("13.9\0".utf8)
        let greeting: [UInt8] =
            [0x52, 0, 0, 0, 8, 0, 0, 0, 0] + [0x53, 0, 0, 0, UInt8(4 + name.count)] + name
            + [0x5A, 0, 0, 0, 5, 0x49]
        let server = try LoopbackServer { connection in
            var received: [UInt8] = []
            while received.isEmpty, try connection.read(into: &received) != .closed { usleep(1000) }
            connection.write(greeting)
            _ = try connection.flush()
            while try connection.read(into: &received) != .closed { usleep(1000) }
        }
        let error = refusal(
            "host=127.0.0.1 port=\(server.port) user=a dbname=a sslmode=disable gssencmode=disable")
        try server.finish()
        #expect(error?.code == .databaseUnavailable)
        #expect(error?.message.contains("version 13, and a store needs 14 or newer") == true)
    }

    @Test("G8 a role that may not read the tables of a store, or may not connect, is told what to grant")
    func foreignTables() throws {
        let database = try PostgresServer.shared.makeDatabase()
        #expect(refusal(database.connection()) == nil)
        try database.query("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN")
        let reading = refusal(database.connection() + " user=reader")
        #expect(reading?.code == .databaseReadOnly)
        #expect(reading?.message.contains("connect as the owner of the tables") == true)
        try database.query("REVOKE CONNECT ON DATABASE \(database.name) FROM PUBLIC")
        let connecting = refusal(database.connection() + " user=reader")
        #expect(connecting?.code == .databaseUnavailable)
        #expect(connecting?.message.contains("CONNECT privilege") == true)
        #expect(connecting?.message.contains("check its user, password and database") == true)
        try database.query("DROP OWNED BY reader; DROP ROLE reader")
    }

    @Test(
        "G8 a database that is not UTF-8 is refused, with the statement that makes another one",
        arguments: ["LATIN1", "SQL_ASCII"])
    func encoding(name: String) throws {
        let server = try PostgresServer.shared
        let database = "not_utf8_\(name.lowercased())"
        try server.query(
            "CREATE DATABASE \(database) TEMPLATE template0 ENCODING '\(name)' LC_COLLATE 'C' LC_CTYPE 'C'")
        for error in [
            refusal(server.connection(to: database)),
            failure { try StoreReader(postgres: server.connection(to: database)).read { _ in } },
        ] {
            #expect(error?.code == .databaseUnavailable)
            #expect(error?.message.contains("ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0") == true)
            #expect(error?.message.contains(name) == true, "\(error as Any)")
        }
        try server.query("DROP DATABASE \(database)")
    }

    // MARK: Certificates

    @Test(
        "G8 a server whose certificate is of another authority, for another host or expired is refused before any password"
    )
    func certificates() throws {
        let (folder, elsewhere) = (try TemporaryFolder(), try TemporaryFolder())
        let certificates = try TestCertificates(in: folder.path)
        let stranger = try TestCertificates(in: elsewhere.path)
        var options = PostgresOptions()
        options.certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let server = try PostgresServer(options: options)
        try server.start()
        let trusted = server.connection(over: .tls(authorityFile: certificates.authorityFile))
        #expect(refusal(trusted) == nil)
        options.certificate = try certificates.makeServerCertificate(for: ["localhost"], flaw: .expired)
        let expired = try PostgresServer(options: options)
        try expired.start()
        for (settings, reason) in [
            // Of the same name as the right one, with another key.
            (server.connection(over: .tls(authorityFile: stranger.authorityFile)), "SSL error"),
            (server.connection(over: .tls(authorityFile: "/nowhere.pem")), "does not exist"),
            (trusted + " host=db.example.org", "does not match host name"),
            (
                expired.connection(over: .tls(authorityFile: certificates.authorityFile)),
                "certificate verify failed"
            ),
        ] {
            let error = refusal(settings)
            #expect(error?.code == .databaseUnavailable, "\(reason)")
            #expect(error?.message.contains(reason) == true, "\(String(describing: error))")
            #expect(error?.message.contains("name the certificate of its authority as sslrootcert") == true)
        }
        #expect(!server.log.contains("password authentication failed"))
    }

    // MARK: Room

    @Test(
        "G8 a full disk of the server refuses a new store and changes nothing, and an open one goes on when there is room",
        .enabled(if: SmallDisk.canBeMade, "this system lets nobody here mount a file system"))
    func fullDisk() throws {
        let server = try PostgresServer()
        try server.start()
        let disk = try SmallDisk(of: server, megabytes: 24)
        defer { disk.remove() }
        try server.query("CREATE TABLESPACE small LOCATION '\(disk.path)'")
        try server.query("CREATE DATABASE small TEMPLATE template0 TABLESPACE small")
        let fill = """
            CREATE TABLE filler(text TEXT);
            DO $$ BEGIN LOOP
                BEGIN INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 50);
                EXCEPTION WHEN disk_full THEN EXIT; END;
            END LOOP; END $$
            """
        try server.query(fill, in: "small")
        let error = refusal(server.connection(to: "small"))
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("free disk") == true)
        #expect(try server.query("SELECT to_regclass('module_schema') IS NULL", in: "small") == "t")

        try server.query("DROP TABLE filler", in: "small")
        let store = try openStore(PostgresSettings(server.connection(to: "small"), durability: .onPrimary))
        try server.query(fill, in: "small")
        let note = String(repeating: "x", count: 1 << 20).map { _ in String(UInt8.random(in: 0...9)) }
            .joined()
        #expect(
            code { try store.step { try $0.write("INSERT INTO note(text) VALUES (?)", note) } }
                == .storageFailed)
        try server.query("DROP TABLE filler", in: "small")
        try store.step { try $0.write("INSERT INTO note(text) VALUES ('stored')") }
        #expect(try store.texts() == ["stored"])
    }
}

/// A file system of a few megabytes for a tablespace of a server.
private struct SmallDisk {
    let path: String

    static let canBeMade: Bool = {
        let path = "/tmp/small-\(UUID())"
        guard geteuid() == 0, mkdir(path, 0o700) == 0 else { return false }
        defer { rmdir(path) }
        guard mount("tmpfs", path, "tmpfs", 0, "size=1m") == 0 else { return false }
        return umount2(path, Int32(MNT_DETACH)) == 0
    }()

    init(of server: PostgresServer, megabytes: Int) throws {
        path = server.folder + "/small"
        let owner = try #require(getpwnam("postgres")).pointee
        try #require(mkdir(path, 0o700) == 0)
        let options = "size=\(megabytes)m,mode=0700,uid=\(owner.pw_uid),gid=\(owner.pw_gid)"
        try #require(mount("tmpfs", path, "tmpfs", 0, options) == 0)
    }

    /// Also while files on it are open.
    func remove() { umount2(path, Int32(MNT_DETACH)) }
}
