import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
@testable import XMPPTransport
import XMPPCore
import TestServers

extension RealServerTests {
    /// The ways to log in that a server must be set up for.
    @Suite struct MechanismsOnServersTests {
        private var servers: RealServers { get throws { try RealServers.current } }

        private static let scram = ["SHA-1", "SHA-256", "SHA-512"].flatMap {
            ["SCRAM-\($0)", "SCRAM-\($0)-PLUS"]
        }

        @Test(
            "X6 over TLS 1.2 the login is bound to the certificate or the first Finished message",
            arguments: ServerKind.allCases)
        func olderBindings(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try home.account { $0.newestTLS = .tls12 }
                try await account.connect()
                let pinned = try home.store.number("SELECT count(*) FROM login WHERE pinned LIKE '%-PLUS'")
                #expect(pinned == 1)
                try await account.caughtUp()
                let token = try home.store.texts("SELECT mechanism FROM fast_token").first
                // A token too is bound to what the session has.
                #expect(["HT-SHA-256-UNIQ", "HT-SHA-256-ENDP"].contains(token))
                try await account.suspend()
                try home.store.change("UPDATE login SET pinned = NULL")
                try await account.connect()
                #expect(try home.sessions == [1, 1])
                #expect(
                    try home.store.number("SELECT count(*) FROM login WHERE pinned IS NOT NULL") == 0,
                    "by token")
            }
        }

        @Test(
            "X6 the password is sent as it is only where that is allowed and nothing better is there",
            arguments: ServerKind.allCases)
        func plain(kind: ServerKind) async throws {
            let list = Self.scram.map { "\"\($0)\"" }.joined(separator: ", ")
            let server = try servers.special(
                kind, prosody: { $0.addedConfiguration = "disable_sasl_mechanisms = { \(list) }" },
                ejabberd: { $0.addedConfiguration = "disable_sasl_mechanisms: [\(list)]" })
            defer { server.close() }
            try await withHome(kind, server: server) { home in
                let careful = try home.account()
                let error = await errorOf { try await careful.connect() } as? SASLError
                #expect(error?.code == .noCommonMechanism)
                #expect(error?.message.contains("allowsPlain") == true)
                await careful.close()
                for isExtensible in [true, false] {
                    let account = try home.account(.startTLS) {
                        $0.allowsPlain = true
                        $0.usesExtensibleLogin = isExtensible
                    }
                    try await account.connect()
                    try await account.caughtUp()
                    await account.close()
                }
                #expect(home.log.logins == ["PLAIN (SASL2)", "PLAIN"])
            }
        }

        @Test(
            "X6 an anonymous account gets an address of its own with every stream, and tells what became of the last session",
            arguments: ServerKind.allCases)
        func anonymous(kind: ServerKind) async throws {
            let host = "guests.localhost"
            let server = try servers.special(
                kind, names: [host],
                prosody: {
                    $0.addedConfiguration = "VirtualHost \"\(host)\"\nauthentication = \"anonymous\"\n"
                },
                ejabberd: {
                    $0.addedConfiguration = """
                        host_config: {"\(host)": {auth_method: [anonymous], anonymous_protocol: sasl_anon}}
                        """
                    $0.addedHosts = [host]
                })
            defer { server.close() }
            let folder = try TemporaryFolder()
            let store = try HandlerStore(
                path: folder.path + "/app.db", registry: TestApp.registry,
                schemas: Account.coreSchemas + [TestApp.schema])
            var configuration = AccountConfiguration(
                anonymousAt: try JID(host),
                server: .init(host: server.host, port: server.directTLSPort, security: .directTLS))
            configuration.trust = .file(path: try servers.certificates.authorityFile)
            let kept = KeptLog()
            configuration.log = kept.log
            let account = try Account(configuration, store: store)
            func address() throws -> JID {
                try JID(
                    try store.texts("SELECT full_jid FROM session").first ?? "")
            }
            try await account.connect()
            let jid = try address()
            #expect(jid.domain == host && jid.local?.isEmpty == false)
            try await account.suspend()
            try await account.connect()
            // Somebody else each time, whom the server does not let resume what is not theirs.
            #expect(try address() != jid)
            #expect(try store.number("SELECT bound_count FROM session") == 2)
            #expect(kept.logins.allSatisfy { $0.hasPrefix("ANONYMOUS") } && kept.logins.count == 2)
            await account.close()
        }

        @Test("X6 a certificate logs in where the server asks for one")
        func external() async throws {
            let files = try servers.certificates.makeClientCertificate(for: "holder@localhost")
            let authority = try servers.certificates.authorityFile
            let server = try servers.special(.ejabberd, ejabberd: { $0.clientAuthorityFile = authority })
            defer { server.close() }
            try server.addAccount("holder", password: "never used")
            try await withHome(.ejabberd, server: server) { home in
                for isExtensible in [false, true] {
                    let account = try home.account {
                        $0.jid = try! JID("holder@localhost")  // A constant that is an address.
                        $0.password = ""
                        $0.usesExtensibleLogin = isExtensible
                        $0.authentication = .certificate(file: files.certificateFile, keyFile: files.keyFile)
                    }
                    try await account.connect()
                    try await account.caughtUp()
                    await account.close()
                }
                #expect(home.log.logins == ["EXTERNAL", "EXTERNAL (SASL2)"])
                #expect(!home.log.holds(Secrets.base64("holder@localhost")))
                let other = try home.account {
                    $0.authentication = .certificate(file: files.certificateFile, keyFile: files.keyFile)
                }
                let error = await errorOf { try await other.connect() } as? AccountError
                #expect(error?.code == .notAuthorized, "the certificate is another account's")
            }
        }

        @Test(
            "X6 the digest of an offer (XEP-0474) is the one that Prosody signs, in both ways to log in"
        )
        func signedOffer() async throws {
            let server = try servers.special(.prosody, prosody: { $0.addedModules = ["sasl_ssdp"] })
            defer { server.close() }
            try await withHome(.prosody, server: server) { home in
                for isExtensible in [true, false] {
                    let account = try home.account {
                        $0.usesTokens = false
                        $0.usesExtensibleLogin = isExtensible
                    }
                    try await account.connect()
                    await account.close()
                }
                #expect(home.log.logins.count == 2 && home.log.logins.allSatisfy { $0.hasPrefix("SCRAM-") })
            }
        }

        @Test(
            "X6 salted keys are derived once and used again in the same process",
            arguments: ServerKind.allCases)
        func cachedKeys(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let memory = LoginMemory()
                // With the keys at hand the password is not looked at any more.
                for password in [RealServers.password, "forgotten"] {
                    let account = try home.account {
                        $0.password = password
                        $0.usesTokens = false
                    }
                    let opener = StreamOpener(
                        configuration: account.configuration,
                        login: try StoredLogin(account),
                        memory: memory, resource: "keys")
                    let opened = try await opener.opened()
                    #expect(opened.learned.scram?.mechanism.name == "SCRAM-SHA-256-PLUS")
                    opened.connection.closeDirty()
                }
            }
        }
    }
}
