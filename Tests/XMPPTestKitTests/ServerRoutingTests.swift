import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

/// Where stanzas go, and what the server answers itself, by tables.
@Suite(.ownThread) struct ServerRoutingTests {
    var server = ServerDomainHarness()

    private func message(to: String, type: String? = nil) -> Element {
        Element("message", namespace: Namespaces.client, attributes: ["id": "m1", "to": to, "type": type])
    }

    private func request(to: String?, _ payload: Element, type: String = "get") -> Element {
        Element(
            "iq", namespace: Namespaces.client, attributes: ["id": "q1", "to": to, "type": type],
            children: [payload])
    }

    private let ping = Element("ping", namespace: Namespaces.ping)

    /// alice is available as "high" and "low", and bound as "absent"; bob, the sender, as "b".
    private mutating func setUp() {
        server.start(1, "alice", "high")
        server.start(2, "alice", "low")
        server.start(3, "alice", "absent")
        server.start(9, "bob", "b")
        let unavailable = Element(
            "presence", namespace: Namespaces.client,
            children: [Element("priority", namespace: Namespaces.client, text: "-1")])
        server.receive(unavailable, on: 3)
    }

    struct Case: Sendable {
        var to: String
        var type: String?
        /// The connections of alice that get it.
        var reaches: [Int] = []
        var isStored = false
        var error: OpenName<StanzaError>?
    }

    @Test(
        "W6 a message goes where RFC 6121 sends it",
        arguments: [
            Case(to: "alice@localhost/low", type: "chat", reaches: [2]),
            Case(to: "alice@localhost/absent", type: "chat", reaches: [3]),
            Case(to: "alice@localhost", type: nil, reaches: [1, 2]),
            Case(to: "alice@localhost", type: "headline", reaches: [1, 2]),
            Case(to: "alice@localhost/gone", type: "chat", reaches: [1, 2]),
            Case(to: "alice@localhost/gone", type: "groupchat", error: .serviceUnavailable),
            Case(to: "alice@localhost/gone", type: "error"),
            Case(to: "nobody@localhost", type: "chat", error: .serviceUnavailable),
            Case(to: "alice@elsewhere.example", type: "chat", error: .remoteServerNotFound),
            Case(to: "alice@elsewhere.example", type: "error"),
            Case(to: "@", type: "chat", error: .jidMalformed),
            Case(to: "localhost", type: "chat", error: .serviceUnavailable),
        ])
    mutating func messages(_ row: Case) throws {
        setUp()
        server.receive(message(to: row.to, type: row.type), on: 9)
        for connection in 1...3 {
            let got = server.take(connection)
            #expect(got.count == (row.reaches.contains(connection) ? 1 : 0))
            #expect(got.allSatisfy { $0["from"] == "bob@localhost/b" && $0["to"] == row.to })
        }
        let answer = try server.take(9).first.map { try Message(element: $0) }
        #expect(answer?.error?.condition == row.error)
        #expect(answer?.from?.description == (row.error == nil || row.to == "@" ? nil : row.to))
    }

    @Test(
        "W6 a message to an account nobody is available at is stored, unless it is only for now",
        arguments: [
            ("chat", true), ("normal", true), (nil, true), ("headline", false), ("error", false),
            ("groupchat", false),
        ] as [(String?, Bool)])
    mutating func stored(type: String?, isStored: Bool) throws {
        server.start(9, "bob", "b")
        server.receive(message(to: "alice@localhost", type: type), on: 9)
        #expect(server.domain.offlineMessages(of: "alice").count == (isStored ? 1 : 0))
        #expect(server.take(9).count == (type == "groupchat" ? 1 : 0))
    }

