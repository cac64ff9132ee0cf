import Handlers
import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// Asking for a list and taking the answer over: only "not found" empties it.
@Suite(.ownThread) struct DeviceListRefreshTests {
    private func refresh(_ offline: RefreshAccount, _ version: OmemoVersion = .omemo2, fails: Bool = false)
        throws
        -> String
    {
        try offline.store.step { step in
            try offline.account.omemo.refresh(
                JID(juliet + "/balcony"), version, then: RefreshAccount.Refreshed(fails: fails).durable,
                orElse: RefreshAccount.Abandoned().durable, in: step)
        }
    }

    private func result(_ id: String, _ items: String, node: String = "urn:xmpp:omemo:2:devices") -> String {
        """
        <iq type='result' id='\(id)' from='\(juliet)'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
        <items node='\(node)'>\(items)</items></pubsub></iq>
        """
    }

    private func list(_ numbers: Int..., item: String = "current") -> String {
        let devices = numbers.map { "<device id='\($0)'/>" }.joined()
        return "<item id='\(item)'><devices xmlns='urn:xmpp:omemo:2'>\(devices)</devices></item>"
    }

    private func error(_ id: String, _ condition: String) -> String {
        """
        <iq type='error' id='\(id)' from='\(juliet)'><error type='cancel'>\
        <\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
        """
    }

    /// An account that knows devices 3 and 5 of Juliet's since 10.
    private func knowing() throws -> RefreshAccount {
        let offline = try RefreshAccount()
        offline.clock.now = 10
        try offline.receive(result(refresh(offline), list(3, 5)))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes == ["juliet@capulet.lit +[3, 5] ±[] -[]"])
        offline.clock.now = 20
        return offline
    }

    private static let known = ["3 10 10 listed", "5 10 10 listed"]

    @Test(
        "O2 a refresh asks the user's bare address for the newest item of the version's node",
        arguments: OmemoVersion.allCases)
    func request(_ version: OmemoVersion) async throws {
        let offline = try RefreshAccount()
        let id = try refresh(offline, version)
        #expect(
            try offline.store.texts("SELECT CAST(xml AS TEXT) FROM outbox") == [
                """
                <iq type='get' id='\(id)' to='juliet@capulet.lit'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                <items node='\(version.deviceListNode)' max_items='1'/></pubsub></iq>
                """
            ])
        await offline.close()
    }

    @Test("O2 a list is merged in the step of its answer")
    func merged() async throws {
        let offline = try knowing()
        try offline.receive(result(refresh(offline), list(5, 8)))
        #expect(try offline.devices(of: juliet) == ["3 10 10 20", "5 10 20 listed", "8 20 20 listed"])
        #expect(try offline.notes.last == "juliet@capulet.lit +[8] ±[] -[3]")
        await offline.close()
    }

    @Test("O2 not found, or a node without items, means that the user has no devices")
    func notFound() async throws {
        for isThere in [false, true] {
            let offline = try knowing()
            let id = try refresh(offline)
            try offline.receive(isThere ? result(id, "") : error(id, "item-not-found"))
            #expect(try offline.devices(of: juliet) == ["3 10 10 20", "5 10 10 20"])
            #expect(try offline.notes.last == "juliet@capulet.lit +[] ±[] -[3, 5]")
            await offline.close()
        }
    }

    @Test(
        "O2 an error leaves the stored list untouched",
        arguments: [
            "forbidden", "service-unavailable", "remote-server-timeout", "remote-server-not-found",
            "internal-server-error",
        ])
    func error(_ condition: String) async throws {
        let offline = try knowing()
        try offline.receive(error(refresh(offline), condition))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes.last == "juliet@capulet.lit error \(condition)")
        await offline.close()
    }

    @Test("O2 a timeout leaves the stored list untouched")
    func timedOut() async throws {
        let offline = try knowing()
        try offline.expire(refresh(offline))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes.last == "juliet@capulet.lit timed out")
        await offline.close()
    }

    @Test(
        "O2 a lost session leaves the stored list untouched and calls the invalidation of the program's handler"
    )
    func sessionLost() async throws {
        let offline = try knowing()
        try offline.lose(refresh(offline))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes.last == "test.refreshed session-lost")
        await offline.close()
    }

    @Test(
        "O2 a node without a list that can be read leaves the stored list untouched",
        arguments: [
            "<item id='current'/>",
            "<item id='current'><list xmlns='eu.siacs.conversations.axolotl'/></item>",
            "<item id='current'><devices xmlns='urn:xmpp:omemo:2'><device id='0'/></devices></item>",
            "<item id='a'><devices xmlns='urn:xmpp:omemo:2'/></item><item id='b'/>",
        ])
    func unreadable(_ items: String) async throws {
        let offline = try knowing()
        try offline.receive(result(refresh(offline), items))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes.last == "juliet@capulet.lit unreadable")
        await offline.close()
    }

    @Test("O2 an answer about another node leaves the stored list untouched")
    func anotherNode() async throws {
        let offline = try knowing()
        try offline.receive(result(refresh(offline), "", node: "urn:xmpp:omemo:2:bundles"))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes.last == "juliet@capulet.lit error undefined-condition")
        await offline.close()
    }

    @Test("O2 the list is the newest item, whatever its id")
    func whichItem() async throws {
        let offline = try knowing()
        try offline.receive(result(refresh(offline), list(1, item: "old") + list(2) + list(4, item: "other")))
        #expect(try offline.notes.last == "juliet@capulet.lit +[4] ±[] -[3, 5]")
        try offline.receive(result(refresh(offline), list(1, item: "d41d8cd9")))
        #expect(try offline.notes.last == "juliet@capulet.lit +[1] ±[] -[4]")
        try offline.receive(result(refresh(offline), list()))
        #expect(try offline.notes.last == "juliet@capulet.lit +[] ±[] -[1]")
        await offline.close()
    }

    @Test("O2 the program's handler and the merge are done together or not at all")
    func together() async throws {
        let offline = try knowing()
        try offline.receive(result(refresh(offline, fails: true), list(8)))
        #expect(try offline.devices(of: juliet) == Self.known)
        #expect(try offline.notes.count == 1)
        #expect(try offline.store.texts("SELECT name FROM handler WHERE state = 2") == ["pubsub.answered"])
        await offline.close()
    }

    @Test("O2 a refresh needs no handler of the program's")
    func withoutHandler() async throws {
        let offline = try RefreshAccount()
        let account = offline.account
        let jid = try JID(juliet)
        let id = try await account.perform { try account.omemo.refresh(jid, .omemo2, in: $0) }
        try offline.receive(result(id, list(7)))
        #expect(try offline.devices(of: juliet) == ["7 1000 1000 listed"])
        let lost = try await account.perform { try account.omemo.refresh(jid, .omemo2, in: $0) }
        try offline.lose(lost)
        #expect(try offline.devices(of: juliet) == ["7 1000 1000 listed"])
        await offline.close()
    }

    @Test("O2 an account without the module is notified when it starts")
    func withoutModule() async throws {
        let offline = try RefreshAccount()
        let error = await #expect(throws: AccountError.self) { try await offline.account.omemo.start() }
        #expect(error?.code == .missingModule)
        #expect(error?.message.contains("'omemo'") == true)
        await offline.close()
    }
}
