import Handlers
@testable import Omemo
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
import XMPPTransport

/// Devices, keys and skipped messages that somebody makes up.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) struct OmemoBoundsTests {
    private static let evil = "evil@verona.lit"

    private func count(_ client: World.Client, _ rest: String) throws -> Int {
        Int(try client.store.number("SELECT count(*) FROM \(rest)"))
    }

    // MARK: Lists

    private static func list(_ devices: some Sequence<Int>, label: String = "") throws -> Element {
        let devices = devices.map { "<device id='\($0)'\(label)/>" }.joined()
        return try Element(
            parsing: """
                <message xmlns='jabber:client' from='\(evil)' type='headline'>\
                <event xmlns='http://jabber.org/protocol/pubsub#event'><items node='urn:xmpp:omemo:2:devices'>\
                <item id='current'><devices xmlns='urn:xmpp:omemo:2'>\(devices)</devices></item>\
                </items></event></message>
                """)
    }

    @Test(
        "X20 a user who lists other devices again and again leaves one list and 100 devices that have left it"
    )
    func removedDevices() async throws {
        let (world, _, b) = try World.pair()
        let size = OmemoDeviceList.maximumDevices
        for round in 0..<40 {
            world.clock.now += 1
            try world.receive(try Self.list((round * size + 1)...(round + 1) * size), b)
        }
        let known = try #require(
            try b.step { try b.omemo.deviceLists.devices(of: JID(Self.evil), .omemo2, in: $0) })
        #expect(known.count == size + OmemoDeviceListTable.maximumRemoved)
        #expect(
            known.filter(\.isListed).map(\.device.id.rawValue)
                == (UInt32(39 * size + 1)...UInt32(40 * size)).map(\.self))
        // Those that left last are remembered.
        #expect(known.filter { !$0.isListed }.allSatisfy { $0.device.id.rawValue > 38 * UInt32(size) })
        await world.close()
    }

    @Test("X20 the lists of strangers are limited; those of the account and of users in session stay")
    func lists() async throws {
        let (world, a, b) = try World.pairInSession()
        let before = try count(b, "omemo_device_list")
        _ = try b.step { step in
            try step.execute(
                """
                WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
                INSERT INTO omemo_device_list(account, jid, namespace, learned_at)
                SELECT ?, 's' || n || '@verona.lit', 'urn:xmpp:omemo:2', 1000000 + n FROM n
                """, 10 * OmemoDeviceListTable.maximumLists, b.account.id)
            try step.execute(
                """
                INSERT INTO omemo_device(account, jid, namespace, device, first_seen, last_seen)
                SELECT account, jid, namespace, 1, 0, 0 FROM omemo_device_list WHERE jid LIKE '%verona.lit'
                """)
        }
        world.clock.now += 100_000_000
        try world.receive(try Self.list([1]), b)
        #expect(try count(b, "omemo_device_list") == OmemoDeviceListTable.maximumLists)
        #expect(try count(b, "omemo_device") < OmemoDeviceListTable.maximumLists + 10)
        let kept = try b.texts(
            "SELECT DISTINCT jid FROM omemo_device_list WHERE jid NOT LIKE 's%@verona.lit'")
        #expect(Set(kept) == [juliet, romeo, Self.evil] && before >= 2)
        try a.send("three", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["three blind"])
        await world.close()
    }

    @Test("X20 a label and its signature are limited in bytes")
    func labels() throws {
        func label(_ text: String, _ signature: String) throws -> OmemoDeviceList.Label? {
            let device = "<device id='1' label='\(text)' labelsig='\(signature)'/>"
            return OmemoDeviceList(
                try Element(parsing: "<devices xmlns='urn:xmpp:omemo:2'>\(device)</devices>"))?.devices.first?
                .label
        }
        let longest = String(repeating: "x", count: 256)
        #expect(try label(longest, longest) == .init(longest, signature: longest))
        #expect(try label(longest + "x", "c2ln") == nil)
        #expect(try label("Phone", longest + "x") == nil)
        #expect(try label("e" + String(repeating: "\u{301}", count: 128), "c2ln") == nil)
    }

    // MARK: Sessions

    /// A message from a device that somebody makes up, which starts a session.
    private func exchange(_ device: Device, _ world: World, _ client: World.Client, skipping: Int = 0) throws
        -> Element
    {
        device.session = nil
        try device.start(with: world.bundle(client, .omemo2))
        return try message(device, client, skipping: skipping)
    }

    private func message(_ device: Device, _ client: World.Client, skipping: Int = 0) throws -> Element {
        for _ in 0..<skipping { _ = try device.encrypt("skipped", .omemo2) }
        // A content that nobody can read: only the key counts here.
        let encrypted = try device.encrypt("key", .omemo2)
        let own = try client.own.device
        let kex = encrypted.isKeyExchange ? " kex='true'" : ""
        return try Element(
            parsing: """
                <message xmlns='jabber:client' from='\(Self.evil)/x' type='chat'>\
                <encrypted xmlns='urn:xmpp:omemo:2'><header sid='\(device.own.device)'><keys jid='\(client.jid.bare)'>\
                <key rid='\(own)'\(kex)>\(Crypto.base64(encrypted.bytes))</key></keys></header></encrypted></message>
                """)
    }

    @Test(
        "X20 invented devices leave 32 sessions and what belongs to them; a device that is listed keeps its session"
    )
    func inventedDevices() async throws {
        let (world, _, b) = try World.pair()
        let listed = try Device(1)
        try world.receive(try Self.list([1]), b)
        try world.receive(exchange(listed, world, b), b)
        let limit = OmemoSessionTable.maximumUnlisted
        for number in 0..<UInt32(10 * limit) {
            world.clock.now += 1
            try world.receive(exchange(Device(100 + number), world, b), b)
        }
        let evil = "WHERE jid = '\(Self.evil)'"
        #expect(try count(b, "omemo_session \(evil)") == limit + 1)
        #expect(try count(b, "omemo_session \(evil) AND device = 1") == 1)
        #expect(try count(b, "omemo_session \(evil) AND device >= \(100 + 9 * limit)") == limit)
        #expect(try count(b, "omemo_device_identity \(evil)") == limit + 1)
        #expect(try count(b, "omemo_identity \(evil)") == limit + 1 + OmemoSessionTable.maximumUnusedKeys)
        #expect(try count(b, "omemo_duty \(evil)") == limit + 1)
        // The listed device goes on, and so does the last one.
        try world.receive(message(listed, b), b)
        #expect(try count(b, "omemo_duty \(evil) AND kind = 2") == 0)
        // Off the list, it makes way like the others.
        try world.receive(try Self.list([2]), b)
        #expect(try count(b, "omemo_session \(evil)") == limit)
        await world.close()
    }

    @Test("X20 a device that changes its key again and again leaves 100 keys that nobody has decided about")
    func inventedKeys() async throws {
        let (world, _, b) = try World.pair()
        var decided: IdentityKey?
        for round in 0..<10 * OmemoSessionTable.maximumUnusedKeys {
            world.clock.now += 1
            let device = try Device(7)
            try world.receive(exchange(device, world, b), b)
            guard round == 0 else { continue }
            decided = device.own.key
            _ = try b.step { step in
                try b.omemo.identities.set(.untrusted, in: device.own.key, of: JID(Self.evil), in: step)
            }
        }
        #expect(try count(b, "omemo_session WHERE jid = '\(Self.evil)'") == 1)
        // The one in use, and the one that the user has decided about.
        let limit = OmemoSessionTable.maximumUnusedKeys + 2
        #expect(try count(b, "omemo_identity WHERE jid = '\(Self.evil)'") == limit)
        let key = try #require(decided)
        #expect(
            try b.step { try b.omemo.identities.trust(in: key, of: JID(Self.evil), in: $0) } == .untrusted)
        await world.close()
    }

    @Test(
        "X20 the sessions of all users are limited; the one that was not used for longest goes, with its keys"
    )
    func allSessions() async throws {
        let (world, _, b) = try World.pair()
        _ = try b.step { step in
            try step.execute(
                """
                WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
                INSERT INTO omemo_session(account, jid, device, namespace, record, identity, used_at)
                SELECT ?2, 's' || n || '@verona.lit', 1, 'urn:xmpp:omemo:2', x'', CAST(n AS BLOB), n - 1000000 FROM n
                """, 10 * OmemoSessionTable.maximum, b.account.id)
            for table in [
                "omemo_identity(account, jid, identity, trust, first_seen) SELECT account, jid, identity, 0, 0",
                "omemo_device_identity(account, jid, device, identity) SELECT account, jid, device, identity",
            ] { try step.execute("INSERT INTO \(table) FROM omemo_session WHERE jid LIKE 's%@verona.lit'") }
        }
        try world.receive(exchange(Device(1), world, b), b)
        #expect(try count(b, "omemo_session") == OmemoSessionTable.maximum)
        #expect(try count(b, "omemo_session WHERE jid = '\(Self.evil)'") == 1)
        #expect(
            try count(b, "omemo_session WHERE jid = 's\(10 * OmemoSessionTable.maximum)@verona.lit'") == 1)
        #expect(try count(b, "omemo_device_identity") == OmemoSessionTable.maximum)
        #expect(try count(b, "omemo_identity") == OmemoSessionTable.maximum)
        await world.close()
    }

    // MARK: Records

    @Test(
        "X20 a record holds at most eight older sessions and 128 KiB with the keys of skipped messages, in the memory of a worker"
    )
    func records() async throws {
        // Its peak is that of a process of its own.
        await #expect(processExitsWith: .success) {
            let tests = OmemoBoundsTests()
            let (world, _, b) = try World.pair()
            let device = try Device(7)
            try world.receive(tests.exchange(device, world, b), b)
            let resident = try PhysicalMemory.resident
            for _ in 0..<20 {
                try world.receive(tests.exchange(device, world, b, skipping: 990), b)
                try #require(try tests.count(b, "omemo_session WHERE length(record) > 131072") == 0)
            }
            try #require(try tests.count(b, "omemo_session WHERE length(record) > 50000 AND device = 7") == 1)
            for _ in 0..<80 { try world.receive(tests.exchange(device, world, b), b) }
            let row = try b.step { try b.omemo.sessions.session(with: tests.address(7), in: $0) }
            let record = try SessionRecord(try #require(row?.record))
            let older = record.olderCount
            try #require(older == SessionRecord.maximumOlder)
            let growth = try PhysicalMemory.peak - resident
            try #require(growth <= 10 * 1024, "\(growth) KiB more")
            // Nobody has asked for anything to be repaired: all of them were read.
            try #require(try tests.count(b, "omemo_duty WHERE kind = 2") == 0)
        }
    }

    private func address(_ device: UInt32) throws -> OmemoAddress {
        OmemoAddress(
            jid: try JID(Self.evil), device: try #require(OmemoDeviceID(rawValue: device)), version: .omemo2)
    }

    @Test("X20 a message that skips too many is not read and changes nothing; a new session is offered")
    func skippedTooFar() async throws {
        let (world, _, b) = try World.pair()
        let device = try Device(7)
        try world.receive(exchange(device, world, b), b)
        func record() throws -> [UInt8]? {
            try b.step { try b.omemo.sessions.session(with: self.address(7), in: $0) }?.record
        }
        let before = try record()
        let far = try message(device, b, skipping: 1700)
        try world.receive(far, b)
        #expect(try record() == before)
        #expect(try count(b, "omemo_duty WHERE kind = 2 AND device = 7") == 1)
        await world.close()
    }

    @Test("X20 of the records that are held open in a step, those beyond 2 MiB are not")
    func openRecords() throws {
        let own = try Device(1).own
        let opened = OpenSessions()
        let version = OmemoVersion.omemo2
        for number in UInt32(1)...40 {
            let peer = OmemoAddress(
                jid: try JID(Self.evil), device: try #require(OmemoDeviceID(rawValue: number)),
                version: version)
            let record = [UInt8](repeating: 1, count: SessionRecord.maximumBytes)
            let memory = opened.memory(own, with: peer, record: record)
            opened.keep(memory, with: peer)
            // Used again, it counts once.
            opened.keep(opened.memory(own, with: peer, record: record), with: peer)
        }
        #expect(opened.count == OpenSessions.byteLimit / SessionRecord.maximumBytes)
    }
}
