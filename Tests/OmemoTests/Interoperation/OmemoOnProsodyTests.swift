import Handlers
import Omemo
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Device lists with a real server.
@Suite(.ownThread, .realServers) struct OmemoOnProsodyTests {
    /// The publication is not looked at: the fetch behind it tells.
    private struct Published: Handler {
        static let id = "test.published"
        func run(_ call: borrowing Call<PubSubPublication>) {}
    }

    @Test("O2 a published list comes back in its own version, and the other version is known to be empty")
    func publishedAndRefreshed() async throws {
        try await closing(RealScene(.prosody)) { scene in
            let jid = try scene.addUser()
            let store = try HandlerStore(
                path: scene.folder.path + "/store.db",
                registry: HandlerRegistry([Published.self]),
                schemas: Account.schemas + OmemoService.schemas)
            let account = try scene.account(scene.configuration(of: jid, .startTLS), store: store)
            try await account.connect()

            let ids = [4223, 12345].compactMap { OmemoDeviceID(rawValue: $0) }
            let list = OmemoDeviceList(.legacy, devices: ids.map { .init($0) })
            try await account.send(
                .pubsub(
                    .publish(
                        PubSubItem(id: OmemoVersion.deviceListItem, payload: list.element),
                        on: OmemoVersion.legacy.deviceListNode, requiring: [.accessModel(.open)])),
                then: Published().durable)
            try await account.perform { try account.omemo.refresh(jid, .legacy, in: $0) }
            try await account.perform { try account.omemo.refresh(jid, .omemo2, in: $0) }

            func known(_ version: OmemoVersion) throws -> [OmemoDeviceID]? {
                try store.step { step in
                    try account.omemo.deviceLists.devices(of: jid, version, in: step)?
                        .filter(\.isListed).map(\.device.id)
                }
            }
            try await eventually("the list of the second version is known") {
                if try known(.omemo2) != nil { return true }
                try await account.caughtUp()
                return false
            }
            #expect(try known(.legacy) == ids)
            #expect(try known(.omemo2) == [])
        }
    }
}
