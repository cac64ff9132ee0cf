import Foundation
import Handlers
import Synchronization
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// A scripted server with a notice board and a peer, and accounts on one store in a fresh folder.
final class BoardScene: Sendable {
    static let alice = try! JID("alice@localhost")  // A constant that is an address.
    static let board = try! JID("board@localhost")  // The same.
    static let peer = try! JID("peer@localhost/desk")  // The same.

    let server: ScriptedServer
    let peer: ScriptedServer.Bot
    /// Turned by hand, so that no reconnection comes between a test's own steps.
    let clock = VirtualClock()
    let module = BoardModule(board: BoardScene.board, nick: "Alice")
    /// Since which times the board was asked.
    let asked = Log()
    /// What the board and the peer received from the account, by id.
    let received = Log()
    private let notices = Mutex<[(time: Int64, from: JID, message: Message)]>([])
    private let accounts = Mutex<[Account]>([])
    private let folder: URL
    private let authority: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(component: "outside-module-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let certificates = try TestCertificates(in: folder.path)
        authority = certificates.authorityFile
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": "secret", "peer": "hidden"],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        configuration.logsXML = true
        configuration.behavior.requestsAcks = false
        server = try ScriptedServer(configuration)
        try server.start()
        let received = received
        peer = server.addBot(jid: Self.peer) { stanza, _ in received.append("\(stanza["id"] ?? "-")") }
        server.addService(at: Self.board) { [weak self] stanza, service in
            received.append("\(stanza["id"] ?? "-")")
            guard let query = stanza.child("notices", BoardModule.namespace) else { return }
            self?.answer(query["since"]?.string ?? "-", stanza, service)
        }
    }

    /// Repeats the notices since a time, then answers.
    private func answer(_ since: String, _ query: Element, _ service: ScriptedServer.Bot) {
        asked.append(since)
        for notice in notices.withLock({ $0 }) where notice.time > Int64(since) ?? 0 {
            var element = notice.message.element
            element["to"] = query["from"]
            server.send(element, from: notice.from)
        }
        service.answer(query)
    }

    // MARK: Accounts

    /// Makes an account with the board's module and connects it.
    func connected() async throws -> Account {
        let account = try account(modules: [DiscoModule(), FeaturesInPresence(), module])
        try await account.listen(as: "test", Heard().durable)
        try await account.connect()
        try await account.caughtUp()
        return account
    }

    func account(
        modules: [any AccountModule],
        schemas: [Schema] = Account.schemas + [BoardModule.schema]
    ) throws -> Account {
        let store = try HandlerStore(
            path: folder.path + "/app.db", registry: HandlerRegistry([Heard.self]),
            schemas: schemas + [Heard.schema], synchronous: .normal, time: clock.timeSource)
        var configuration = AccountConfiguration(
            jid: Self.alice, password: "secret",
            server: .init(host: server.host, port: server.directTLSPort, security: .directTLS))
        configuration.trust = .file(path: authority)
        configuration.time = clock.timeSource
        configuration.keepAlive = nil
        configuration.modules = modules
        let account = try Account(configuration, store: store)
        accounts.withLock { $0.append(account) }
        return account
    }

    /// Breaks the connection and connects again.
    ///
    /// - Parameter losing: Whether the server refuses to resume the session.
    func reconnect(_ account: Account, losing: Bool) async throws {
        var events = account.events.makeAsyncIterator()
        if losing { server.refuseNextResumption() }
        server.dropConnections(of: .jid(Self.alice))
        while let event = await events.next() {
            if case .suspended = event { break }
        }
        try await account.connect()
        try await account.caughtUp()
    }

