import Handlers
import TestSupport
@testable import Omemo
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules
import XMPPTransport

/// What others say in a name or under a number that is not theirs, and what comes back as an error.
@Suite(.ownThread) struct ForgedTests {
    private func pair() throws -> (World, World.Client, World.Client) {
        let (world, a, b) = try World.pair()
        for (one, other) in [(a, romeo), (b, juliet), (a, romeo)] {
            try one.send("hello", to: other)
            try world.settle()
        }
        _ = (try a.heard(), try b.heard())
        return (world, a, b)
    }

    @Test("O5 a message of ours that comes back as an error is none of the other side's")
    func bounced() async throws {
        let (world, a, _) = try pair()
        var bounced = try #require(
            a.sent.first { $0.child("encrypted", OmemoVersion.omemo2.namespace) != nil })
        (bounced["type"], bounced["from"], bounced["to"]) = ("error", ForeignText(romeo), "\(juliet)/a")
        bounced.append(StanzaError(.serviceUnavailable).element)
        try world.receive(bounced, a)
        #expect(try a.heard() == [])
        await world.close()
    }

    private func list(_ devices: [UInt32], publisher: String? = nil) throws -> Element {
        let devices = devices.map { "<device id='\($0)'/>" }.joined()
        let publisher = publisher.map { " publisher='\($0)'" } ?? ""
        return try Element(
            parsing: """
                <event xmlns='http://jabber.org/protocol/pubsub#event'><items node='urn:xmpp:omemo:2:devices'>\
                <item id='current'\(publisher)><devices xmlns='urn:xmpp:omemo:2'>\(devices)</devices></item>\
                </items></event>
                """)
    }

    private func message(_ event: Element, from: String, type: String = "headline") -> Element {
        Element(
            "message", namespace: Namespaces.client, attributes: ["from": from, "type": type],
            children: [event])
    }

    @Test(
        "O2 a device list is its owner's: none from a resource, an error, a copy or another publisher is taken"
    )
    func spoofedList() async throws {
        let (world, a, b) = try pair()
        let device = try a.own.device.rawValue
        func known() throws -> [UInt32] {
            let devices =
                try b.step { try b.omemo.deviceLists.devices(of: JID(juliet), .omemo2, in: $0) } ?? []
            return devices.filter(\.isListed).map(\.device.id.rawValue)
        }
        let copied = Element(
            "received", namespace: Namespaces.carbons,
            children: [
                Element(
                    "forwarded", namespace: Namespaces.forward,
                    children: [message(try list([666]), from: juliet)])
            ])
        let forged = [
            message(try list([666]), from: juliet + "/x"),
            message(try list([666]), from: juliet, type: "error"),
            message(try list([666]), from: "evil@verona.lit"),
            message(try list([666], publisher: "evil@verona.lit/x"), from: juliet),
            message(try list([666], publisher: "@"), from: juliet),
        ]
        for stanza in forged {
            try world.receive(stanza, b)
            #expect(try known() == [device], "\(stanza)")
        }
        try world.receive(message(copied, from: romeo, type: "chat"), b, isRefused: true)
        #expect(try known() == [device])
        try world.receive(message(try list([device, 777], publisher: juliet + "/a"), from: juliet), b)
        #expect(try known() == [device, 777].sorted())
        await world.close()
    }

    @Test(
        "O5 numbers of devices that somebody makes up cost a limited number of repairs, and leave nothing behind"
    )
    func madeUpDevices() async throws {
        let (world, a, b) = try pair()
        let own = try b.own.device
        let last = try #require(a.sent.last?.child("encrypted", OmemoVersion.omemo2.namespace))
        let read = try #require(try OmemoEncrypted.read(last, for: own, of: JID(romeo)))
        let key = Crypto.base64(try #require(read.keys.first { !$0.isKeyExchange }).bytes)
        for number in 1000..<1150 {
            let xml = """
                <message xmlns='jabber:client' from='evil@verona.lit/x' id='\(number)' type='chat'>\
                <encrypted xmlns='urn:xmpp:omemo:2'><header sid='\(number)'><keys jid='\(romeo)'>\
                <key rid='\(own)'>\(key)</key></keys></header><payload>AAAA</payload></encrypted></message>
                """
            try world.receive(try Element(parsing: xml), b)
        }
        #expect(try b.heard().count == 150)
        func rows(_ table: String) throws -> [String] {
            try b.texts("SELECT count(*) FROM omemo_\(table) WHERE jid = 'evil@verona.lit'")
        }
        try world.settle()
        #expect(try rows("duty") == ["\(OmemoDutyTable.maximumEach)"])
        #expect(try rows("fetch") == ["\(OmemoDutyTable.maximumEach)"])
        world.clock.now += OmemoDutyTable.repairPause.milliseconds + 1
        try world.settle()
        #expect(try rows("duty") == ["0"])
        #expect(try rows("fetch") == ["0"])
        await world.close()
    }

    @Test(
        "O8 who speaks under a name in a room is whom the room shows there, not whom the program named once")
    func nameTakenOver() async throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(),
            schemas: Account.schemas + OmemoService.schemas)
        var configuration = AccountConfiguration(jid: try JID(romeo), password: "none")
        configuration.modules = .standard + [OmemoModule()]
        let account = try Account(configuration, store: store)
        let room = try JID("garden@rooms.lit")
        let found = try store.step { step -> [JID?] in
            try account.omemo.setMembers([JID(juliet): "flower"], of: room, in: step)
            let told = try account.omemo.sender(named: "flower", of: room, in: step)
            _ = try account.rooms.join(room, as: "romeo", in: step)
            try step.execute(
                """
                INSERT INTO occupant(account, room, nick, jid, affiliation, role)
                VALUES (?, ?, 'flower', 'evil@verona.lit/x', 'member', 'participant')
                """, account.id, room.description)
            return [told, try account.omemo.sender(named: "flower", of: room, in: step)]
        }
        #expect(found == [try JID(juliet), try JID("evil@verona.lit")])
        await account.close()
    }
}
