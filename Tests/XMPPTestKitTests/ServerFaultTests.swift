import TestThreads
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import XMPPTestKit

/// Faults and scripts over real sockets. Nothing sleeps: a fault is in effect when its call returns.
@Suite(.ownThread) struct ServerFaultTests {
    let fixture: ServerFixture
    var server: ScriptedServer { fixture.server }

    init() throws { fixture = try ServerFixture() }

    private var alice: JID { get throws { try JID("alice@localhost") } }

    private func message(_ id: String) throws -> Element {
        Message(to: try alice, id: id, body: "Hello").element
    }

    // MARK: Connections

    @Test(
        "W6 connections break by a reset or by an end of the stream",
        arguments: [ConnectionEnding.reset, .finish])
    func drop(_ ending: ConnectionEnding) throws {
        let client = try fixture.session()
        server.dropConnections(of: .jid(try alice), ending)
        #expect(server.log.entries.last?.event == .detached)
        switch ending {
        case .finish: #expect(throws: ServerTestClient.Ended.self) { try client.next() }
        case .reset:
            let error = #expect(throws: TransportError.self) { try client.next() }
            #expect(error?.code == .connectionReset)
        }
    }

    @Test("W6 a connection breaks after exactly so many bytes sent", arguments: [0, 1, 57, 200])
    func dropAfterSending(count: Int) throws {
        let client = try fixture.session()
        let text = String(repeating: "x", count: 50)
        let noise = Element("noise", namespace: "urn:example", text: text)
        server.dropConnections(of: .jid(try alice), afterSending: count)
        for _ in 0..<8 { server.send(noise, to: .everyone) }
        #expect(try client.restOfBytes() == count)
        #expect(server.log.entries.contains { $0.event == .detached })
    }

    @Test("W6 what was complete before a connection broke by bytes received is counted, and nothing else")
    func dropAfterReceiving() throws {
        let client = try fixture.session(presence: false)
        let one = String(decoding: Serializer().bytes(try message("m1")), as: UTF8.self)
        server.dropConnections(of: .everyone, afterReceiving: one.utf8.count * 2 + 5)
        try client.send(raw: one + one + one)
        #expect(throws: (any Error).self) { try client.next() }
        #expect(try fixture.resume(client, h: 0).answer["h"] == "2")
    }

    @Test("W6 the next connections break in the midst of their login, those after them do not")
    func dropNext() throws {
        server.dropNextConnection(afterSending: 20)
        server.dropNextConnection(afterReceiving: 30)
        for _ in 1...2 {
            let client = try fixture.client()
            #expect(throws: (any Error).self) { try client.logIn("alice") }
        }
        #expect(try fixture.client().logIn("alice").name == "success")
    }

    @Test("W6 new connections are refused as long as the test wants")
    func refuse() throws {
        server.refuseConnections()
        #expect(throws: TransportError.self) { try fixture.client() }
        server.refuseConnections(false)
        #expect(try fixture.client().logIn("alice").name == "success")
    }

    @Test("W6 writing is held back while reading goes on, and what was held back follows")
    func pauseWriting() throws {
        let client = try fixture.session(presence: false)
        server.freezeWrites(of: .jid(try alice))
        try client.send(
            IQ(type: .get, id: "q1", payload: Element("ping", namespace: Namespaces.ping)).element)
        #expect(server.log.wait(for: .seconds(20)) { $0.event == .delivered && $0.id == "q1" } != nil)
        #expect(!client.hasArrived)
        server.unpause(of: .everyone)
        #expect(try client.stanza()["id"] == "q1")
    }

    @Test("W6 reading is held back, and what was held back is handled afterwards")
    func pauseReading() throws {
        let client = try fixture.session(presence: false)
        server.pause([.reading], of: .session(1))
        try client.send(message("m1"))
        // Two turns of the server with the message in its socket.
        for _ in 1...2 { server.expireSessions(of: .session(99)) }
        #expect(!server.log.entries.contains { $0.id == "m1" })
        server.unpause([.reading], of: .session(1))
        #expect(server.log.wait(for: .seconds(20)) { $0.event == .received && $0.id == "m1" } != nil)
    }

    // MARK: Sessions

    @Test("W6 a session ended by the test cannot be resumed, and its messages follow the account")
    func expire() throws {
        let client = try fixture.session()
        server.send(try message("m1"), from: try JID("peer@localhost/bot"))
        #expect(try client.stanza()["id"] == "m1")
        client.drop()
        #expect(server.log.wait(for: .seconds(20)) { $0.event == .detached } != nil)
        server.expireSessions(of: .jid(try alice))
        #expect(server.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
        let (next, answer) = try fixture.resume(client, h: 0)
        #expect(answer.name == "failed")
        #expect(answer["h"] == "2")
        try next.bind("r")
        try next.send(Presence().element)
        let again = try next.stanza()
        #expect(again["id"] == "m1")
        #expect(again.child("delay", Namespaces.delay) != nil)
    }

