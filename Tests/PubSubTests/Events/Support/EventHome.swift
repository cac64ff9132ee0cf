import Foundation
import Handlers
import PubSub
import Synchronization
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Which real server a test talks to.
enum EventServer: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case prosody, ejabberd
    var testDescription: String { rawValue }
}

/// A real server with an account of ours and a contact of it, a client that shares no code with us.
final class EventHome: Sendable {
    static let password = "correct horse battery staple"

    let jid: JID
    let juliet: JID
    let server: any TestServer
    let folder: TemporaryFolder
    private let peer: SlixmppPeer
    private let authorityFile: String
    private let accounts = Mutex<[Account]>([])

    init(_ kind: EventServer) throws {
        folder = try TemporaryFolder()
        jid = try JID("romeo@localhost")
        juliet = try JID("juliet@localhost")
        let certificates = try TestCertificates(in: folder.path)
        let certificate = try certificates.makeServerCertificate(for: [jid.domain])
        authorityFile = certificates.authorityFile
        let (file, key) = (certificate.certificateFile, certificate.keyFile)
        server =
            switch kind {
            case .prosody:
                try ProsodyServer(
                    folder: folder.path + "/server", domain: jid.domain, certificateFile: file, keyFile: key)
            case .ejabberd:
                try EjabberdServer(
                    folder: folder.path + "/server", domain: jid.domain, certificateFile: file, keyFile: key)
            }
        try server.start()
        for user in ["romeo", "juliet"] { try server.addAccount(user, password: Self.password) }
        try server.befriend("romeo", "juliet")
        peer = try SlixmppPeer(
            script: PackageResources.pep_peer_py, folder: folder.path + "/peer",
            jid: "juliet@localhost/balcony",
            password: Self.password, port: server.startTLSPort, trustFile: authorityFile)
        try peer.start()
    }

    /// The account as another process would make it.
    func account(_ role: AccountRole = .main) throws -> Account {
        let store = try HandlerStore(
            path: folder.path + "/store.db",
            registry: HandlerRegistry(PubSubService.handlers + EventApp.handlers),
            schemas: Account.schemas + PubSubEvents.schemas + [EventApp.schema],
            role: role == .worker ? .worker : .main)
        var configuration = AccountConfiguration(
            jid: jid, password: Self.password,
            server: .init(host: server.host, port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: authorityFile)
        configuration.role = role
        configuration.modules = .standard + [PubSubEvents()]
        let account = try Account(configuration, store: store)
        accounts.withLock { $0.append(account) }
        return account
    }

    /// Tells the contact to do something, and waits until its server has answered.
    func tell(_ line: String) async throws {
        let peer = peer
        _ = try await onOwnThread { try peer.ask(line, answer: "done \(line)") }
        #expect(try peer.log().filter { $0.kind == .failed }.map(\.reason) == [])
    }

    /// Waits until the server knows what the account wants: it has asked what the account's presence stands for, and has the
    /// answer. What is published before is not sent.
    func settle(_ account: Account) async throws {
        for _ in 0..<2 { try await account.caughtUp() }
    }

    func publish(_ nick: String, id: String = "current") async throws {
        let xml = UserNick(nick).element.serialized()
        try await tell("publish \(UserNick.node) \(id) \(Data(xml.utf8).base64EncodedString())")
    }

    /// The texts of the items that the contact saw on nodes of the account, or of a service.
    func seenByPeer(at service: JID? = nil) throws -> [String] {
        try peer.log().filter { $0.kind.name == "event" && $0.from == (service ?? jid).description }
            .compactMap(\.body)
    }

    func notes(_ account: Account) throws -> [String] {
        try account.store.step { try EventApp.notes(in: $0) }
    }

    /// Waits until something was noted.
    func waitForNotes(_ count: Int, _ account: Account) async throws {
        try await waitForCondition("\(count) notes instead of \(try notes(account))") {
            try notes(account).count >= count
        }
    }

    func close() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        peer.close()
        server.close()
    }
}

func withEventHome(_ kind: EventServer, _ body: (EventHome) async throws -> Void) async throws {
    let home = try await onOwnThread { try EventHome(kind) }
    do {
        try await body(home)
    } catch {
        await home.close()
        throw error
    }
    await home.close()
}
