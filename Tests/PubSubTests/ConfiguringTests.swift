import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// Publishing on a node that is configured otherwise: publish, configure, publish again, as one chain.
@Suite(.ownThread) struct ConfiguringTests {
    private let publish = """
        <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='nick'><item id='current'>\
        <nick xmlns='urn:n'>Jule</nick></item></publish><publish-options><x xmlns='jabber:x:data' type='submit'>\
        <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
        <field var='pubsub#access_model'><value>open</value></field></x></publish-options></pubsub>
        """
    private let configure = """
        <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='nick'><x xmlns='jabber:x:data' type='submit'>\
        <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#node_config</value></field>\
        <field var='pubsub#access_model'><value>open</value></field></x></configure></pubsub>
        """
    private let unmet = """
        <error type='cancel'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
        <precondition-not-met xmlns='http://jabber.org/protocol/pubsub#errors'/></error>
        """
    private let forbidden =
        "<error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
    private let item = PubSubItem(
        id: "current", payload: Element("nick", namespace: "urn:n", text: "Jule"))

    private func start(_ offline: PubSubAccount, configuring: Bool = true, timeout: Duration? = nil) throws {
        let (then, orElse) = try (Notes.Published(tag: "p").durable, Notes.Abandoned(tag: "a").durable)
        _ = try offline.store.step { step in
            try offline.account.send(
                .pubsub(
                    .publish(item, on: "nick", requiring: [.accessModel(.open)], configuring: configuring)),
                then: then, orElse: orElse, timeout: timeout, in: step)
        }
    }

    private func answer(_ offline: PubSubAccount, _ type: String, _ xml: String = "") throws -> String {
        "<iq type='\(type)' id='\(try #require(try offline.newestID))'>\(xml)</iq>"
    }

    /// The payloads that were asked to be sent, in order.
    private func sent(_ offline: PubSubAccount) throws -> [String] {
        try offline.outbox.map { xml in
            let iq = try IQ(element: Element(parsing: xml, defaultNamespace: Namespaces.client))
            #expect(iq.type == .set)
            #expect(iq.to == nil)
            return iq.payload?.serialized() ?? ""
        }
    }

    private let published = "p main alice@example.test nick: published current"

