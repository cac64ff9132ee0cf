import AccountTestKit
import Handlers
@testable import IQTracker
@testable import Omemo
import PubSub
import TestSupport
import Testing
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// The users of most tests.
let juliet = "juliet@capulet.lit"
let romeo = "romeo@montague.lit"

/// Accounts without streams and a server in memory between them: it keeps PEP nodes, answers requests and brings messages
/// to every device of a user. Nothing happens by itself: ``settle()`` carries until nobody has anything to say.
final class World {
    /// A device: an account on a store of its own.
    final class Client {
        let folder: TemporaryFolder
        let store: HandlerStore
        let offline: OfflineAccount
        let jid: JID
        let log = KeptLog(level: .info, showsXML: false)
        /// While it is away, what is for it waits.
        var isOnline = true
        var inbox: [Element] = []
        /// Every encrypted stanza that it sent, in order.
        var sent: [Element] = []

        static let schemas = Account.schemas + OmemoService.schemas + [RefreshAccount.notes]

        convenience init(
            _ jid: String, clock: RefreshAccount.Clock, isBot: Bool,
            handlers: [any DurableHandler.Type] = [Heard.self, Reported.self],
            modules: [any AccountModule] = []
        ) throws {
            let folder = try TemporaryFolder()
            let store = try HandlerStore(
                path: folder.path + "/store.db", registry: HandlerRegistry(handlers), schemas: Self.schemas,
                time: clock.source)
            try self.init(jid, store, in: folder, isBot: isBot, modules: modules)
        }

        /// A device whose store may have its keys already.
        init(
            _ jid: String, _ store: HandlerStore, in folder: TemporaryFolder, isBot: Bool = false,
            modules: [any AccountModule] = []
        ) throws {
            (self.folder, self.store) = (folder, store)
            self.jid = try JID(jid)
            var configuration = AccountConfiguration(jid: self.jid.bare, password: "none")
            configuration.log = log.log
            configuration.modules =
                [DiscoModule(), OmemoModule()] + (isBot ? [] : [CarbonsModule(), ArchiveModule()]) + modules
            offline = try OfflineAccount(
                configuration, store: store, resource: self.jid.resource?.string ?? "")
            try step { step in
                try step.execute("UPDATE session SET number = 1 WHERE account = ?", account.id)
                try account.omemo.listen(as: "test", Heard().durable, in: step)
                try account.listeners.set(
                    "message", key: MessageTaken.id, to: MessageTaken().durable, in: step)
            }
        }

        var account: Account { offline.account }
        var omemo: OmemoService { account.omemo }

        func step<R>(_ body: (borrowing Step) throws -> R) throws -> R { try store.step(body) }

        func start() throws { try step { try omemo.start(in: $0) } }

        @discardableResult
        func send(_ text: String, to jid: String, elements: [Element] = []) throws -> String {
            try step { step in
                try omemo.send(
                    OmemoContent(body: text, elements: elements), to: JID(jid), then: Reported().durable,
                    in: step)
            }
        }

        func texts(_ sql: String) throws -> [String] { try store.texts(sql) }

        /// What was decrypted or could not be, oldest first; and then forgotten.
        func heard() throws -> [String] {
            let notes = try texts("SELECT text FROM note ORDER BY row")
            try step { _ = try $0.execute("DELETE FROM note") }
            return notes
        }

        var own: (device: OmemoDeviceID, key: IdentityKey) {
            get throws { try #require(try step { try omemo.own(in: $0) }) }
        }
    }

    /// Notes what arrived.
    struct Heard: Handler {
        static let id = "test.heard"
        func run(_ call: borrowing Call<OmemoReceived>) throws {
            let words =
                switch call.outcome {
                case .content(let content): "\(content.body ?? "-") \(call.trust)"
                case .failed(let error): "failed \(error.code)"
                }
            try call.step.execute("INSERT INTO note(text) VALUES (?)", words)
        }
    }

