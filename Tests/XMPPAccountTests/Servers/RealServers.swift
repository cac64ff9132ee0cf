import Foundation
import Handlers
import Synchronization
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Which real server a test talks to.
enum ServerKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case prosody, ejabberd

    var testDescription: String { rawValue }
}

/// One Prosody and one ejabberd for all tests in ``RealServerTests``, started when the first test wants them.
///
/// Each test makes accounts of its own, so that tests do not meet.
final class RealServers: Sendable {
    @TaskLocal static var current: RealServers?

    static let domain = "localhost"
    let folder: TemporaryFolder
    let certificates: TestCertificates
    private let running = Mutex<[ServerKind: any TestServer]>([:])
    private let users = Mutex(0)

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    func server(_ kind: ServerKind) throws -> any TestServer {
        try running.withLock { running in
            if let server = running[kind] { return server }
            let certificate = try certificates.makeServerCertificate(
                for: [Self.domain, "pubsub.\(Self.domain)", "conference.\(Self.domain)"], name: kind.rawValue)
            let server = try Self.make(kind, folder: "\(folder.path)/\(kind.rawValue)", certificate)
            try server.start()
            running[kind] = server
            return server
        }
    }

    /// A server of a test's own, whose options differ.
    ///
    /// - Parameter names: Further names in its certificate.
    func special(
        _ kind: ServerKind, names: [String] = [], prosody: (inout ProsodyOptions) -> Void = { _ in },
        ejabberd: (inout EjabberdOptions) -> Void = { _ in }
    ) throws -> any TestServer {
        let name = "\(kind.rawValue)-\(freshUser())"
        let certificate = try certificates.makeServerCertificate(for: [Self.domain] + names, name: name)
        let server = try Self.make(
            kind, folder: "\(folder.path)/\(name)", certificate, prosody: prosody, ejabberd: ejabberd)
        try server.start()
        return server
    }

    static func make(
        _ kind: ServerKind, folder: String, _ certificate: TestCertificates.ServerCertificate,
        prosody: (inout ProsodyOptions) -> Void = { _ in },
        ejabberd: (inout EjabberdOptions) -> Void = { _ in }
    ) throws -> any TestServer {
        let (file, key) = (certificate.certificateFile, certificate.keyFile)
        switch kind {
        case .prosody:
            var options = ProsodyOptions()
            prosody(&options)
            return try ProsodyServer(
                folder: folder, domain: domain, certificateFile: file, keyFile: key, options: options)
        case .ejabberd:
            var options = EjabberdOptions()
            ejabberd(&options)
            return try EjabberdServer(
                folder: folder, domain: domain, certificateFile: file, keyFile: key, options: options)
        }
    }

    /// A name that no other test uses.
    func freshUser() -> String {
        users.withLock { users in
            users += 1
            return "user\(users)"
        }
    }

    func close() {
        for server in running.withLock({ $0.values }) { server.close() }
    }
}

/// Gives all tests of a suite the same servers and ends these after the last test.
struct RealServersTrait: SuiteTrait, TestScoping {
    var isRecursive: Bool { false }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let servers = try RealServers()
        defer { servers.close() }
        try await RealServers.$current.withValue(servers) { try await function() }
    }
}

extension Trait where Self == RealServersTrait {
    static var realServers: Self { RealServersTrait() }
}

/// Everything that is tested against Prosody and ejabberd; the suites are extensions.
@Suite(.ownThread, .realServers, .serialized, .timeLimit(.minutes(5))) enum RealServerTests {}

/// An account of its own on a shared server, and the store that every process of that account opens.
final class RealHome: Sendable {
    let server: any TestServer
    let certificates: TestCertificates
    let jid: JID
    let folder: TemporaryFolder
    private let servers: RealServers

    func freshUser() -> String { servers.freshUser() }
    let store: HandlerStore
    static let password = "correct horse battery staple"
    private let accounts = Kept<[Account]>([])
    /// What every account of this home logged, the XML in both directions with it.
    let log = KeptLog()

    /// - Parameter other: Another home of the same account: another client of it.
    init(
        _ kind: ServerKind, server: (any TestServer)? = nil, certificates: TestCertificates? = nil,
        as other: RealHome? = nil
    ) throws {
        let servers = try #require(RealServers.current, "the test stands outside of RealServerTests")
        self.servers = servers
        self.server = try server ?? servers.server(kind)
        self.certificates = certificates ?? servers.certificates
        jid = try other?.jid ?? JID(local: servers.freshUser(), domain: RealServers.domain)
        if other == nil { try self.server.addAccount(jid.local ?? "", password: Self.password) }
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/app.db", registry: TestApp.registry,
            schemas: Account.schemas + [TestApp.schema], synchronous: .normal)
    }

    typealias Security = AccountConfiguration.Server.Security

    func port(_ security: Security) -> UInt16 {
        security == .directTLS ? server.directTLSPort : server.startTLSPort
    }

    /// The account as another process would make it.
    func account(
        _ security: Security = .directTLS, port: UInt16? = nil,
        _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) throws -> Account {
        var configuration = AccountConfiguration(
            jid: jid, password: Self.password,
            server: .init(host: server.host, port: port ?? self.port(security), security: security))
        configuration.trust = .file(path: certificates.authorityFile)
        configuration.log = log.log
        change(&configuration)
        let account = try Account(configuration, store: store)
        accounts.withLock { $0.append(account) }
        return account
    }

    /// How often a session was resumed, and how often one was begun.
    var sessions: [Int64] {
        get throws {
            [
                try store.number("SELECT resumed_count FROM session"),
                try store.number("SELECT bound_count FROM session"),
            ]
        }
    }

    func close() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        for secret in Secrets.forms(of: Self.password, user: jid.local ?? "") + Secrets.tokens(in: store) {
            #expect(!log.holds(secret), "a secret is in the log: \(secret)")
        }
    }

    /// An independent client on the same server.
    func peer() throws -> SlixmppPeer {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources/pushwake/Resources/slixmpp_peer.py")
        return try peer(script: [UInt8](Data(contentsOf: script)))
    }

    /// An independent client on the same server, with a script of the test's own.
    func peer(script: [UInt8]) throws -> SlixmppPeer {
        let user = servers.freshUser()
        try server.addAccount(user, password: Self.password)
        let peer = try SlixmppPeer(
            script: script, folder: "\(folder.path)/\(user)",
            jid: "\(user)@\(RealServers.domain)/peer", password: Self.password, port: server.startTLSPort,
            trustFile: certificates.authorityFile)
        try peer.start()
        return peer
    }
}

/// Runs a test with a home whose accounts are closed in any case.
func withHome(
    _ kind: ServerKind, server: (any TestServer)? = nil, certificates: TestCertificates? = nil,
    _ body: (RealHome) async throws -> Void
) async throws {
    let home = try RealHome(kind, server: server, certificates: certificates)
    do {
        try await body(home)
    } catch {
        await home.close()
        throw error
    }
    await home.close()
}