    @Test(
        "P6 X26 a precondition that is not met leads to the configuration and to publishing again, in these words"
    )
    func chain() async throws {
        let kept = KeptLog(level: .verbose)
        let offline = try PubSubAccount(log: kept.log)
        try start(offline)
        #expect(try sent(offline) == [publish])
        try offline.receive(answer(offline, "error", unmet))
        #expect(try sent(offline) == [publish, configure])
        #expect(try offline.rows.map(\.name) == ["pubsub.answered"])
        try offline.receive(answer(offline, "result"))
        #expect(try sent(offline) == [publish, configure, publish])
        #expect(try offline.notes == [])
        try offline.receive(answer(offline, "result"))
        #expect(try offline.notes == [published])
        #expect(try offline.rows == [])
        #expect(
            kept.entries.filter { $0.module == "pubsub" }.map { "\($0.level) \($0.message)" } == [
                "verbose asks the own account: publish nick",
                "info the node nick does not meet the preconditions; configures it and publishes again",
            ])
        #expect(
            try offline.endings == [
                "pubsub.answered error", "pubsub.answered result", "pubsub.answered result",
            ])
        await offline.close()
    }

    @Test(
        "P6 the process dies before and after each commit of the chain, and it goes on in the next one",
        arguments: 0...7)
    func deaths(_ deaths: Int) async throws {
        let folder = try TemporaryFolder()
        var offline = try PubSubAccount(in: folder)
        try start(offline)
        for (index, (type, xml)) in [("error", unmet), ("result", ""), ("result", "")].enumerated() {
            let answer = try answer(offline, type, xml)
            if deaths & (1 << index) != 0 {
                try offline.offline.receiveAndDie(answer)
                await offline.close()
                offline = try PubSubAccount(in: folder)
            }
            try offline.receive(answer)
            await offline.close()
            offline = try PubSubAccount(in: folder)
        }
        #expect(try sent(offline) == [publish, configure, publish])
        #expect(try offline.notes == [published])
        #expect(try offline.rows == [])
        await offline.close()
    }

    @Test("P6 it is done once: what is still not met then is reported")
    func once() async throws {
        let offline = try PubSubAccount()
        try start(offline)
        for (type, xml) in [("error", unmet), ("result", ""), ("error", unmet)] {
            try offline.receive(answer(offline, type, xml))
        }
        #expect(try offline.notes == ["p main alice@example.test nick: precondition not met"])
        #expect(try sent(offline).count == 3)
        #expect(try offline.rows == [])
        await offline.close()
    }

    @Test("P6 without being asked for nothing is configured; nor for another error, nor without options")
    func notAsked() async throws {
        let offline = try PubSubAccount()
        try start(offline, configuring: false)
        try offline.receive(answer(offline, "error", unmet))
        try start(offline)
        try offline.receive(answer(offline, "error", forbidden))
        let then = try Notes.Published(tag: "q").durable
        _ = try offline.store.step { step in
            try offline.account.send(
                .pubsub(.publish(item, on: "nick", configuring: true)), then: then, in: step)
        }
        try offline.receive(answer(offline, "error", unmet))
        #expect(
            try offline.notes == [
                "p main alice@example.test nick: precondition not met",
                "p main alice@example.test nick: error forbidden",
                "q main alice@example.test nick: precondition not met",
            ])
        #expect(try sent(offline).count == 3)
        await offline.close()
    }

    @Test("P6 the chain ends with what ends one of its steps, once", arguments: 0...1)
    func ends(_ step: Int) async throws {
        let offline = try PubSubAccount()
        func reach() throws {
            try start(offline, timeout: .milliseconds(7))
            for answered in [("error", unmet), ("result", "")].prefix(step + 1) {
                try offline.receive(answer(offline, answered.0, answered.1))
            }
        }
        try reach()
        try offline.receive(answer(offline, "error", forbidden))
        try reach()
        try offline.expire(try #require(try offline.newestID))
        try reach()
        try offline.lose(try #require(try offline.newestID))
        #expect(
            try offline.notes == [
                "p main alice@example.test nick: error forbidden",
                "p main alice@example.test nick: timed out",
                "a alice@example.test: test.published session-lost",
            ])
        #expect(try offline.rows == [])
        // Each step waits as long as the first.
        try reach()
        #expect(
            try offline.store.number("SELECT deadline FROM request") == 7)
        await offline.close()
    }

    @Test(
        "P6 cancelling a chain by what sending returned ends it at whichever step it is, once",
        arguments: 0...2)
    func cancelled(_ step: Int) async throws {
        let folder = try TemporaryFolder()
        var offline = try PubSubAccount(in: folder)
        let (then, orElse) = try (Notes.Published(tag: "p").durable, Notes.Abandoned(tag: "a").durable)
        let id = try offline.store.step { step in
            try offline.account.send(
                .pubsub(.publish(item, on: "nick", requiring: [.accessModel(.open)], configuring: true)),
                then: then, orElse: orElse, in: step)
        }
        for answered in [("error", unmet), ("result", "")].prefix(step) {
            try offline.receive(answer(offline, answered.0, answered.1))
        }
        let late = try answer(offline, "result")
        // The id is the program's; another process may be the one that cancels.
        await offline.close()
        offline = try PubSubAccount(in: folder)
        for isFirst in [true, false] {
            let isCancelled = try offline.store.step { step in
                try offline.account.cancelRequest(id: id, in: step)
            }
            #expect(isCancelled == isFirst)
        }
        try offline.receive(late)
        #expect(try offline.notes == ["a alice@example.test: test.published cancelled"])
        #expect(try offline.rows == [])
        // What was not written yet never is: a request nobody waits for.
        #expect(try sent(offline).count == step)
        await offline.close()
    }

    @Test("P6 an item that is larger than what a peer may send is published again as it was")
    func large() async throws {
        let offline = try PubSubAccount()
        let large = PubSubItem(
            id: "large",
            payload: Element("data", namespace: "urn:n", text: String(repeating: "<>", count: 400_000)))
        let then = try Notes.Published(tag: "p").durable
        _ = try offline.store.step { step in
            try offline.account.send(
                .pubsub(.publish(large, on: "nick", requiring: [.accessModel(.open)], configuring: true)),
                then: then, in: step)
        }
        func answer(_ number: Int, _ type: String, _ xml: String) throws {
            let id = try #require(try offline.outbox[number].firstMatch(of: /id='([^']+)'/)?.output.1)
            try offline.receive("<iq type='\(type)' id='\(id)'>\(xml)</iq>")
        }
        try answer(0, "error", unmet)
        try answer(1, "result", "")
        let payloads = try offline.outbox.map { $0.drop { $0 != ">" } }
        #expect(payloads.count == 3 && payloads[0] == payloads[2])
        #expect(payloads[0].utf8.count > 3_000_000)
        await offline.close()
    }
}