    @Test(
        "W6 the server answers for itself and for the own account",
        arguments: [
            (nil, "ping", Namespaces.ping, nil), ("localhost", "ping", Namespaces.ping, nil),
            ("bob@localhost", "ping", Namespaces.ping, nil), (nil, "query", Namespaces.roster, nil),
            ("localhost", "query", Namespaces.discoInfo, nil),
            ("bob@localhost", "query", Namespaces.discoItems, nil),
            (nil, "query", "urn:example:unknown", .serviceUnavailable),
            ("localhost", "query", Namespaces.roster, .serviceUnavailable),
            ("alice@localhost", "ping", Namespaces.ping, .serviceUnavailable),
            ("alice@localhost/gone", "ping", Namespaces.ping, .serviceUnavailable),
            ("example.org", "ping", Namespaces.ping, .remoteServerNotFound),
        ] as [(String?, String, String, OpenName<StanzaError>?)])
    mutating func requests(to: String?, name: String, namespace: String, error: OpenName<StanzaError>?) throws
    {
        setUp()
        server.receive(request(to: to, Element(name, namespace: namespace)), on: 9)
        let answer = try IQ(element: try #require(server.take(9).first))
        #expect(answer.id == "q1")
        #expect(answer.to?.description == "bob@localhost/b")
        #expect(answer.from?.description == to)
        #expect(answer.type == (error == nil ? .result : .error))
        #expect(answer.error?.condition == error)
    }

    @Test("W6 requests and answers pass between full addresses, also to a session that waits")
    mutating func betweenClients() throws {
        setUp()
        server.lose(2)
        server.receive(request(to: "alice@localhost/low", ping), on: 9)
        #expect(server.take(9) == [])
        server.logIn(4)
        server.resume(4, server.resumptionID(2), h: 0)
        #expect(server.ids(4) == ["q1"])
        let result = IQ(type: .result, to: try JID("bob@localhost/b"), id: "q1", payload: nil).element
        server.receive(result, on: 4)
        #expect(server.take(9).map { $0["from"] } == ["alice@localhost/low"])
    }

    @Test("W6 an answer to the server is never answered", arguments: ["result", "error"])
    mutating func answersToServer(type: String) throws {
        setUp()
        for to in [nil, "localhost", "alice@localhost/gone", "example.org"] {
            var answer = Element("iq", namespace: Namespaces.client, attributes: ["id": "x", "type": type])
            answer["to"] = to.map { ForeignText($0) }
            server.receive(answer, on: 9)
        }
        #expect(server.take(9) == [])
    }

    @Test(
        "W6 a malformed request is answered with bad-request",
        arguments: [
            ["type": "get"], ["type": "what", "id": "q1"], ["id": "q1"],
        ])
    mutating func malformed(attributes: [String: String]) throws {
        setUp()
        var iq = Element("iq", namespace: Namespaces.client, children: [ping])
        for (name, value) in attributes { iq[name] = ForeignText(value) }
        server.receive(iq, on: 9)
        let error = server.take(9).first?.child("error", Namespaces.client).flatMap { StanzaError($0) }
        #expect(error?.condition == .badRequest)
    }

    @Test(
        "W6 a client that speaks for somebody else is thrown out",
        arguments: [
            ("bob@localhost/b", true), ("bob@localhost", true), ("bob@localhost/x", false),
            ("alice@localhost/high", false),
        ])
    mutating func forged(from: String, isAllowed: Bool) throws {
        setUp()
        var forged = message(to: "alice@localhost/high", type: "chat")
        forged["from"] = ForeignText(from)
        server.receive(forged, on: 9)
        #expect(server.take(1).map { $0["from"] } == (isAllowed ? ["bob@localhost/b"] : []))
        #expect(server.closed == (isAllowed ? [] : [9]))
    }

    @Test("W6 a bot is available, answers from inside, and its address cannot be bound")
    mutating func bots() throws {
        server.start(9, "bob", "b")
        server.receive(message(to: "peer@localhost"), on: 9)
        #expect(server.take(9).first?["type"] == "error")
        server.domain.addBot(try JID("peer@localhost/bot"))
        server.domain.addBot(try JID("bob@localhost/bot"))
        server.receive(message(to: "peer@localhost"), on: 9)
        #expect(server.delivered.map { $0["from"] } == ["bob@localhost/b"])
        try server.send(message(to: "bob@localhost/b"), from: "peer@localhost/bot")
        #expect(server.take(9).map { $0["from"] } == ["peer@localhost/bot"])
        server.start(10, "bob", "other", presence: false)
        server.logIn(11, "bob")
        let payload = Element(
            "bind", namespace: Namespaces.bind,
            children: [Element("resource", namespace: Namespaces.bind, text: "bot")])
        server.receive(IQ(type: .set, id: "bind", payload: payload).element, on: 11)
        #expect(try IQ(element: try #require(server.take(11).first)).error?.condition == .conflict)
    }

    @Test(
        "W6 what a script says about an element is done, and the count fits",
        arguments: [
            (.pass, ["m1"], [], 1), (.drop, [], [], 1), (.closeConnection, [], [], nil),
            (
                .replace([
                    Element(
                        "message", namespace: Namespaces.client,
                        attributes: ["id": "x1", "to": "alice@localhost/high"]),
                    Element(
                        "message", namespace: Namespaces.client,
                        attributes: ["id": "x2", "to": "alice@localhost/high"]),
                ]), ["x1", "x2"], [], 1
            ),
            (
                .answer([
                    Element(
                        "message", namespace: Namespaces.client,
                        attributes: ["id": "y1", "from": "me@spoofed.example"])
                ]),
                [], ["y1"], 1
            ),
        ] as [(ServerVerdict, [String], [String], UInt32?)])
    mutating func verdicts(_ verdict: ServerVerdict, reaches: [String], answers: [String], count: UInt32?)
        throws
    {
        server.start(1, "alice", "high")
        server.start(9, "bob", "b", presence: false)
        server.receive(message(to: "alice@localhost/high"), on: 9, verdict: verdict)
        #expect(server.ids(1) == reaches)
        #expect(server.ids(9) == answers)
        #expect(server.dropped == (count == nil ? [9] : []))
        server.receive(Element("r", namespace: Namespaces.sm), on: 9)
        #expect(server.take(9).first?["h"] == count.map { String($0) })
    }
}
