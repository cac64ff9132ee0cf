import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

/// Sessions, offline store and time of a whole server, by tables.
@Suite(.ownThread) struct ServerDomainTests {
    var server = ServerDomainHarness()

    private func message(_ id: String, to: String, type: String = "chat") throws -> Element {
        Element(
            "message", namespace: Namespaces.client, attributes: ["id": id, "to": to, "type": type],
            children: [Element("body", namespace: Namespaces.client, text: id)])
    }

    private func failed(_ h: UInt32?) -> Element {
        ServerSession.failed("item-not-found", h: h)
    }

    @Test("W6 an expired session's messages wait in the offline store, with their ids and the time they came")
    mutating func offline() throws {
        server.start(1)
        try server.send(message("m1", to: "alice@localhost/r"), from: "bob@localhost/b")
        server.lose(1)
        server.advance(1500)
        try server.send(message("m2", to: "alice@localhost"), from: "bob@localhost/b")
        server.advance(58_499)
        #expect(server.domain.offlineMessages(of: "alice").isEmpty)
        server.advance(1)
        #expect(server.log.suffix(2) == [.detached, .expired])
        server.start(2, presence: false)
        #expect(server.ids(2) == [])
        server.receive(Presence().element, on: 2)
        let stored = server.take(2)
        #expect(stored.map { $0["id"] } == ["m1", "m2"])
        let stamps = stored.map { $0.child("delay", Namespaces.delay)?["stamp"] }
        #expect(stamps == ["2025-06-15T15:06:40.000Z", "2025-06-15T15:06:41.500Z"])
        #expect(stored.map { $0.child("delay", Namespaces.delay)?["from"] } == ["localhost", "localhost"])
        #expect(server.domain.offlineMessages(of: "alice").isEmpty)
    }

    @Test("W6 requests that a lost session never answered fail with service-unavailable, answers are dropped")
    mutating func unansweredRequests() throws {
        server.start(1)
        server.start(2, "bob", "b")
        let ping = Element("ping", namespace: Namespaces.ping)
        let alice = try JID("alice@localhost/r")
        server.receive(IQ(type: .get, to: alice, id: "q1", payload: ping).element, on: 2)
        server.receive(IQ(type: .result, to: alice, id: "q2", payload: nil).element, on: 2)
        #expect(server.ids(1) == ["q1", "q2"])
        server.lose(1)
        server.advance(60_000)
        let answers = try server.take(2).map { try IQ(element: $0) }
        #expect(answers.map(\.id) == ["q1"])
        #expect(answers.first?.from == alice)
        #expect(answers.first?.error?.condition == .serviceUnavailable)
    }

    @Test("S9 a resumption that comes too late fails, with the count or without", arguments: [true, false])
    mutating func late(withCount: Bool) throws {
        server.domain.behavior.reportsLostCount = withCount
        server.start(1)
        server.lose(1)
        server.advance(60_000)
        server.logIn(2)
        server.resume(2, server.resumptionID(1), h: 0)
        // The presence was counted.
        #expect(server.take(2) == [failed(withCount ? 1 : nil)])
        #expect(server.log.contains(.resumeFailed))
        #expect(server.closed.isEmpty)
    }

    @Test(
        "S9 a resumption can be refused although its time is not over", arguments: [true, false],
        ["alice", nil])
    mutating func refused(withCount: Bool, account: ForeignText?) throws {
        server.start(1)
        try server.send(message("m1", to: "alice@localhost"), from: "bob@localhost/b")
        server.lose(1)
        server.domain.refuseResumption(of: account, withCount: withCount)
        server.logIn(2)
        server.resume(2, server.resumptionID(1), h: 0)
        #expect(server.take(2) == [failed(withCount ? 1 : nil)])
        #expect(server.domain.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
        // On the same stream the client may bind, and the refusal was for once.
        server.receive(
            IQ(type: .set, id: "bind", payload: Element("bind", namespace: Namespaces.bind)).element, on: 2)
        server.enable(2)
        server.lose(2)
        server.logIn(3)
        server.resume(3, server.resumptionID(2), h: 0)
        #expect(server.take(3).first?.name == "resumed")
    }

    @Test("W6 nobody resumes what is unknown or another account's", arguments: ["alice", "bob"])
    mutating func strangers(account: String) throws {
        server.start(1)
        server.lose(1)
        server.logIn(2, account)
        server.resume(2, account == "bob" ? server.resumptionID(1) : "unknown", h: 0)
        #expect(server.take(2) == [failed(nil)])
        #expect(server.log.contains(.resumeFailed))
        #expect(!server.log.contains(.resumed))
    }

