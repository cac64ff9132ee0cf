import Foundation
import Handlers
import PubSub
import Synchronization
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Which real server a test talks to.
enum OperationServer: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case prosody, ejabberd

    var testDescription: String { rawValue }
}

/// One Prosody and one ejabberd for all tests in ``OperationsOnServers``, started when the first test wants them.
final class OperationServers: Sendable {
    @TaskLocal static var current: OperationServers?

    static let domain = "localhost"
    static let password = "correct horse battery staple"
    let folder: TemporaryFolder
    let certificates: TestCertificates
    private let running = Mutex<[OperationServer: any TestServer]>([:])
    private let users = Mutex(0)

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    func server(_ kind: OperationServer) throws -> any TestServer {
        try running.withLock { running in
            if let server = running[kind] { return server }
            let server = try make(kind, name: kind.rawValue)
            running[kind] = server
            return server
        }
    }

    /// A server that runs.
    ///
    /// - Parameter hasPubSub: Without it the users have no nodes of their own (PEP).
    func make(_ kind: OperationServer, name: String, hasPubSub: Bool = true) throws -> any TestServer {
        let certificate = try certificates.makeServerCertificate(for: [Self.domain], name: name)
        let (file, key) = (certificate.certificateFile, certificate.keyFile)
        let server: any TestServer
        switch kind {
        case .prosody:
            var options = ProsodyOptions()
            // Prosody lets only administrators of the service make nodes there.
            let administrators = (1...40).map { "\"user\($0)@\(Self.domain)\"" }.joined(separator: ", ")
            options.addedConfiguration = "admins = { \(administrators) }\npubsub_max_items = 2000"
            if !hasPubSub { options.removedModules = ["pep", "bookmarks", "vcard4", "vcard_legacy"] }
            server = try ProsodyServer(
                folder: "\(folder.path)/\(name)", domain: Self.domain, certificateFile: file, keyFile: key,
                options: options)
        case .ejabberd:
            var options = EjabberdOptions()
            if !hasPubSub { options.removedModules = ["mod_pubsub"] }
            server = try EjabberdServer(
                folder: "\(folder.path)/\(name)", domain: Self.domain, certificateFile: file, keyFile: key,
                options: options)
        }
        try server.start()
        return server
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
struct OperationServersTrait: SuiteTrait, TestScoping {
    var isRecursive: Bool { false }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let servers = try OperationServers()
        defer { servers.close() }
        try await OperationServers.$current.withValue(servers) { try await function() }
    }
}

/// Everything that is asked of Prosody and ejabberd; the suites are extensions.
@Suite(.ownThread, OperationServersTrait(), .serialized, .timeLimit(.minutes(5))) enum OperationsOnServers {}

/// An account of its own on a server, and the store that every process of that account opens.
final class OperationHome: Sendable {
    let server: any TestServer
    let jid: JID
    let folder: TemporaryFolder
    let store: HandlerStore
    private let servers: OperationServers
    private let accounts = Mutex<[Account]>([])
    private let peers = Mutex<[SlixmppPeer]>([])

    /// The service beside the users' own nodes.
    let service = try! JID("pubsub.\(OperationServers.domain)")  // A constant that is an address.

    init(_ kind: OperationServer, server: (any TestServer)? = nil) throws {
        servers = try #require(OperationServers.current, "the test stands outside of OperationsOnServers")
        self.server = try server ?? servers.server(kind)
        jid = try JID(local: servers.freshUser(), domain: OperationServers.domain)
        try self.server.addAccount(jid.local ?? "", password: OperationServers.password)
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/store.db",
            registry: HandlerRegistry(PubSubService.handlers + Notes.handlers),
            schemas: Account.schemas + [Notes.schema], synchronous: .normal)
    }

    var authorityFile: String { servers.certificates.authorityFile }

    /// The account as another process would make it.
    func account() throws -> Account {
        var configuration = AccountConfiguration(
            jid: jid, password: OperationServers.password,
            server: .init(host: server.host, port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: authorityFile)
        let account = try Account(configuration, store: store)
        accounts.withLock { $0.append(account) }
        return account
    }

    func connected() async throws -> Account {
        let account = try account()
        try await account.connect()
        return account
    }

    /// An independent client with an account of its own.
    func peer() throws -> OperationPeer {
        let user = servers.freshUser()
        try server.addAccount(user, password: OperationServers.password)
        let peer = try SlixmppPeer(
            script: PackageResources.operations_peer_py, folder: "\(folder.path)/\(user)",
            jid: "\(user)@\(OperationServers.domain)/peer", password: OperationServers.password,
            host: server.host,
            port: server.startTLSPort, trustFile: authorityFile)
        try peer.start()
        peers.withLock { $0.append(peer) }
        return OperationPeer(
            process: peer, jid: try JID(local: user, domain: OperationServers.domain))
    }

    var notes: [String] { get throws { try store.step { step in try Notes.all(in: step) } } }

    /// How often a session was resumed, and how often one was begun.
    var sessions: [Int64] {
        get throws {
            try store.step { step in
                try step.first("SELECT resumed_count, bound_count FROM session") {
                    (row) throws(HandlerError) in
                    [row.integer(0), row.integer(1)]
                } ?? []
            }
        }
    }

    func close() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        for peer in peers.withLock({ $0 }) { peer.close() }
    }
}

/// Runs a test with a home that is closed in any case.
func withOperationHome(
    _ kind: OperationServer, server: (any TestServer)? = nil,
    _ body: (OperationHome) async throws -> Void
) async throws {
    let home = try OperationHome(kind, server: server)
    do {
        try await body(home)
    } catch {
        await home.close()
        throw error
    }
    await home.close()
}

/// An independent user of PubSub; see operations_peer.py.
struct OperationPeer: Sendable {
    let process: SlixmppPeer
    let jid: JID

    private struct Answer<Result: Decodable>: Decodable {
        var ok: Result?
        var error: String?
    }

    struct Refusal: Error, CustomStringConvertible { let description: String }

    /// Tells it to do something and waits until it is done.
    func ask<Result: Decodable>(
        _ name: String, _ service: JID? = nil, _ node: String? = nil, _ arguments: [String: Any] = [:],
        as type: Result.Type = Result.self
    ) throws -> Result? {
        var words = arguments
        words["do"] = name
        words["service"] = service?.description
        words["node"] = node
        let line = String(decoding: try JSONSerialization.data(withJSONObject: words), as: UTF8.self)
        let text = try process.ask(line, answer: "= ")
        let answer = try JSONDecoder().decode(Answer<Result>.self, from: Data(text.utf8))
        if let error = answer.error { throw Refusal(description: error) }
        return answer.ok
    }

    func tell(
        _ name: String, _ service: JID, _ node: String, _ arguments: [String: Any] = [:]
    ) throws {
        _ = try ask(name, service, node, arguments, as: String.self)
    }

    /// What it has seen of nodes.
    var events: [String] { get throws { try ask("events", as: [String].self) ?? [] } }
}
