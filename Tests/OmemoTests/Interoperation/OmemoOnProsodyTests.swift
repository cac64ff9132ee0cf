import Handlers
import Omemo
import PubSub
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Device lists with a real server.
@Suite(.ownThread) struct OmemoOnProsodyTests {
    /// The publication is not looked at: the fetch behind it tells.
    private struct Published: Handler {
        static let id = "test.published"
        func run(_ call: borrowing Call<PubSubPublication>) {}
    }

    @Test("O2 a published list comes back in its own version, and the other version is known to be empty")
    func publishedAndRefreshed() async throws {
        let folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let server = try ProsodyServer(
            folder: folder.path + "/server", domain: "localhost",
            certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile)
        try server.addAccount("alice", password: "secret")
        try server.start()
        defer { withExtendedLifetime(folder) { server.close() } }
        var configuration = AccountConfiguration(
            jid: try JID("alice@localhost"), password: "secret",
            server: .init(host: server.host, port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: certificates.authorityFile)
        let store = try HandlerStore(
            path: folder.path + "/store.db",
            registry: HandlerRegistry([Published.self]),
            schemas: Account.schemas + OmemoService.schemas)
        let account = try Account(configuration, store: store)
        try await account.connect()

        let ids = [4223, 12345].compactMap { OmemoDeviceID(rawValue: $0) }
        let list = OmemoDeviceList(.legacy, devices: ids.map { .init($0) })
        try await account.pubsub.publish(
            PubSubItem(id: OmemoVersion.deviceListItem, payload: list.element),
            on: OmemoVersion.legacy.deviceListNode, requiring: [.accessModel(.open)],
            then: Published().durable)
        try await account.omemo.refresh(configuration.jid, .legacy)
        try await account.omemo.refresh(configuration.jid, .omemo2)

        func known(_ version: OmemoVersion) throws -> [OmemoDeviceID]? {
            try store.step { step in
                try account.omemo.deviceLists.devices(of: configuration.jid, version, in: step)?
                    .filter(\.isListed).map(\.device.id)
            }
        }
        let deadline = ContinuousClock.now + .seconds(30)
        while try known(.omemo2) == nil {
            try #require(
                ContinuousClock.now < deadline, "the list of the second version was not learned in time")
            try await account.caughtUp()
        }
        #expect(try known(.legacy) == ids)
        #expect(try known(.omemo2) == [])
        await account.close()
    }
}