    /// Notes what became of a message.
    struct Reported: Handler {
        static let id = "test.reported"
        func run(_ call: borrowing Call<OmemoSending>) throws {
            let readers = call.devices.filter { $0.failure == nil }.count
            let failures = call.failures.map { failure in
                "\(failure.failure.map { "\($0)" } ?? "")"
            }
            if call.isSent && failures.isEmpty { return }
            try call.step.execute(
                "INSERT INTO note(text) VALUES (?)",
                "\(call.isSent ? "sent" : "not sent") \(readers) \(failures.joined(separator: "; "))")
        }
    }

    let clock = RefreshAccount.Clock()
    var clients: [Client] = []
    private var pep = PEPNodes()
    /// What PEP holds, by owner and node.
    var nodes: [String: [(id: ForeignText, payload: Element)]] {
        get { pep.nodes }
        set { pep.nodes = newValue }
    }
    /// Answers instead of the usual one: nil for none at all.
    var answer: ((_ request: IQ, _ node: String) -> IQ?)?
    /// Whether changes of nodes are pushed to the owner's clients.
    var isPushing = false

    /// - Parameters:
    ///   - isBot: Whether it has neither archives nor carbon copies.
    ///   - handlers: The handlers that its program knows.
    ///   - modules: Further modules.
    @discardableResult
    func add(
        _ jid: String, starts: Bool = true, isBot: Bool = false,
        handlers: [any DurableHandler.Type] = [Heard.self, Reported.self],
        modules: [any AccountModule] = []
    ) throws -> Client {
        let client = try Client(jid, clock: clock, isBot: isBot, handlers: handlers, modules: modules)
        clients.append(client)
        if starts { try client.start() }
        return client
    }

    /// One device of Juliet's and one of Romeo's.
    static func pair() throws -> (World, Client, Client) {
        let world = World()
        let (a, b) = (try world.add(juliet + "/a"), try world.add(romeo + "/a"))
        try world.settle()
        return (world, a, b)
    }

    /// Two devices with a session that both have used.
    static func pairInSession() throws -> (World, Client, Client) {
        let (world, a, b) = try pair()
        try a.send("one", to: romeo)
        try world.settle()
        try b.send("two", to: juliet)
        try world.settle()
        _ = (try a.heard(), try b.heard())
        return (world, a, b)
    }

    /// Juliet, who knows both devices of Romeo: each has a message of hers.
    static func trio() throws -> (World, Client, [Client]) {
        let world = World()
        let a = try world.add(juliet + "/a")
        let romeos = [try world.add(romeo + "/a"), try world.add(romeo + "/b")]
        world.isPushing = true
        try world.settle()
        try a.send("one", to: romeo)
        try world.settle()
        return (world, a, romeos)
    }

    func close() async {
        for client in clients { await client.account.close() }
        // What answers may hold this world.
        answer = nil
    }

    // MARK: The server

    /// Carries until nobody has anything to say; does what clients owe once everything is quiet.
    func settle() throws {
        for _ in 0..<1000 {
            if try carry() { continue }
            for client in clients where client.isOnline {
                _ = try client.step { try client.omemo.performDuties(in: $0) }
            }
            if try !carry() { return }
        }
        Issue.record("the clients never stop talking")
    }

    /// Carries what is there now; false when there was nothing.
    @discardableResult
    func carry() throws -> Bool {
        var isBusy = false
        for client in clients where client.isOnline {
            let inbox = client.inbox
            client.inbox = []
            for element in inbox { try receive(element, client) }
            let outbox = try client.step { step in
                let rows = try step.all("SELECT xml FROM outbox ORDER BY seq") { (row) throws(HandlerError) in
                    row.blob(0)
                }
                try step.execute("DELETE FROM outbox")
                return rows
            }
            for xml in outbox {
                try take(
                    Element(
                        parsing: String(decoding: xml, as: UTF8.self), defaultNamespace: Namespaces.client),
                    client)
            }
            isBusy = isBusy || !inbox.isEmpty || !outbox.isEmpty
        }
        return isBusy
    }

