import Platform
import Handlers
import Synchronization
package import XMPPCore
package import XMPPTestKit

/// The scripted server in this process, with a bot as the peer. It is never killed.
package final class EmbeddedWorld: SimulationWorld {
    package let name = "embedded"
    package let account: JID
    package let password = "correct horse battery staple"
    package let peer: JID
    package let host: String
    package let authorityFile: String
    private let server: ScriptedServer
    private let bot: ScriptedServer.Bot
    private let notebook = Notebook()
    private let node: EmbeddedNode

    /// - Parameter flaw: The flaw of the server's certificate.
    package init(folder: String, flaw: TestCertificates.Flaw = .none) throws {
        let certificates = try TestCertificates(in: folder)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"], flaw: flaw)
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": password], certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile)
        configuration.logFile = folder + "/server.jsonl"
        let node = EmbeddedNode(of: try JID("bob@localhost"))
        configuration.script = { element, session in
            node.look(at: element, from: session.jid)
            return .pass
        }
        server = try ScriptedServer(configuration)
        try server.start()
        node.attach(to: server)
        self.node = node
        host = server.host
        authorityFile = certificates.authorityFile
        account = try JID("alice@localhost")
        peer = try JID("bob@localhost/peer")
        let notebook = notebook
        bot = server.addBot(jid: peer) { stanza, bot in notebook.take(stanza, bot) }
    }

    package var port: UInt16 { server.startTLSPort }

    package func startSending() throws {
        let sender = notebook.startSending()
        let (bot, account, notebook, node) = (bot, account, notebook, node)
        _ = try WorkerThread("push service") {
            while let n = notebook.nextNumber(for: sender) {
                bot.send(Message(to: account, id: "p-\(n)", body: String(n)).element)
                if n % 4 == 0 { try? node.publish(to: account) }
                SystemThread.sleep(microseconds: 10_000)
            }
        }
    }

    package func stopSending() { notebook.stopSending() }

    package func send(_ count: Int) {
        let sender = notebook.startSending()
        // The share of items is the same as in timed sending, even for few messages.
        let share = count < 100 ? 4 : 100
        for _ in 0..<count {
            guard let n = notebook.nextNumber(for: sender) else { break }
            bot.send(Message(to: account, id: "p-\(n)", body: String(n)).element)
            if n % share == 0 { try? node.publish(to: account) }
        }
        notebook.stopSending()
        awaitServer()
    }

    package func answerLater() {
        notebook.answerLater(bot)
        awaitServer()
    }

    /// Waits until the server has everything that was sent: a worker that comes before that is done with less.
    private func awaitServer() { server.update { _ in } }

    package func sentCount() -> Int { notebook.sentCount }

    package func expireSession() -> Bool {
        server.expireSessions()
        return true
    }

    package func awaitDeparture() -> Bool { true }

    package func suffer(_ fault: NetworkFault) -> Bool {
        switch fault {
        case .reset: server.dropConnections(.reset)
        case .halfOpen: server.pause()
        case .restart: return false
        }
        return true
    }

    package func sightings() -> PeerSightings {
        var sightings = notebook.sightings
        sightings.published = node.published
        return sightings
    }

    /// Counts acks too: a process that lost the stream must send nothing on it.
    package func staleStanzas() -> Int? {
        var newest: [Int: Int] = [:]
        var count = 0
        for entry in server.log.entries {
            switch entry.event {
            case .bound, .resumed: newest[entry.session] = entry.connection
            case .received where entry.isCounted || entry.name == "a":
                if entry.connection < newest[entry.session] ?? 0 { count += 1 }
            default: break
            }
        }
        return count
    }

    package func close() {
        notebook.stopSending()
        server.stop()
    }
}

/// The log of the bot.
private final class Notebook: Sendable {
    private struct State {
        var sightings = PeerSightings()
        /// The number of the current sending thread. Earlier ones end.
        var sender = 0
        var isSending = false
        /// Requests that are answered only on command.
        var later: [Element] = []
    }

    private let state = Mutex(State())

    var sightings: PeerSightings { state.withLock { $0.sightings } }

    var sentCount: Int { state.withLock { $0.sightings.sent.count } }

    func startSending() -> Int {
        state.withLock { state in
            state.isSending = true
            state.sender += 1
            return state.sender
        }
    }

    func stopSending() { state.withLock { $0.isSending = false } }

    /// Returns the number of the next message and records it as sent; nil if no more are sent.
    func nextNumber(for sender: Int) -> Int? {
        state.withLock { state in
            guard state.isSending, state.sender == sender else { return nil }
            let n = state.sightings.sent.count + 1
            state.sightings.sent.append("p-\(n)")
            return n
        }
    }

    /// Records a stanza and answers a request in the way that it wants.
    func take(_ stanza: Element, _ bot: ScriptedServer.Bot) {
        let arrival = PeerSightings.Arrival(id: stanza["id"] ?? "", from: stanza["from"] ?? "")
        if stanza.name == "message" {
            // An error is no message of the account: one of the peer's messages bounced.
            if stanza["type"] != "error" { state.withLock { $0.sightings.messages.append(arrival) } }
        } else if let question = stanza.child("question", SimulationApp.namespace) {
            state.withLock { $0.sightings.requests.append(arrival) }
            answer(stanza, question, bot, id: arrival.id.string)
        }
    }

    func answerLater(_ bot: ScriptedServer.Bot) {
        let requests = state.withLock { state in
            defer { state.later = [] }
            for request in state.later { state.sightings.answered.insert(request["id"] ?? "") }
            return state.later
        }
        for request in requests { bot.answer(request) }
    }

    private func answer(_ request: Element, _ question: Element, _ bot: ScriptedServer.Bot, id: String) {
        let want = question["want"]
        if want == "silence" { return }
        if want == "later" { return state.withLock { $0.later.append(request) } }
        state.withLock { _ = $0.sightings.answered.insert(ForeignText(id)) }
        if want == "error" {
            bot.refuse(request, StanzaError(.itemNotFound))
        } else {
            bot.answer(
                request,
                payload: Element(
                    "answer", namespace: SimulationApp.namespace, attributes: ["n": question["n"]]))
        }
    }
}