    @Test("S9 the next resumption is refused with and without the count", arguments: [true, false])
    func refuseResumption(withCount: Bool) throws {
        let client = try fixture.session()
        server.refuseNextResumption(of: "alice", withCount: withCount)
        let answer = try fixture.resume(client, h: 1).answer
        #expect(answer == ServerSession.failed("item-not-found", h: withCount ? 2 : nil))
    }

    @Test("W6 acknowledgements are withheld or wrong as the test wants")
    func acknowledgements() throws {
        let client = try fixture.session()
        server.setAcknowledgements(.claiming(99))
        #expect(try client.requestCount() == 99)
        server.setAcknowledgements(.never)
        try client.send(Element("r", namespace: Namespaces.sm))
        #expect(try client.settle().isEmpty)
        server.setAcknowledgements(.prompt)
        #expect(try client.requestCount() == 3)
    }

    @Test("S10 counts may start anywhere, so that a wrap is at hand")
    func initialCounts() throws {
        server.update {
            $0.initialReceivedCount = .max
            $0.initialSentCount = .max
        }
        let client = try fixture.session()
        // Presence and ping.
        #expect(try client.requestCount() == 1)
        try client.acknowledge(0)
        try client.settle()
        #expect(!server.log.entries.contains { $0.event == .expired })
    }

    // MARK: Elements and scripts

    @Test("W6 a script sees every element and may answer in another's name")
    func script() throws {
        let client = try fixture.session()
        server.setScript { element, info in
            guard element["id"] == "q1", info.account == "alice", info.session == 1 else { return .pass }
            let forged = Element(
                "iq", namespace: Namespaces.client,
                attributes: [
                    "type": "result", "id": "q1", "from": "mallory@localhost/x", "to": info.jid?.description,
                ])
            return .answer([forged, Element("r", namespace: Namespaces.sm)])
        }
        let bob = try JID("bob@localhost/b")
        try client.send(
            IQ(type: .get, to: bob, id: "q1", payload: Element("ping", namespace: Namespaces.ping)).element)
        #expect(try client.stanza()["from"] == "mallory@localhost/x")
        server.setScript(nil)
        #expect(try client.requestCount() == 3)
    }

    @Test("W6 a script can break the connection before a stanza counts")
    func scriptCloses() throws {
        let client = try fixture.session()
        server.setScript { element, _ in element["id"] == "m1" ? .closeConnection : .pass }
        try client.send(message("m1"))
        #expect(throws: (any Error).self) { try client.next() }
        #expect(try fixture.resume(client, h: 1).answer["h"] == "2")
        #expect(server.log.entries.repeatedStanzas.isEmpty)
    }

    @Test("W6 anything can be put on a connection, well-formed or not")
    func send() throws {
        let client = try fixture.session()
        let odd = Element("odd", namespace: "urn:example", attributes: ["n": "1"])
        server.send(odd, to: .jid(try JID("alice@localhost/r")))
        #expect(try client.next() == odd)
        server.send(raw: "<a></b>", to: .connection(1))
        #expect(throws: StreamParserError.self) { try client.next() }
    }

    @Test("X3 a client that sends no XML gets the stream error for it")
    func malformed() throws {
        let client = try fixture.session()
        try client.send(raw: "<message><!-- hidden --></message>")
        let events = try client.rest()
        guard case .element(let element) = events.first else {
            Issue.record("There is no stream error.")
            return
        }
        #expect(StreamError(element)?.condition == .restrictedXML)
        #expect(events.last == .closed)
    }

    @Test("W6 the oracle sees a client that sends again what was counted")
    func oracle() throws {
        let client = try fixture.session()
        let bob = try fixture.session("bob", "b")
        for id in ["m1", "m2", "m1"] { try client.send(message(id)) }
        try client.settle()
        try bob.send(message("m2"))
        try bob.settle()
        let entries = server.log.entries
        #expect(entries.repeatedStanzas.map(\.id) == ["m1"])
        #expect(entries.repeatedStanzas.first?.jid?.description == "alice@localhost/r")
        #expect(entries.sessions(thatSent: "m2") == [1, 2])
        #expect(entries.idsBySession[1]?.filter { $0.hasPrefix("m") } == ["m1", "m2", "m1"])
        #expect(entries.repeatedDeliveries.map(\.id) == ["m1"])
    }
}
