import Handlers
@testable import Omemo
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// A store that an older version left, filled by somebody who makes devices and skipped messages up.
@Suite(.ownThread, .timeLimit(.minutes(5))) struct OmemoOldStoreTests {
    private static let (lists, devices) = (3, 40_000)

    private static func makeStore(_ path: String) throws {
        let omemo = OmemoDeviceListTable.schema
        let old = Schema(module: omemo.module.string, migrations: Array(omemo.migrations.prefix(3)))
        let numbers = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)"
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + [old], synchronous: .normal)
        try store.step { step in
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'romeo@localhost')")
            try step.execute(
                "\(numbers) INSERT INTO omemo_device_list SELECT 1, 'evil' || n || '@verona.lit', 'urn:xmpp:omemo:2', 1, NULL FROM n",
                lists)
            // All but 50 have left the list; one in a hundred has a label of 50 KB.
            try step.execute(
                """
                \(numbers)
                INSERT INTO omemo_device(
                    account, jid, namespace, device, label, label_signature, first_seen, last_seen, removed_at)
                SELECT 1, jid, namespace, n, iif(n % 100 = 0, hex(zeroblob(25000)), 'phone'), 'c2ln', n, n,
                    iif(n > 50, n, NULL)
                FROM omemo_device_list CROSS JOIN n
                """, devices)
            // Records with thousands of skipped keys.
            try step.execute(
                """
                \(numbers) INSERT INTO omemo_session(account, jid, device, namespace, record, identity)
                SELECT 1, 'evil1@verona.lit', n, 'urn:xmpp:omemo:2', zeroblob(iif(n > 2, 7470000, 900)), x'05' FROM n
                """, 12)
        }
    }

    @Test(
        "X20 an old store with 120 000 devices that left their lists and records of 7 MB opens within the memory of a worker; listed devices and records within the bound stay"
    )
    func opens() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        try Self.makeStore(path)
        await #expect(processExitsWith: .success) { [path = path as String] in
            let schemas = Account.schemas + OmemoService.schemas
            // The code that opens a store does not count.
            _ = try HandlerStore(path: path + ".other", registry: HandlerRegistry(), schemas: schemas)
            try PhysicalMemory.withinWorker {
                let store = try HandlerStore(path: path, registry: HandlerRegistry(), schemas: schemas)
                func number(_ sql: String) throws -> Int64 {
                    try store.step { step in
                        try step.first(sql) { (row) throws(HandlerError) in row.integer(0) } ?? -1
                    }
                }
                let table = OmemoDeviceListTable(account: 1)
                for list in 1...Self.lists {
                    let jid = try JID("evil\(list)@verona.lit")
                    let known = try #require(try store.step { try table.devices(of: jid, .omemo2, in: $0) })
                    try #require(known.filter(\.isListed).map(\.device.id.rawValue) == Array(1...50))
                    // Those that left last.
                    let removed = known.filter { !$0.isListed }.map { Int($0.device.id.rawValue) }
                    let last = Self.devices - OmemoDeviceListTable.maximumRemoved + 1...Self.devices
                    try #require(removed == Array(last))
                }
                try #require(
                    try number("SELECT max(length(label)) FROM omemo_device")
                        <= OmemoDeviceList.maximumLabelLength)
                try #require(try number("SELECT count(*) FROM omemo_session") == 2)
                try #require(try number("SELECT max(length(record)) FROM omemo_session") == 900)
            }
        }
    }
}
