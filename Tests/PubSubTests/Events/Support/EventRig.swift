import Foundation
import Handlers
import PubSub
import Synchronization
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// A scripted server and an account of events on it; every account made here is another process of the same one.
final class EventRig: Sendable, TestResource {
    static let jid = try! JID("romeo@localhost")  // A constant that is an address.
    static let juliet = try! JID("juliet@localhost/balcony")  // The same.

    let folder: TemporaryFolder
    let server: ScriptedServer
    let authorityFile: String
    private let accounts = Mutex<[Account]>([])

    init() throws {
        folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        authorityFile = certificates.authorityFile
        var configuration = ScriptedServer.Configuration(
            accounts: ["romeo": "secret", "juliet": "hidden"],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        configuration.logsXML = true
        server = try ScriptedServer(configuration)
        try server.start()
        server.addBot(jid: Self.juliet)
    }

    func account(
        _ role: AccountRole = .main, _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) throws -> Account {
        let store = try HandlerStore(
            path: folder.path + "/app.db",
            registry: HandlerRegistry(PubSubService.handlers + EventApp.handlers),
            schemas: Account.schemas + PubSubEvents.schemas + [EventApp.schema],
            role: role == .worker ? .worker : .main,
            synchronous: .normal)
        var configuration = AccountConfiguration(
            jid: Self.jid, password: "secret",
            server: .init(host: server.host, port: server.directTLSPort, security: .directTLS))
        configuration.trust = .file(path: authorityFile)
        configuration.modules = [DiscoModule(), PubSubEvents()]
        configuration.role = role
        change(&configuration)
        let account = try Account(configuration, store: store)
        accounts.withLock { $0.append(account) }
        return account
    }

    func connected(_ role: AccountRole = .main) async throws -> Account {
        let account = try account(role)
        try await account.connect()
        try await account.caughtUp()
        return account
    }

    /// Juliet's server tells of a nick of hers.
    func sendNick(_ name: String, id: String? = nil) throws {
        let event = try EventAccount.event(EventAccount.nick(name), id: id)
        var stanza = event
        stanza["to"] = ForeignText(Self.jid.description)
        server.send(stanza, from: Self.juliet.bare)
    }

    // MARK: What the server saw

    /// The presence that clients sent, in order.
    var presence: [Element] {
        get throws {
            try server.log.entries.filter { $0.event == .received && $0.name == "presence" }
                .compactMap {
                    try $0.xml.map { try Element(parsing: $0, defaultNamespace: Namespaces.client) }
                }
        }
    }

    /// The digests that presence carried, in order.
    var digests: [ForeignText] {
        get throws { try presence.compactMap { $0.child("c", Namespaces.caps)?["ver"] } }
    }

    /// What the account's client answers when asked what it understands.
    func features(_ account: Account) async throws -> Set<ForeignText> {
        let jid = try await account.perform { step in
            try step.first("SELECT full_jid FROM session") { (row) throws(HandlerError) in row.text(0) }
        }
        let query = IQ(
            type: .get, to: try JID(jid ?? ""), id: "disco-\(UUID())",
            payload: Element("query", namespace: Namespaces.discoInfo))
        let mark = server.log.entries.count
        server.send(query.element, from: Self.juliet)
        let log = server.log
        let answer = try await onThread {
            log.wait(for: .seconds(40), from: mark) { $0.event == .received && $0.id == query.id }
        }
        let element = try Element(parsing: #require(answer?.xml))
        let info = try #require(element.firstElement.flatMap { DiscoInfo($0) })
        return info.features
    }

    func notes(_ account: Account) throws -> [String] {
        try account.store.step { try EventApp.notes(in: $0) }
    }

    func close() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        server.stop(.reset)
    }
}

/// Runs a test with a rig that is closed in any case.
func withEventRig(_ body: (EventRig) async throws -> Void) async throws {
    try await closing(EventRig(), after: body)
}
