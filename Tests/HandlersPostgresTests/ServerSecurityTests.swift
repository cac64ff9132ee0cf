import CPostgres
import Glibc
import Handlers
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

@testable import HandlersPostgres

/// What protects a connection to another machine.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct ServerSecurityTests {
    private func security(_ settings: String) throws -> PostgresSecurity {
        var message: UnsafeMutablePointer<CChar>?
        let options = try #require(PQconninfoParse(settings, &message))
        return PostgresSecurity(of: settings, written: PostgresOption.values(options))
    }

    @Test(
        "G8 a connection to another machine verifies the server, unless an explicit sslmode says otherwise",
        arguments: [
            ("host=pg1 dbname=bots", "verify-full"), ("postgresql://juliet@pg1/bots", "verify-full"),
            ("host=pg1,pg2 dbname=bots target_session_attrs=read-write", "verify-full"),
            ("host=10.0.0.4", "verify-full"), ("host=localhost,pg2", "verify-full"),
            ("host=/run/postgresql,pg2", "verify-full"), ("host=0.0.0.0", "verify-full"),
            ("host=127.example.org", "verify-full"), ("host=127.0.0.1.example.org", "verify-full"),
            ("host=127.0.0.256", "verify-full"), ("host=::ffff:10.0.0.4", "verify-full"),
            ("hostaddr=10.0.0.4", "verify-full"), ("host=localhost hostaddr=10.0.0.4", "verify-full"),
            ("host=pg1 sslmode=verify-full", "verify-full"),
            ("host=pg1 sslmode=verify-ca", nil), ("host=pg1 sslmode=require", nil),
            ("host=pg1 sslmode=prefer", nil), ("host=pg1 sslmode=disable", nil),
            ("postgresql://pg1/bots?sslmode=allow", nil),
            ("dbname=bots", nil), ("host=/run/postgresql", nil), ("host=@postgresql", nil),
            ("host=localhost", nil), ("host=LOCALHOST,127.0.0.1", nil), ("host=127.9.8.7", nil),
            ("host=::1", nil), ("postgresql://[::1]:5433/bots", nil),
            ("host=db.example.org hostaddr=127.0.0.1", nil),
        ])
    func defaults(settings: String, mode: String?) throws {
        let security = try security(settings)
        #expect(security.defaults.last { $0.name == "sslmode" }?.value == mode)
        #expect(security.verifiesServer == (mode != nil || settings.contains("verify-")))
        // Nor does it get a password in clear or as MD5.
        let names = security.defaults.map(\.name)
        #expect((names.contains("require_auth") || names.contains("channel_binding")) == (mode != nil))
    }

    @Test("G8 what a program says of passwords counts, as does a client certificate in their place")
    func passwords() throws {
        let said = PQlibVersion() >= 160_000 ? "require_auth=none" : "channel_binding=prefer"
        let name = String(said.prefix { $0 != "=" })
        #expect(try !security("host=pg1 \(said)").defaults.map(\.name).contains(name))
        #expect(try !security("host=pg1 sslcert=a.crt").defaults.map(\.name).contains("channel_binding"))
    }

    // MARK: Servers that pretend

    /// What a server gets that has no TLS and asks for a password in clear.
    private func given(_ settings: (_ port: UInt16) -> String) throws -> (text: String, error: HandlerError?)
    {
        let server = try LoopbackServer { connection in
            var received: [UInt8] = []
            func read(_ count: Int) throws -> Bool {
                while received.count < count {
                    if try connection.read(into: &received) == .closed { return false }
                    usleep(1000)
                }
                return true
            }
            // No TLS.
            if try read(8), received[4...7] == [0x04, 0xD2, 0x16, 0x2F] {
                received.removeFirst(8)
                connection.write([0x4E])
                _ = try connection.flush()
            }
            guard try read(8) else { return "" }
            connection.write([0x52, 0, 0, 0, 8, 0, 0, 0, 3])
            _ = try connection.flush()
            while try connection.read(into: &received) != .closed { usleep(1000) }
            return String(decoding: received, as: UTF8.self)
        }
        let error = failure {
            _ = try HandlerStore(postgres: settings(server.port), registry: HandlerRegistry())
        }
        return (try server.finish(), error)
    }

    // The address 0.0.0.0 leads to this machine, which the library need not know.
    @Test("G8 a server of another machine that has no certificate gets no password")
    func pretended() throws {
        let (text, error) = try given { "host=0.0.0.0 port=\($0) user=bots password=opensesame dbname=bots" }
        #expect(!text.contains("opensesame"))
        #expect(error?.code == .databaseUnavailable)
        #expect(
            error?.message.contains("only another explicit sslmode takes less") == true, "\(error as Any)")
        let explicit = try given {
            "host=0.0.0.0 port=\($0) user=bots password=opensesame dbname=bots sslmode=prefer connect_timeout=3"
        }
        #expect(explicit.text.contains("opensesame"))
    }

    @Test(
        "G8 a server with a certificate that asks for a password in clear gets none",
        arguments: [true, false])
    func clearPassword(isScram: Bool) throws {
        let folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        var options = PostgresOptions()
        options.certificate = try certificates.makeServerCertificate(for: ["localhost"])
        options.method = isScram ? "scram-sha-256" : "password"
        let server = try PostgresServer(options: options)
        try server.start()
        defer { server.close() }
        let settings =
            "host=localhost hostaddr=0.0.0.0 port=\(server.port) user=\(PostgresServer.user) password='\(PostgresServer.password)' dbname=postgres sslrootcert=\(certificates.authorityFile)"
        let error = failure {
            _ = try HandlerStore(
                postgres: settings, registry: HandlerRegistry(), durability: .onPrimary)
        }
        #expect((error == nil) == isScram, "\(error as Any)")
        if !isScram { #expect(error?.code == .databaseUnavailable) }
    }

    // MARK: Passwords in messages

    @Test(
        "G8 a connection string inside of another one is refused, and not shown",
        arguments: [
            "host=pg1 dbname=postgresql://juliet:hush@pg2/bots", "dbname='host=pg1 password=hush'",
            "host=postgresql://juliet:hush@pg2", "postgresql://pg1/postgresql%3A%2F%2Fjuliet%3Ahush%40pg2",
            "host=pg1 user=postgres://juliet:hush@pg2",
        ])
    func nested(settings: String) {
        let error = failure { _ = try StoreReader(postgres: settings) }
        #expect(error?.code == .databaseUnavailable)
        #expect(error?.message.contains("is a connection string itself") == true, "\(error as Any)")
        #expect(error?.message.contains("hush") == false)
    }

    @Test("G8 the place of a store is printed without a password")
    func place() {
        let place = StoreMove.Place.postgres("host=pg1 dbname=bots password=hush")
        #expect("\(place)" == "postgresql://pg1/bots")
        #expect("\(StoreMove.Place.file("a.db"))" == "a.db")
        let text = String(reflecting: StoreMove(from: place, to: .postgres("nonsense hush"), schemas: []))
        #expect(!text.contains("hush"), "\(text)")
    }
}
