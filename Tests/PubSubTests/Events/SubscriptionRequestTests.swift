import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import PubSub
@testable import XMPPAccount

/// Who may subscribe to nodes whose owner must agree (XEP-0060 section 8.6).
@Suite(.ownThread) struct SubscriptionRequestTests {
    private let service = "pubsub.shakespeare.lit"

    /// The example of section 8.6.
    private func form(_ subscriber: String = "horatio@denmark.lit", kind: String = "form") -> String {
        """
        <x xmlns='jabber:x:data' type='\(kind)'><title>PubSub subscriber request</title>\
        <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#subscribe_authorization</value></field>\
        <field var='pubsub#subid' type='hidden'><value>123-abc</value></field>\
        <field var='pubsub#node' type='text-single' label='Node ID'><value>princely_musings</value></field>\
        <field var='pubsub#subscriber_jid' type='jid-single'><value>\(subscriber)</value></field>\
        <field var='pubsub#allow' type='boolean'><value>false</value></field></x>
        """
    }

    private func ask(
        _ account: EventAccount, _ form: String, from: String? = nil, id: String = "approve1",
        type: String = "normal"
    ) throws {
        try account.receive(
            Element(
                parsing: "<message from='\(from ?? service)' id='\(id)' type='\(type)'>\(form)</message>",
                defaultNamespace: Namespaces.client))
    }

    private func decide(_ account: EventAccount, at service: String? = nil, as key: String = "k") throws {
        try account.step { step in
            try account.pubsub.decideSubscriptions(
                at: JID(service ?? self.service), as: key, EventApp.Asked(tag: key).durable, in: step)
        }
    }

    private func sent(_ account: EventAccount) throws -> [Element] {
        try account.step { step in
            try step.all("SELECT xml FROM outbox WHERE kind = 0 ORDER BY seq") { (row) throws(HandlerError) in
                String(decoding: row.blob(0), as: UTF8.self)
            }
        }.map { try Element(parsing: $0, defaultNamespace: Namespaces.client) }
    }

    private let asked = "k pubsub.shakespeare.lit: horatio@denmark.lit princely_musings 123-abc"

    @Test(
        "P3 a request to subscribe is answered with the form filled in and the service's id, as XEP-0060 has it"
    )
    func allowed() async throws {
        let account = try EventAccount()
        try decide(account)
        try ask(account, form())
        try ask(account, form("mallory@evil.lit"), id: "approve2")
        #expect(try account.notes.first == asked)
        #expect(try account.notes.count == 2)
        func answer(_ subscriber: String, _ id: String, _ allow: String) throws -> Element {
            try Element(
                parsing: """
                    <message to='pubsub.shakespeare.lit' id='\(id)'><x xmlns='jabber:x:data' type='submit'>\
                    <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#subscribe_authorization</value></field>\
                    <field var='pubsub#subid'><value>123-abc</value></field>\
                    <field var='pubsub#node'><value>princely_musings</value></field>\
                    <field var='pubsub#subscriber_jid'><value>\(subscriber)</value></field>\
                    <field var='pubsub#allow'><value>\(allow)</value></field></x></message>
                    """, defaultNamespace: Namespaces.client)
        }
        let answers = try sent(account)
        #expect(answers.map { $0["to"] ?? "" } == [service, service])
        #expect(answers.map { $0["id"] } == ["approve1", "approve2"])
        #expect(
            try answers.map(\.firstElement) == [
                answer("horatio@denmark.lit", "approve1", "true").firstElement,
                answer("mallory@evil.lit", "approve2", "false").firstElement,
            ])
        await account.close()
    }

    @Test("P3 only the service that was named can ask; forms of others are messages and call nobody")
    func spoofed() async throws {
        let account = try EventAccount()
        try account.step { step in
            try account.account.listen(as: "test", EventApp.Message().durable, in: step)
        }
        try decide(account)
        let others = ["mallory@evil.example", service + ".evil.example", "x@" + service, service + "/x"]
        for from in others { try ask(account, form(), from: from, id: from) }
        #expect(try account.notes == others.map { "message \($0)" })
        _ = try account.takeNotes()
        try ask(account, form(), type: "error")
        try ask(account, form(kind: "submit"), id: "2")
        #expect(try !account.notes.contains { $0.hasPrefix("k ") })
        #expect(try sent(account).isEmpty)
        await account.close()
    }

    @Test(
        "P3 a form that does not say who wants to subscribe to what is ignored, and the stanzas behind it are not"
    )
    func incomplete() async throws {
        let account = try EventAccount()
        try decide(account)
        try ask(account, form("a@b@c"), id: "1")
        try ask(account, form().replacing("pubsub#node", with: "pubsub#no"), id: "2")
        #expect(try account.notes.isEmpty)
        try ask(account, form(), id: "3")
        #expect(try account.notes == [asked])
        await account.close()
    }

    @Test(
        "P3 the handler is stored: the next process is asked, once; a death before the commit leaves nothing")
    func nextProcess() async throws {
        let first = try EventAccount()
        try decide(first)
        let request = try Element(
            parsing: "<message from='\(service)' id='1'>\(form())</message>",
            defaultNamespace: Namespaces.client)
        try first.receive(request, isCommitted: false)
        await first.close()
        let second = try EventAccount(in: first.folder)
        #expect(try second.notes.isEmpty && sent(second).isEmpty)
        try second.receive(request)
        #expect(try second.notes == [asked])
        #expect(try sent(second).count == 1)
        let isStopped = try second.step { step in
            try second.pubsub.stopDecidingSubscriptions(at: JID(service), as: "k", in: step)
        }
        #expect(isStopped)
        try ask(second, form(), id: "2")
        #expect(try second.notes == [asked])
        await second.close()
    }

    @Test(
        "P3 a request can be stored as a value and answered later; a program that lacks the handler parks it")
    func later() async throws {
        let form = try #require(DataForm(Element(parsing: form())))
        let request = try #require(
            PubSubSubscriptionRequest(form, service: JID(service), messageID: "7"))
        let bytes = try ArgumentCoding.encode(request)
        #expect(try ArgumentCoding.value(PubSubSubscriptionRequest.self, from: bytes) == request)
        let old = try EventAccount(handlers: PubSubService.handlers)
        try decide(old)
        try ask(old, self.form())
        #expect(try old.number("SELECT count(*) FROM handler WHERE state = 1") == 1)
        await old.close()
        let new = try EventAccount(in: old.folder)
        try new.account.runner.start()
        let isQuarantined = "SELECT count(*) FROM handler WHERE state = 2"
        while try new.notes.isEmpty && new.number(isQuarantined) == 0 {
            _ = try await new.account.runner.drain(for: .seconds(20))
        }
        #expect(try new.notes == [asked])
        #expect(try sent(new).count == 1)
        await new.close()
    }
}
