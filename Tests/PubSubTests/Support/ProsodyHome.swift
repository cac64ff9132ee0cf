import Handlers
import PubSub
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// A Prosody with one account, and the store that every process of that account opens.
final class ProsodyHome {
    let jid: JID
    let server: ProsodyServer
    let store: HandlerStore
    private let folder: TemporaryFolder
    private let authorityFile: String
    private let password = "correct horse battery staple"

    init() throws {
        folder = try TemporaryFolder()
        jid = try JID("alice@localhost")
        let certificates = try TestCertificates(in: folder.path)
        let certificate = try certificates.makeServerCertificate(for: [jid.domain])
        authorityFile = certificates.authorityFile
        server = try ProsodyServer(
            folder: folder.path + "/server", domain: jid.domain, certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile)
        store = try HandlerStore(
            path: folder.path + "/store.db",
            registry: HandlerRegistry(PubSubService.handlers + Notes.handlers),
            schemas: Account.schemas + [Notes.schema])
        try server.addAccount(jid.local ?? "", password: password)
        try server.start()
    }

    /// Ends the server. The folder goes with this object, which therefore must live as long as the test.
    func close() { server.close() }

    /// The account as another process would make it.
    func account(_ role: AccountRole) throws -> Account {
        var configuration = AccountConfiguration(
            jid: jid, password: password,
            server: .init(host: server.host, port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: authorityFile)
        configuration.role = role
        return try Account(configuration, store: store)
    }

    var notes: [String] { get throws { try store.step { step in try Notes.all(in: step) } } }

    /// Waits until the program has noted so much; each look is a round trip to the server.
    func waitForNotes(_ count: Int, on account: Account, deadline: ContinuousClock.Instant) async throws {
        var notes = try self.notes
        while notes.count < count {
            try #require(ContinuousClock.now < deadline, "only \(notes) was noted in time")
            try await account.caughtUp()
            notes = try self.notes
        }
    }
}
