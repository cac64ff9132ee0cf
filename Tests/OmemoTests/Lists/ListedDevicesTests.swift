import Handlers
@testable import Omemo
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

/// The devices of a user over the lists of both versions.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ListedDevicesTests {
    @Test("S17 a device on both lists is shown once, with the versions that list it now and the last time")
    func both() throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(),
            schemas: Account.schemas + OmemoService.schemas, synchronous: .normal)
        try store.step { step in
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'romeo@localhost')")
            for version in OmemoService.versions {
                try step.execute(
                    "INSERT INTO omemo_device_list(account, jid, namespace, learned_at) VALUES (1, 'juliet@localhost', ?, 1)",
                    version.namespace)
            }
            let rows: [(device: Int, version: Int, seen: Int, removed: Int?)] = [
                (3, 0, 10, nil), (3, 1, 20, nil), (5, 0, 30, nil), (5, 1, 25, 40), (7, 1, 50, 60),
            ]
            for row in rows {
                try step.execute(
                    """
                    INSERT INTO omemo_device(account, jid, namespace, device, first_seen, last_seen, removed_at)
                    VALUES (1, 'juliet@localhost', ?, ?, 1, ?, ?)
                    """, OmemoService.versions[row.version].namespace, row.device, row.seen, row.removed)
            }
            try step.execute(
                "INSERT INTO omemo_device_identity(account, jid, device, identity) VALUES (1, 'juliet@localhost', 9, x'05')"
            )
            let devices = try OmemoKeyring(account: 1).devices(of: try JID("juliet@localhost"), in: step)
            let versions = OmemoService.versions
            #expect(devices.map(\.device.rawValue) == [3, 5, 7, 9])
            #expect(devices.map(\.versions) == [versions, [versions[0]], [], []])
            #expect(devices.map(\.lastListed?.milliseconds) == [20, 30, 50, nil])
        }
    }
}