    /// - Returns: Why it was refused; nil when it was not.
    @discardableResult
    func receive(_ element: Element, _ client: Client, isRefused: Bool = false) throws -> String? {
        try client.step { step in
            var refusal: String?
            for event in try client.offline.receive(element, in: step) {
                guard isRefused, case .ignored(_, let reason) = event else {
                    Issue.record("\(event)")
                    continue
                }
                refusal = reason
            }
            return refusal
        }
    }

    private func take(_ element: Element, _ client: Client) throws {
        var element = element
        element["from"] = client.jid.foreignText
        guard let stanza = try Stanza(element) else { return }
        switch stanza {
        case .iq(let iq): if let answer = try answerTo(iq, client) { client.inbox.append(answer.element) }
        case .message(let message):
            client.sent.append(element)
            try route(message, from: client)
        case .presence: break
        }
    }

    private func route(_ message: Message, from client: Client) throws {
        let target = try #require(message.to?.bare)
        if message.type == .groupchat {
            var reflected = message.element
            reflected["from"] = "\(target)/\(client.jid.local ?? "")"
            for other in clients { other.inbox.append(reflected) }
            return
        }
        for other in clients where other !== client {
            if other.jid.bare == target { other.inbox.append(message.element) }
            if other.jid.bare == client.jid.bare { other.inbox.append(carbon(message, for: other)) }
        }
    }

    private func carbon(_ message: Message, for client: Client) -> Element {
        let forwarded = Element("forwarded", namespace: Namespaces.forward, children: [message.element])
        let sent = Element("sent", namespace: Namespaces.carbons, children: [forwarded])
        return Element(
            "message", namespace: Namespaces.client,
            attributes: ["from": client.jid.bare.description, "to": client.jid.description], children: [sent])
    }

    private func answerTo(_ iq: IQ, _ client: Client) throws -> IQ? {
        guard let pubsub = iq.payload, let request = pubsub.firstElement, let node = request["node"] else {
            return nil
        }
        if let answer { return answer(iq, node.string) }
        return usualAnswer(iq, node.string)
    }

    func usualAnswer(_ iq: IQ, _ node: String) -> IQ? {
        let answer = pep.answer(iq, node)
        if isPushing, let item = pep.published { push(item.node, item.id.string, item.payload, item.owner) }
        return answer
    }

    private func push(_ node: String, _ id: String, _ payload: Element, _ owner: JID?) {
        let item = Element(
            "item", namespace: Namespaces.pubsubEvent, attributes: ["id": id], children: [payload])
        let items = Element(
            "items", namespace: Namespaces.pubsubEvent, attributes: ["node": node], children: [item])
        let event = Element("event", namespace: Namespaces.pubsubEvent, children: [items])
        for client in clients {
            client.inbox.append(
                Element(
                    "message", namespace: Namespaces.client,
                    attributes: ["from": owner?.description, "type": "headline"], children: [event]))
        }
    }

    // MARK: Looking

    func list(_ jid: String, _ version: OmemoVersion) -> [UInt32]? {
        nodes["\(jid) \(version.deviceListNode)"]?.first.flatMap { OmemoDeviceList($0.payload) }?.devices.map(
            \.id.rawValue)
    }

    func bundle(_ client: Client, _ version: OmemoVersion) throws -> OmemoBundle {
        let device = try client.own.device
        let items = nodes["\(client.jid.bare) \(version.bundleNode(device))"] ?? []
        let item = try #require(items.first { $0.id == version.bundleItem(device) })
        return try OmemoBundle(item.payload, version)
    }
}

extension RefreshAccount.Clock {
    var source: TimeSource { TimeSource(wall: { Timestamp(milliseconds: self.now) }) }
}
