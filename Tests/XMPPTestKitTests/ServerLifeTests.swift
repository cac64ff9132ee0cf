import FoundationEssentials
import Synchronization
import TestThreads
import TestSupport
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import XMPPTestKit

/// Start, stop, clock and log of a server.
@Suite(.ownThread) struct ServerLifeTests {
    private func message(_ id: String) throws -> Element {
        Message(to: try JID("alice@localhost"), id: id, body: "Hello").element
    }

    private func threads(of server: ScriptedServer) throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count {
            let name = try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
            return name == "xmpp-\(server.startTLSPort)\n"
        }
    }

    @Test("W6 stopping leaves no thread and no open port, and tells the clients")
    func stop() throws {
        let fixture = try ServerFixture()
        let client = try fixture.session()
        #expect(try threads(of: fixture.server) == 1)
        fixture.server.stop()
        // The kernel removes a thread a moment after it was joined.
        #expect(becomesTrue(before: .now + .seconds(30)) { (try? threads(of: fixture.server)) == 0 })
        guard case .element(let element) = try client.rest().first else {
            Issue.record("There is no stream error.")
            return
        }
        #expect(StreamError(element)?.condition == .systemShutdown)
        for isDirect in [true, false] {
            let error = #expect(throws: TransportError.self) { try fixture.client(direct: isDirect) }
            #expect(error?.code == .refused)
        }
        // Nothing waits for a thread that is not there.
        fixture.server.stop()
        fixture.server.dropConnections()
        #expect(fixture.server.boundAddresses.isEmpty)
    }

    @Test("W6 a restarted server has its ports, bots and offline messages, but no sessions")
    func restart() throws {
        let fixture = try ServerFixture()
        let server = fixture.server
        let ports = [server.startTLSPort, server.directTLSPort]
        let peer = try JID("peer@localhost/bot")
        server.addBot(jid: peer) { stanza, bot in bot.answer(stanza) }
        let client = try fixture.session()
        server.send(try message("m1"), from: peer)
        #expect(try client.stanza()["id"] == "m1")
        server.stop(.reset)
        try server.start()
        let error = #expect(throws: ScriptedServerError.self) { try server.start() }
        #expect(error?.code == .running)
        #expect([server.startTLSPort, server.directTLSPort] == ports)
        let (next, answer) = try fixture.resume(client, h: 1)
        #expect(answer.name == "failed")
        try next.bind("r")
        try next.send(Presence().element)
        #expect(try next.stanza()["id"] == "m1")
        try next.send(
            IQ(type: .get, to: peer, id: "q1", payload: Element("ping", namespace: Namespaces.ping)).element)
        #expect(try next.stanza()["type"] == "result")
    }

    @Test("W6 commands given before the start wait for it, and those from inside wait for nothing")
    func commands() throws {
        let fixture = try ServerFixture()
        let server = fixture.server
        server.stop()
        let answered = Mutex(false)
        let peer = try JID("peer@localhost/bot")
        let bot = server.addBot(jid: peer) { [weak server] _, _ in
            // From the server's own thread.
            server?.dropConnections(of: .connection(99))
            answered.withLock { $0 = true }
        }
        server.send(try message("m1"), from: peer)
        try server.start()
        bot.send(Message(to: peer, id: "self", body: "x").element)
        #expect(server.offlineMessages(of: "alice").map { $0["id"] } == ["m1"])
        #expect(answered.withLock { $0 })
    }

    @Test("W6 many threads may send at once, each in its order")
    func concurrent() async throws {
        let fixture = try ServerFixture()
        let client = try fixture.session()
        let server = fixture.server
        await withTaskGroup(of: Void.self) { group in
            for sender in 1...4 {
                group.addTask {
                    guard let jid = try? JID("peer\(sender)@localhost/bot") else { return }
                    for number in 1...200 {
                        let id = "\(sender)-\(number)"
                        server.send(
                            Message(to: try? JID("alice@localhost/r"), id: id, body: "x").element, from: jid)
                    }
                }
            }
        }
        var last: [Substring: Int] = [:]
        for _ in 1...800 {
            let parts = (try client.stanza()["id"]?.string ?? "").split(separator: "-")
            #expect(Int(parts[1]) == last[parts[0], default: 0] + 1)
            last[parts[0]] = Int(parts[1])
        }
    }

    @Test("W6 a session's time passes on the clock of the test")
    func clock() throws {
        let clock = VirtualClock()
        let fixture = try ServerFixture { configuration, _ in
            configuration.clock = clock
            configuration.behavior.resumptionWindow = .seconds(300)
        }
        let client = try fixture.session()
        client.drop()
        let log = fixture.server.log
        #expect(log.wait(for: .seconds(20)) { $0.event == .detached } != nil)
        clock.advance(by: .milliseconds(299_999))
        #expect(log.entries.last?.event == .detached)
        clock.advance(by: .milliseconds(1))
        #expect(log.entries.last?.event == .expired)
        #expect(log.entries.last?.time == clock.wall)
        #expect(try fixture.resume(client, h: 0).answer.name == "failed")
    }

    @Test("W6 the log is a file of JSON lines too, with the XML if it is wanted")
    func logFile() throws {
        struct Line: Decodable {
            var time: Int64
            var event: String
            var session: Int?
            var jid: String?
            var id: String?
            var counted: Bool?
            var xml: String?
        }
        let fixture = try ServerFixture { configuration, folder in
            configuration.logsXML = true
            configuration.logFile = folder.path + "/log.jsonl"
        }
        let client = try fixture.session()
        try client.send(Message(to: try JID("bob@localhost"), id: "m\"1", body: "a\nb \\ é").element)
        try client.settle()
        let lines = try fixture.folder.text(of: "log.jsonl").split(separator: "\n")
        let entries = fixture.server.log.entries
        #expect(lines.count == entries.count)
        #expect(lines.map(String.init) == entries.map(\.json))
        let line = try #require(lines.first { $0.contains("m\\\"1") })
        let read = try JSONDecoder().decode(Line.self, from: Data(line.utf8))
        #expect(read.event == "received" && read.session == 1 && read.counted == true)
        #expect(read.jid == "alice@localhost/r" && read.id == "m\"1")
        #expect(read.xml?.contains("<body>a\nb \\ é</body>") == true)
        #expect(!fixture.server.log.isFileBroken)
    }

    @Test("W6 waiting for the log ends when the entry comes, and gives nothing when it does not come")
    func waiting() throws {
        let fixture = try ServerFixture()
        let log = fixture.server.log
        #expect(log.wait(for: .milliseconds(5)) { $0.event == .bound } == nil)
        _ = try fixture.session()
        let count = log.count
        #expect(log.wait(for: .zero) { $0.event == .bound }?.jid?.resource == "r")
        #expect(log.wait(for: .zero, from: count) { $0.event == .bound } == nil)
        #expect(log.entries(from: count + 5).isEmpty)
    }
}