    @Test("S13 resuming takes the session away from a connection that still lives")
    mutating func takeover() throws {
        server.start(1)
        try server.send(message("m1", to: "alice@localhost/r"), from: "bob@localhost/b")
        _ = server.take(1)
        server.logIn(2)
        server.resume(2, server.resumptionID(1), h: 0)
        #expect(server.take(1) == [StreamError(.conflict).element])
        #expect(server.closed == [1])
        #expect(server.ids(2) == ["m1"])
        // What the old connection still says, and its end, concern nobody.
        server.receive(try message("late", to: "alice@localhost/r"), on: 1)
        server.lose(1)
        #expect(server.take(2) == [])
        server.receive(Element("r", namespace: Namespaces.sm), on: 2)
        #expect(server.take(2).map { $0["h"] } == ["1"])
    }

    @Test("S10 a count too high in a resumption ends the stream and the session")
    mutating func resumedTooHigh() throws {
        server.start(1)
        try server.send(message("m1", to: "alice@localhost"), from: "bob@localhost/b")
        server.lose(1)
        server.logIn(2)
        server.resume(2, server.resumptionID(1), h: 2)
        let error = try #require(server.take(2).first.flatMap { StreamError($0) })
        #expect(error.applicationCondition?["send-count"] == "1")
        #expect(server.closed == [2])
        #expect(server.domain.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
    }

    @Test("W6 binding a resource again replaces the older session, and its messages follow")
    mutating func replaced() throws {
        server.start(1)
        try server.send(message("m1", to: "alice@localhost/r"), from: "bob@localhost/b")
        _ = server.take(1)
        server.start(2, presence: false)
        #expect(server.take(1) == [StreamError(.conflict).element])
        #expect(server.log.contains(.replaced))
        server.receive(Presence().element, on: 2)
        #expect(server.ids(2) == ["m1"])
    }

    @Test("S4 a clean close ends the session with a last acknowledgement")
    mutating func cleanClose() throws {
        server.start(1)
        server.close(1)
        #expect(server.take(1) == [Element("a", namespace: Namespaces.sm, attributes: ["h": "1"])])
        #expect(server.closed == [1])
        #expect(server.log.suffix(3) == [.delivered, .closedCleanly, .disconnected])
        server.logIn(2)
        server.resume(2, server.resumptionID(1), h: 0)
        #expect(server.take(2).first?.name == "failed")
    }

    @Test("W6 a session without stream management ends with its connection")
    mutating func unmanaged() throws {
        server.start(1, enable: false)
        server.lose(1)
        #expect(server.log.last == .expired)
        try server.send(message("m1", to: "alice@localhost/r"), from: "bob@localhost/b")
        #expect(server.domain.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
    }

    @Test("W6 delayed acknowledgements come when the clock says so")
    mutating func delayedAnswer() throws {
        server.domain.behavior.acknowledgements = .delayed(.seconds(2))
        server.start(1)
        server.receive(Element("r", namespace: Namespaces.sm), on: 1)
        #expect(server.domain.nextDue == 2000)
        server.advance(1999)
        #expect(server.take(1) == [])
        server.advance(1)
        #expect(server.take(1).map { $0["h"] } == ["1"])
        #expect(server.domain.nextDue == nil)
    }

    @Test("W6 a session can be ended at any moment, with a connection or without", arguments: [true, false])
    mutating func expired(isConnected: Bool) throws {
        server.start(1)
        try server.send(message("m1", to: "alice@localhost"), from: "bob@localhost/b")
        if !isConnected { server.lose(1) }
        server.domain.expire(.jid(try JID("alice@localhost")))
        server.drain()
        #expect(server.closed == (isConnected ? [1] : []))
        #expect(server.log.contains(.expired))
        #expect(server.domain.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
    }

    @Test("W6 a message that several sessions leave unacknowledged goes on once, when the last of them ends")
    mutating func salvagedOnce() throws {
        for connection in 1...4 {
            server.start(connection, "alice", "r\(connection)")
            server.lose(connection)
        }
        server.advance(1)
        try server.send(message("all", to: "alice@localhost"), from: "bob@localhost/b")
        try server.send(message("one", to: "alice@localhost/r1"), from: "bob@localhost/b")
        server.start(5, "alice", "late")
        var arrived: [[ForeignText]] = []
        for connection in 1...4 {
            server.advance(1)
            server.domain.expire(.jid(try JID("alice@localhost/r\(connection)")))
            server.drain()
            arrived.append(server.ids(5))
        }
        #expect(arrived == [["one"], [], [], ["all"]])
        #expect(server.domain.offlineMessages(of: "alice").isEmpty)
    }

    @Test("W6 a full offline store refuses messages instead of losing them")
    mutating func offlineLimit() throws {
        server.domain.behavior.queueLimit = 1
        server.start(1, "bob", "b", enable: false)
        for id in ["m1", "m2"] { server.receive(try message(id, to: "alice@localhost"), on: 1) }
        #expect(server.domain.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
        #expect(server.take(1).map { $0["id"] } == ["m2"])
    }
}
