import FoundationEssentials
import Platform
package import XMPPCore
package import TestServers
import XMPPTestKit

/// A real server on a line that can fail, with a slixmpp client as the peer. Neither shares code with this package.
package final class RealServerWorld: SimulationWorld {
    package let name: String
    package let account: JID
    package let password = "correct horse battery staple"
    package let peer: JID
    package let host = "127.0.0.1"
    package let authorityFile: String
    package let push: PushLine?
    private let server: any TestServer
    private let client: SlixmppPeer
    /// The line between the account and the server. The peer has another one.
    private let line: LoopbackProxy
    private let hibernation: Duration
    /// The id prefixes of the messages that the peer was told to send.
    private var senders: [String] = []
    private var isSending = false
    private var peerLog: LogTail
    private var sentByPeer = 0
    private var publishedByPeer = 0

    /// The number of messages that the peer sends a second.
    private let rate: Double

    /// - Parameters:
    ///   - hibernation: How long the server keeps a session without a stream, in whole seconds.
    ///   - rate: The number of messages that the peer sends a second. At every resumption a server resends all unacknowledged
    ///     stanzas. If processes are killed before that is done, the run never ends.
    ///   - hasPush: Whether the server wakes workers through an app server.
    package init(
        _ kind: ServerKind, folder: String, hibernation: Duration = .seconds(600), rate: Double = 100,
        hasPush: Bool = false
    ) throws {
        self.rate = rate
        self.hibernation = hibernation
        let certificates = try TestCertificates(in: folder)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let pushDomain = "push.localhost"
        let components = hasPush ? [pushDomain: PushLine.componentSecret] : [:]
        server = try kind.makeServer(
            folder: folder + "/server", certificate: certificate,
            prosody: { options in
                options.hibernation = hibernation
                // With 10 000 messages, its archive in files is often read and written as a whole. That takes seconds, in which it
                // serves no client.
                options.removedModules = ["mam"]
                options.components = components
            },
            ejabberd: { options in
                options.hibernation = hibernation
                // Its archive in Mnesia is one bag for each account, so each message costs more than the last. After some thousand
                // messages, ejabberd accepts fewer in a second than the peer sends.
                options.removedModules = ["mod_mam"]
                options.components = components
            })
        try server.start()
        name = server.version.lowercased()
        account = try JID("alice@localhost")
        authorityFile = certificates.authorityFile
        try server.addAccount("alice", password: password)
        try server.addAccount("bob", password: password)
        // Only the contacts of the peer receive the items of its node.
        try server.befriend("alice", "bob")
        line = try LoopbackProxy(to: server.startTLSPort)
        client = try SlixmppPeer(
            folder: folder + "/peer", jid: JID("bob@localhost/peer"), password: password,
            port: server.startTLSPort, trustFile: certificates.authorityFile)
        try client.start()
        peerLog = LogTail(client.folder + "/peer.log")
        peer = try client.jid
        push =
            hasPush
            ? try PushLine(service: JID(pushDomain), port: server.componentPort, account: account) : nil
    }

    package var port: UInt16 { line.port }

    package func startSending() throws {
        // Two senders that count the same items would contradict each other.
        guard !isSending else { return }
        let prefix = "p\(senders.count + 1)"
        senders.append(prefix)
        isSending = true
        try client.sendMessages(to: account.description, count: 1_000_000, rate: rate, prefix: prefix)
        try publish(rate: rate / 10)
    }

    /// Makes the peer publish the next items.
    private func publish(rate: Double) throws {
        try readPeerLog()
        try client.command(
            "publish", ["node": SimulationApp.News.node, "first": publishedByPeer + 1, "rate": rate])
    }

    package func stopSending() throws {
        try client.stopSending()
        for prefix in senders { _ = try client.waitUntilSent(prefix: prefix, deadline: .now + .seconds(30)) }
        isSending = false
    }

    package func send(_ count: Int) throws {
        let prefix = "p\(senders.count + 1)"
        senders.append(prefix)
        try publish(rate: 10)
        try client.sendMessages(to: account.description, count: count, rate: 0, prefix: prefix)
        _ = try client.waitUntilSent(prefix: prefix, deadline: .now + .seconds(300))
        try client.stopSending()
    }

    package func answerLater() throws { try client.tell("answer") }

    /// Counts only the new lines of the peer's log, because the whole log is long after some thousand kills.
    package func sentCount() throws -> Int {
        try readPeerLog()
        return sentByPeer
    }

    private func readPeerLog() throws {
        for line in try peerLog.newLines() {
            if line.contains("\"kind\": \"sent\"") { sentByPeer += 1 }
            if line.contains("\"kind\": \"published\"") { publishedByPeer += 1 }
        }
    }

    /// Waits until the server ends the session by itself, because it has no command for that; false if that takes too long.
    package func expireSession() -> Bool {
        guard hibernation <= .seconds(5) else { return false }
        SystemThread.sleep(microseconds: UInt32((hibernation + .seconds(1)) / .microseconds(1)))
        return true
    }

    /// ejabberd cannot handle a new connection while it still processes stanzas of an older one. The wait has a limit.
    package func awaitDeparture() throws -> Bool {
        defer { push?.forget() }
        guard let server = server as? EjabberdServer else { return true }
        return try server.waitUntilDepartedAreGone(over: line, deadline: .now + .seconds(30))
    }

    /// ejabberd does not support it; see ``awaitDeparture()``.
    package var standsTakeover: Bool { !(server is EjabberdServer) }

    package func suffer(_ fault: NetworkFault) throws -> Bool {
        switch fault {
        case .reset: line.cut()
        case .halfOpen: line.strand()
        case .restart:
            guard !isSending else { return false }
            client.close()
            server.close()
            try server.start()
            try client.start()
        }
        return true
    }

    package func sightings() throws -> PeerSightings {
        var sightings = PeerSightings()
        for record in try client.log() {
            let id = record.id ?? ""
            switch record.kind {
            case .received:
                sightings.messages.append(.init(id: ForeignText(id), from: ForeignText(record.from ?? "")))
            case .request:
                sightings.requests.append(.init(id: ForeignText(id), from: ForeignText(record.from ?? "")))
            case .answer: sightings.answered.insert(ForeignText(id))
            case .sent: sightings.sent.append(id)
            case .published: sightings.published += 1
            default: break
            }
        }
        return sightings
    }

    package func close() {
        push?.close()
        client.close()
        line.close()
        server.close()
    }
}
