import Handlers
import HandlersTestKit
package import XMPPCore
import XMPPTestKit

/// The XMPP server of the world and the peer connected to it, at the other end of the simulated network.
package final class WorldServer {
    static let domain = "world.example"
    package static let account = try! JID("romeo@world.example")
    package static let peer = try! JID("juliet@world.example/balcony")
    static let peerTexts: [ForeignText?] = [ForeignText("\(peer)"), ForeignText("\(peer.bare)")]
    static let stranger = try! JID("tybalt@elsewhere.example/street")
    static let password = "secret"
    /// The node where the peer publishes.
    static let node = "urn:durable-handlers:world:node"

    private(set) var core: ServerDomain
    private var parsers: [Int: StreamParser] = [:]
    private let network: SimulatedNetwork
    /// The stanzas to send later: the time in nanoseconds, and the sender.
    private var answers: [(due: Int64, element: Element, from: JID)] = []
    /// The number of messages that the peer has sent.
    private(set) var lastMessage = 0
    /// The number of stanzas that others have sent to the account.
    private(set) var sent = 0
    private var random: SeededGenerator
    /// The id of the last request to the peer, which a stranger may try to answer.
    private var lastQuestion: String?
    /// The archive of the messages; nil if the account has none.
    private let archive: WorldArchive?
    /// The roster and the block list; nil if the account has none.
    let lists: WorldLists?
    /// Whether a resumed session continues with the parser of its last connection, as in Prosody. An element that was cut off there
    /// swallows the bytes that come next.
    private let keepsParsers: Bool
    private let hasPubSub: Bool
    /// Whether strangers send what is longer than a row of an index of PostgreSQL.
    private let hasLimits: Bool
    /// The last item that the peer has published.
    private var lastItem: Element?
    private var shown = 0
    /// The last connection of each session, and the parsers of connections that ended.
    private var lastLinks: [Int: Int] = [:]
    private var leftParsers: [Int: StreamParser] = [:]
    /// Answers for the additional modules of the account.
    weak var addition: (any WorldExtension)? {
        didSet {
            guard let namespaces = addition?.namespaces else { return }
            core.services[Self.account] = .some(namespaces.union(ownNamespaces))
            core.services[Self.peer.bare] = .some(namespaces)
        }
    }
    /// Called for every row of the server's log.
    var onRow: (ServerLogRow) -> Void = { _ in }

    init(seed: UInt64, network: SimulatedNetwork, behavior: ServerBehavior, options: SimulatedWorld.Options) {
        self.network = network
        random = SeededGenerator(seed: seed)
        final class Ids: @unchecked Sendable {
            var last = 0
        }
        let ids = Ids()
        core = ServerDomain(
            name: Self.domain, behavior: behavior,
            credentials: ServerCredentials(
                passwords: ["romeo": Self.password, "juliet": "-"], iterations: 1),
            makeID: {
                ids.last += 1
                return "id\(ids.last)"
            })
        archive = options.hasArchive ? WorldArchive() : nil
        lists = options.hasLists ? WorldLists() : nil
        keepsParsers = options.keepsParsers
        hasPubSub = options.hasPubSub
        hasLimits = options.hasLimits
        core.addBot(Self.peer)
        if !ownNamespaces.isEmpty { core.services[Self.account] = .some(ownNamespaces) }
        network.server = .init(
            connected: { [unowned self] link in connected(link) },
            received: { [unowned self] link, bytes in received(bytes, link) },
            ended: { [unowned self] link in ended(link) })
    }

    /// The namespaces of requests that the server answers for the account.
    private var ownNamespaces: Set<String> {
        var namespaces: Set<String> = archive == nil ? [] : [Namespaces.mam]
        if lists != nil { namespaces.formUnion(WorldLists.namespaces) }
        if hasPubSub { namespaces.insert(Namespaces.pubsub) }
        return namespaces
    }

    // MARK: Connections

    private func connected(_ link: Int) {
        parsers[link] = try? StreamParser()
        core.connected(link, isSecure: true)
        perform()
    }

    private func received(_ bytes: [UInt8], _ link: Int) {
        do throws(StreamParserError) {
            for event in try parsers[link]?.parse(bytes) ?? [] { handle(event, link) }
        } catch {
            for event in error.events { handle(event, link) }
            core.failed(link, error.streamError)
        }
        core.endTurn()
        perform()
    }

    private func handle(_ event: StreamParser.Event, _ link: Int) {
        switch event {
        case .opened(let header): core.opened(header, on: link)
        case .element(let element): core.receive(element, on: link)
        case .refused: core.failed(link, StreamError(.notWellFormed))
        case .closed: core.closed(link)
        }
        perform()
    }

    private func ended(_ link: Int) {
        leave(link)
        core.lost(link)
        perform()
        network.closeFromServer(link, reset: false)
    }

    private func perform() {
        while true {
            let actions = core.removeActions()
            for row in core.removeLog().rows {
                follow(row)
                onRow(row)
            }
            if actions.isEmpty { return }
            for action in actions { perform(action) }
        }
    }

    private func perform(_ action: ServerDomain.Action) {
        switch action {
        case .header(let link, let to, let id):
            network.send(Serializer.streamHeader(to: to, from: Self.domain, id: id), to: link)
        case .send(let link, let element): network.send(HostileStanzas.bytes(element), to: link)
        case .startTLS: break
        case .restart(let link): parsers[link] = try? StreamParser()
        case .close(let link):
            network.send(Serializer.streamEnd, to: link)
            leave(link)
            network.closeFromServer(link, reset: false)
        case .drop(let link, let ending):
            leave(link)
            network.closeFromServer(link, reset: ending == .reset)
        case .deliver(let jid, let element) where addition?.receive(element, at: jid) == true: break
        case .deliver(Self.account, let element): serve(element)
        case .deliver(_, let element): answer(element)
        }
    }

    /// Answers a request in the account's name.
    private func serve(_ element: Element) {
        if element.firstElement?.namespace == Namespaces.mam {
            for reply in archive?.service.replies(to: element) ?? [] { send(reply, from: Self.account) }
        } else if element.firstElement?.namespace == Namespaces.pubsub {
            if let iq = try? IQ(element: element), let reply = iq.result(payload: iq.payload) {
                send(reply.element, from: Self.account)
            }
        } else if let lists {
            lists.forgetSessions { !core.sessions(of: .session($0)).isEmpty }
            let session = element["from"].flatMap { try? JID($0) }.flatMap {
                core.sessions(of: .jid($0)).last
            }
            for reply in lists.replies(to: element, of: session) { send(reply, from: Self.account) }
        }
    }

    // MARK: Parsers that outlive their connection

    private func leave(_ link: Int) {
        if keepsParsers, let parser = parsers[link] { leftParsers[link] = parser }
        parsers[link] = nil
    }

    private func follow(_ row: ServerLogRow) {
        if row.event == .bound, let lastItem {
            // Servers show the last item of a node again when a session starts (XEP-0163 section 4.3.3).
            shown += 1
            let id = "again-\(shown)-\(lastItem["id"] ?? "")"
            answers.append((now + 1, event(lastItem, id: id), Self.peer.bare))
        }
        guard keepsParsers, row.session > 0, row.connection > 0 else { return }
        let (session, link) = (Int(row.session), Int(row.connection))
        let last = lastLinks.updateValue(link, forKey: session)
        guard row.event == .resumed, let last, last != link else { return }
        if let parser = leftParsers.removeValue(forKey: last) ?? parsers[last] { parsers[link] = parser }
    }

    // MARK: Time

    /// The time of the next event, in nanoseconds.
    var nextDue: Int64? {
        [core.nextDue.map { $0 * 1_000_000 }, answers.map(\.due).min()].compactMap(\.self).min()
    }

    /// The time of the server, in nanoseconds. It is not the clock of the machine.
    private var now: Int64 = 0

    private var wall: Timestamp { Timestamp(milliseconds: 1_800_000_000_000 + now / 1_000_000) }

    func advance(to now: Int64) {
        self.now = now
        core.advance(
            to: ServerTime(
                wall: wall, monotonic: now / 1_000_000
            ))
        let due = answers.filter { $0.due <= now }
        answers.removeAll { $0.due <= now }
        for answer in due { send(answer.element, from: answer.from) }
        core.endTurn()
        perform()
    }

    // MARK: The peer

    /// Sends the next message of the peer.
    ///
    /// - Parameter isPlain: Whether to send it without the addition's form.
    func sendMessage(isPlain: Bool = true) {
        lastMessage += 1
        if hasPubSub, isPlain, lastMessage % 3 == 0 {
            let item = Element(
                "item", namespace: Namespaces.pubsubEvent, attributes: ["id": "p-\(lastMessage)"])
            lastItem = item
            // Every other event contains an unreadable item before the readable one.
            let bad = lastMessage % 2 == 0 ? [HostileStanzas.item(space: Namespaces.pubsubEvent)] : []
            send(event(item, id: "p-\(lastMessage)", after: bad), from: Self.peer.bare)
            core.endTurn()
            return perform()
        }
        let message = Message(to: Self.account, id: "p-\(lastMessage)", body: String(lastMessage)).element
        sendOfPeer(isPlain ? message : addition?.message(lastMessage) ?? message)
        core.endTurn()
        perform()
    }

    private func event(_ item: Element, id: String, after others: [Element] = []) -> Element {
        var full = item
        full.append(Element("reading", namespace: WorldApp.namespace))
        let items = Element(
            "items", namespace: Namespaces.pubsubEvent, attributes: ["node": Self.node],
            children: others + [full])
        let event = Element("event", namespace: Namespaces.pubsubEvent, children: [items])
        return Element(
            "message", namespace: Namespaces.client, attributes: ["to": "\(Self.account)", "id": id],
            children: [event])
    }

    /// Sends a message of the peer. The archive stores it, too.
    package func sendOfPeer(_ message: Element) {
        send(archive?.add(message, from: Self.peer, at: wall) ?? message, from: Self.peer)
    }

    private func send(_ stanza: Element, from jid: JID) {
        sent += 1
        core.send(stanza, from: jid)
    }

    /// Sends the answer of an account's server. ``WorldExtension/receive(_:at:)`` may call it.
    package func answer(_ element: Element, from jid: JID) { send(element, from: jid) }

    private func answer(_ element: Element) {
        guard let iq = try? IQ(element: element), iq.type == .get, let question = iq.payload else { return }
        lastQuestion = "\(iq.id)"
        switch question["want"] {
        case "result", "later":
            guard let reply = iq.result(payload: Element("answer", namespace: WorldApp.namespace)) else {
                return
            }
            let wait: Int64 = question["want"] == "later" ? Int64.random(in: 1...20_000, using: &random) : 1
            answers.append((now + wait * 1_000_000, reply.element, Self.peer))
        case "error":
            guard let reply = iq.errorReply(StanzaError(.itemNotFound)) else { return }
            answers.append((now + 1_000_000, reply.element, Self.peer))
        default: break
        }
    }

    // MARK: Lists

    /// Changes the roster or the block list in the name of another device of the user.
    func changeLists(using random: inout SeededGenerator) {
        guard let lists else { return }
        lists.forgetSessions { !core.sessions(of: .session($0)).isEmpty }
        for push in lists.change(using: &random) { send(push, from: Self.account) }
        core.endTurn()
        perform()
    }

    // MARK: Faults

    /// Makes the server acknowledge one session against XEP-0198, or not at all, until the session ends or ``behave()`` is called.
    ///
    /// A count that is too high is always higher than the number of sent stanzas. A client cannot notice a smaller error, and would
    /// lose stanzas.
    func misbehave(using random: inout SeededGenerator) {
        guard let session = core.sessions(of: .jid(Self.account)).randomElement(using: &random) else {
            return
        }
        let ways: [ServerBehavior.Acknowledgements] = [
            .never, .offset(.random(in: -5 ... -1, using: &random)),
            .offset(.random(in: 1000...5000, using: &random)),
        ]
        core.setAcknowledgements(ways.randomElement(using: &random) ?? .never, of: .session(session))
    }

    /// Makes the server acknowledge all sessions correctly.
    func behave() { core.setAcknowledgements(.prompt, of: .everyone) }

    /// Sends hostile stanzas of a stranger, or a repetition that the addition makes.
    func sendStrange(using random: inout SeededGenerator) {
        if let addition, Bool.random(using: &random), let repetition = addition.repetition(&random) {
            send(repetition, from: Self.peer)
        } else {
            let stanzas = HostileStanzas(
                question: lastQuestion ?? "q-0", lastMessage: lastMessage, hasLists: lists != nil,
                hasLimits: hasLimits)
            for stanza in stanzas.some(using: &random) {
                // The archive also stores messages of strangers, so a page may contain them between messages of the peer.
                let isArchived = stanza.name == "message" && stanza["type"] == nil
                send(
                    isArchived ? archive?.add(stanza, from: Self.stranger, at: wall) ?? stanza : stanza,
                    from: Self.stranger)
            }
        }
        core.endTurn()
        perform()
    }

    /// Ends all sessions. Undelivered messages go to the offline store.
    func expireSessions() {
        core.expire(.everyone)
        perform()
    }

    /// Stops and restarts the server. Every connection and every session ends, and offline messages stay.
    func restart() {
        core.shutDown(StreamError(.systemShutdown))
        perform()
        for link in network.open { network.reset(link) }
    }

    /// The number of messages that wait for the account's next presence.
    var offlineCount: Int { core.offlineMessages(of: "romeo").count }
}
