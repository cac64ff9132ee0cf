import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// The server over real sockets: login, sessions, routing, bots, log.
@Suite(.ownThread) struct ServerSocketTests {
    let fixture = Result { try ServerFixture() }

    private func message(_ id: String, to: String) throws -> Element {
        Message(to: try JID(to), id: id, body: "Hello \(id)").element
    }

    @Test("W6 a client logs in over direct TLS and over STARTTLS", arguments: [true, false])
    func logIn(direct: Bool) throws {
        let client = try fixture.get().client(direct: direct)
        if !direct {
            try client.starttls()
            #expect(client.features.child("mechanisms", Namespaces.sasl) == nil)
        }
        #expect(try client.logIn("alice").name == "success")
        #expect(client.serverSignatureIsRight == true)
        #expect(client.features.child("bind", Namespaces.bind) != nil)
        #expect(client.features.child("sm", Namespaces.sm) != nil)
        #expect(try client.bind("phone").description == "alice@localhost/phone")
    }

    @Test("W6 messages pass between accounts over two connections")
    func messages() throws {
        let fixture = try fixture.get()
        let alice = try fixture.session("alice", "a")
        let bob = try fixture.session("bob", "b")
        try alice.send(message("m1", to: "bob@localhost"))
        try alice.send(message("m2", to: "bob@localhost/b"))
        let first = try bob.stanza()
        #expect(first["id"] == "m1")
        #expect(first["from"] == "alice@localhost/a")
        #expect(try bob.stanza()["id"] == "m2")
    }

    @Test("W6 a dropped client resumes and gets what it had not acknowledged, once more and in order")
    func resume() throws {
        let fixture = try fixture.get()
        let alice = try fixture.session("alice", "a")
        let bob = try fixture.session("bob", "b")
        for number in 1...4 { try bob.send(message("m\(number)", to: "alice@localhost/a")) }
        try bob.settle()
        // The answer to the ping of the session's start was the first stanza, so m1 is the second.
        for number in 1...2 { #expect(try alice.stanza()["id"] == "m\(number)") }
        alice.drop()
        #expect(fixture.server.log.wait(for: .seconds(20)) { $0.event == .detached } != nil)
        try bob.send(message("m5", to: "alice@localhost"))
        try bob.settle()
        let (next, answer) = try fixture.resume(alice, h: 2)
        #expect(answer["previd"] == alice.resumptionID)
        #expect(answer["h"] == "2")
        #expect(try next.settle() == ["m2", "m3", "m4", "m5"])
        let resent = fixture.server.log.entries.filter { $0.isResent }.map(\.id)
        #expect(resent == ["m2", "m3", "m4"])
    }

    @Test("W6 the server asks for the acknowledgement of what it sent")
    func asking() throws {
        let fixture = try fixture.get()
        let alice = try fixture.session("alice", "a", presence: false)
        fixture.server.send(try message("m1", to: "alice@localhost/a"), from: try JID("peer@localhost/bot"))
        #expect(try [alice.nextOfAll().name, alice.nextOfAll().name] == ["message", "r"])
        try alice.acknowledge(1)
        #expect(try alice.settle().isEmpty)
        // The answer to the ping was sent after the acknowledgement.
        #expect(try fixture.resume(alice, h: 2).answer.name == "resumed")
    }

    @Test("W6 a bot answers requests and sends messages")
    func bot() throws {
        let fixture = try fixture.get()
        let jid = try JID("peer@localhost/bot")
        let bot = fixture.server.addBot(jid: jid) { stanza, bot in
            bot.answer(stanza, payload: Element("done", namespace: "urn:example:work"))
        }
        let alice = try fixture.session("alice", "a")
        let work = Element("do", namespace: "urn:example:work")
        try alice.send(IQ(type: .get, to: jid, id: "q1", payload: work).element)
        let answer = try IQ(element: alice.stanza())
        #expect(answer.from == jid)
        #expect(answer.payload?.name == "done")
        bot.send(Message(to: try JID("alice@localhost"), id: "m1", body: "Hi").element)
        #expect(try alice.stanza()["id"] == "m1")
    }
}