    func close() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        server.stop(.reset)
        try? FileManager.default.removeItem(at: folder)
    }

    // MARK: What the board sends

    var now: Int64 { clock.wall.milliseconds }

    /// The account's full address in its newest session.
    var address: JID {
        get throws { try #require(server.boundAddresses.last { $0.bare == Self.alice }) }
    }

    /// A notice, which bears the time.
    func notice(_ id: String, _ body: String = "hello", _ children: [Element] = []) -> Message {
        let notice = Element("notice", namespace: BoardModule.namespace, attributes: ["at": "\(now)"])
        return Message(to: Self.board, type: .groupchat, id: id, body: body, children: [notice] + children)
    }

    /// Sends a notice and repeats it for later questions.
    func publish(_ notice: Message, by nick: String) throws {
        let (time, sender) = (now, try Self.board.with(resource: nick))
        notices.withLock { $0.append((time, sender, notice)) }
        try send(notice, from: sender)
    }

    func send(_ notice: Message, by nick: String) throws {
        try send(notice, from: Self.board.with(resource: nick))
    }

    func send(_ message: Message, from sender: JID) throws {
        var element = message.element
        element["to"] = ForeignText(try address.description)
        server.send(element, from: sender)
    }

    // MARK: What the account said

    /// The only answer to the request with that id; waits for it.
    func answer(_ id: String) async throws -> IQ {
        try await until("the answer to \(id)") { sent("iq").contains { $0["id"] == ForeignText(id) } }
        let answers = sent("iq").filter { $0["id"] == ForeignText(id) }
        #expect(answers.count == 1)
        return try IQ(element: answers[0])
    }

    /// The stanzas of that name that the account sent, in order.
    private func sent(_ name: ForeignText) -> [Element] {
        server.log.entries.filter { $0.event == .received && $0.name == name }.compactMap(\.xml)
            .compactMap { try? Element(parsing: $0, defaultNamespace: Namespaces.client) }
    }

    /// The features in each presence that the account sent.
    var features: [Set<String>] {
        sent("presence")
            .compactMap { $0.child("features", BoardModule.namespace)?.text.string }
            .map { Set($0.split(separator: " ").map(String.init)) }
    }
}

/// Runs a test with a scene that is closed in any case.
func withScene(_ body: (BoardScene) async throws -> Void) async throws {
    let scene = try BoardScene()
    do {
        try await body(scene)
    } catch {
        await scene.close()
        throw error
    }
    await scene.close()
}

/// Records each message; one with the body "later" is handled later.
struct Heard: Handler {
    static let id = "outside.heard"
    static let retry = RetryPolicy.never
    static let schema = Schema(
        module: "outside-tests",
        migrations: [
            "CREATE TABLE heard(row INTEGER PRIMARY KEY, line TEXT NOT NULL, stanza TEXT)"
        ])

    func run(_ call: borrowing Call<MessageReceived>) throws {
        let line = "\(call.message.id ?? "-")\(call.isOutgoing ? " own" : "")"
        var stanza: String?
        if call.message.body == "later" {
            let deferred = try call.context.deferAcknowledgement(in: call.step)
            stanza = String(decoding: try JSONEncoder().encode(deferred), as: UTF8.self)
        }
        try call.step.execute("INSERT INTO heard(line, stanza) VALUES (?, ?)", line, stanza)
    }
}

extension Account {
    /// What ``Heard`` recorded, in order.
    func heard() throws -> [String] {
        try store.step { step in
            try step.all("SELECT line FROM heard ORDER BY row") { (row) throws(HandlerError) in row.text(0) }
        }
    }

    /// The last message that was deferred.
    func deferred() throws -> DeferredStanza {
        let text = try store.step { step in
            try step.first("SELECT stanza FROM heard WHERE stanza IS NOT NULL ORDER BY row DESC LIMIT 1") {
                (row) throws(HandlerError) in row.text(0)
            }
        }
        return try JSONDecoder().decode(DeferredStanza.self, from: Data(#require(text).utf8))
    }
}

struct NotInTime: Error { let what: String }

/// Looks until something is so; fails after 40 s.
func until(_ what: String, _ condition: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + .seconds(40)
    while try await !condition() {
        guard ContinuousClock.now < end else { throw NotInTime(what: what) }
        try await Task.sleep(for: .milliseconds(5))
    }
}
