import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import PubSub
@testable import XMPPAccount

/// Events as odd and as large as they may be.
@Suite(.ownThread) struct EventLimitsTests {
    private let juliet = "juliet@capulet.example"
    private let node = EventAccount.node

    @Test(
        "P4 nodes with names that look like XML, have spaces, or are 2500 characters long are distinguished",
        arguments: [
            "a b", " ", "<a&b>'\"", "x\ny\tz", "{urn:x}y", "node+notify", "\u{1F600}\u{5D0}", "%_*?",
            String(repeating: "n", count: 2500),
        ])
    func oddNames(name: String) async throws {
        let account = try EventAccount()
        try account.listen(to: name, of: juliet, as: "with a space", tag: "hers")
        try account.listen(to: name, tag: "all")
        try account.listen(to: name + "x", tag: "other")
        var event = try EventAccount.event(EventAccount.nick("Jule"))
        let items = Element(
            "items", namespace: Namespaces.pubsubEvent, attributes: ["node": name],
            children: [Element("item", namespace: Namespaces.pubsubEvent, attributes: ["id": "1"])])
        event.children = [
            .element(Element("event", namespace: Namespaces.pubsubEvent, children: [items]))
        ]
        try account.receive(Element(parsing: event.serialized()))
        #expect(try Set(account.notes) == Set(["hers", "all"].map { "\($0) \(juliet) \(name): items 1=-" }))
        #expect(try account.wanted == [name + "+notify", name + "x+notify"])
        await account.close()
    }

    @Test("P4 an event that holds as much as a stanza may is taken in, and kept whole for a later attempt")
    func manyItems() async throws {
        let account = try EventAccount(handlers: PubSubService.handlers)
        let knowing = try EventAccount(in: account.folder)
        try knowing.listen()
        await knowing.close()
        // With a prefix it is a third as large as it is written down.
        let items = (0..<10_000).map { "<item id='\($0)'><x:a/></item>" }.joined()
        try account.receive(
            Element(
                parsing:
                    "<message from='\(juliet)' type='headline'><event xmlns='http://jabber.org/protocol/pubsub#event' xmlns:x='urn:\(String(repeating: "long", count: 30))'><items node='\(node)'>\(items)</items></event></message>",
                defaultNamespace: Namespaces.client))
        #expect(try account.number("SELECT max(length(input)) FROM handler") > 1 << 20)
        await account.close()
        let later = try EventAccount(in: account.folder)
        try later.account.runner.start()
        let isQuarantined = "SELECT count(*) FROM handler WHERE state = 2"
        while try later.notes.isEmpty && later.number(isQuarantined) == 0 {
            _ = try await later.account.runner.drain(for: .seconds(20))
        }
        #expect(try later.notes.first?.hasSuffix("9999=") == true)
        await later.close()
    }
}
