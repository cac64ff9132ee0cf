import AccountTestKit
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import Omemo
@testable import XMPPAccount
@testable import XMPPModules

/// What a user's server pushes about a device list, as PubSub means it.
@Suite(.ownThread) struct DeviceListEventTests {
    private static let version = OmemoVersion.legacy

    private static func list(_ numbers: Int..., item: String? = "current") -> String {
        let devices = numbers.map { "<device id='\($0)'/>" }.joined()
        let list = "<list xmlns='\(version.namespace)'>\(devices)</list>"
        return "<item\(item.map { " id='\($0)'" } ?? "")>\(list)</item>"
    }

    private static func event(_ content: String) -> String {
        "<event xmlns='\(Namespaces.pubsubEvent)'>\(content)</event>"
    }

    private static func items(_ content: String) -> String {
        event("<items node='\(version.deviceListNode)'>\(content)</items>")
    }

    /// An account that knows devices 3 and 5 of Juliet's by an event.
    private func knowing() throws -> RefreshAccount {
        let offline = try RefreshAccount()
        try push(Self.items(Self.list(3, 5)), to: offline)
        #expect(try listed(offline) == [3, 5])
        return offline
    }

    private func push(_ event: String, to offline: RefreshAccount, from sender: String = juliet) throws {
        let element = try Element(parsing: event)
        try offline.store.step { step in
            try offline.account.omemo.learn(event: element, from: JID(sender), in: step)
        }
    }

    private func listed(_ offline: RefreshAccount) throws -> [UInt32] {
        try offline.store.step { step in
            try offline.account.omemo.deviceLists.devices(of: JID(juliet), Self.version, in: step)?
                .filter(\.isListed).map(\.device.id.rawValue) ?? []
        }
    }

    /// The requests for lists that were sent since.
    private func requests(_ offline: RefreshAccount) throws -> [Element] {
        let sent = try offline.offline.sent.filter { $0["to"] == ForeignText(juliet) }
        _ = try offline.store.step { try $0.execute("DELETE FROM outbox") }
        return sent
    }

    private func answer(_ request: Element, _ items: String, to offline: RefreshAccount) throws {
        try offline.receive(
            """
            <iq type='result' id='\(request["id"] ?? "")' from='\(juliet)'><pubsub xmlns='\(Namespaces.pubsub)'>\
            <items node='\(Self.version.deviceListNode)'>\(items)</items></pubsub></iq>
            """)
    }

    private func isFresh(_ offline: RefreshAccount) throws -> Bool {
        try offline.store.number("SELECT count(*) FROM omemo_device_list WHERE session IS NOT NULL") == 1
    }

    @Test(
        "X34 an event that does not say what is on the list has it fetched, and what is sent waits for that",
        arguments: [
            items("<item id='current'/>"), items(""), items("<retract id='current'/>"),
            items("<retract id='another'/>"), items(list(3, 5) + "<item id='current'/>"),
        ])
    func fetched(event: String) async throws {
        let offline = try knowing()
        try push(event, to: offline)
        try push(event, to: offline)
        let requests = try requests(offline)
        #expect(requests.count == 1, "one at a time")
        #expect(try !isFresh(offline))
        #expect(try listed(offline) == [3, 5], "until the answer comes")
        try answer(try #require(requests.first), Self.list(3, 33), to: offline)
        #expect(try listed(offline) == [3, 33])
        #expect(try isFresh(offline))
        await offline.close()
    }

    @Test("X34 after a retraction a node without items, or that is gone, means that there are no devices")
    func emptied() async throws {
        for items in ["", nil] {
            let offline = try knowing()
            try push(Self.items("<retract id='current'/>"), to: offline)
            let request = try #require(try requests(offline).first)
            if let items {
                try answer(request, items, to: offline)
            } else {
                try offline.receive(
                    """
                    <iq type='error' id='\(request["id"] ?? "")' from='\(juliet)'><error type='cancel'>\
                    <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
                    """)
            }
            #expect(try listed(offline) == [])
            await offline.close()
        }
    }

    @Test(
        "X34 a list that was deleted or purged names no devices",
        arguments: ["delete", "purge"])
    func deleted(name: String) async throws {
        let offline = try knowing()
        try push(Self.event("<\(name) node='urn:another'/>"), to: offline)
        #expect(try listed(offline) == [3, 5])
        try push(Self.event("<\(name) node='\(Self.version.deviceListNode)'/>"), to: offline)
        #expect(try listed(offline) == [])
        #expect(try requests(offline).isEmpty)
        await offline.close()
    }

    @Test("X34 the newest item counts in an event as in an answer, whatever its id")
    func newest() async throws {
        for (items, expected) in [
            (Self.list(9, item: "old") + Self.list(11, 22), [11, 22]),
            (Self.list(9) + Self.list(11, 22, item: "327058251"), [11, 22]),
            (Self.list(9, item: nil), [9]),
        ] as [(String, [UInt32])] {
            let pushed = try knowing()
            try push(Self.items(items), to: pushed)
            #expect(try listed(pushed) == expected)
            await pushed.close()
            let asking = try knowing()
            try push(Self.items(""), to: asking)
            try answer(try #require(try requests(asking).first), items, to: asking)
            #expect(try listed(asking) == expected)
            await asking.close()
        }
    }

    @Test("X34 an item that somebody else published is passed over, and the newest of the owner's counts")
    func publishers() async throws {
        let offline = try knowing()
        func by(_ publisher: String, _ item: String) -> String {
            item.replacing("<item", with: "<item publisher='\(publisher)'")
        }
        for publisher in ["mallory@capulet.lit/x", "@@@"] {
            try push(Self.items(by(publisher, Self.list(66))), to: offline)
            #expect(try listed(offline) == [3, 5])
        }
        try push(
            Self.items(by("\(juliet)/a", Self.list(7)) + by("mallory@capulet.lit/x", Self.list(66))),
            to: offline)
        #expect(try listed(offline) == [7])
        #expect(try requests(offline).isEmpty)
        await offline.close()
    }

    @Test("X34 a stranger's events cause no requests, a contact's do") func strangers() async throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry([]),
            schemas: Account.schemas + OmemoService.schemas)
        var configuration = AccountConfiguration(jid: try JID(romeo), password: "none")
        configuration.modules = [RosterModule()]
        let offline = try OfflineAccount(configuration, store: store)
        let events =
            ["<item id='current'/>", "<retract id='current'/>"].map(Self.items)
            + [Self.event("<delete node='\(Self.version.deviceListNode)'/>")]
        func push() throws {
            for event in events {
                let element = try Element(parsing: event)
                try store.step { try offline.account.omemo.learn(event: element, from: JID(juliet), in: $0) }
            }
        }
        try push()
        #expect(try offline.sent.isEmpty)
        #expect(try store.number("SELECT count(*) FROM omemo_device_list") == 0)
        try store.step { step in
            try step.execute(
                """
                INSERT INTO roster_item(account, jid, subscription, ask, approved, groups)
                VALUES (?, ?, 'both', 0, 0, '[]')
                """, offline.account.id, juliet)
        }
        try push()
        #expect(try offline.sent.count == 1)
        await offline.close()
    }
}
