import FoundationEssentials
import Platform
package import XMPPCore
package import TestServers
import XMPPTestKit

/// A real server behind a line that can fail, and a slixmpp client as the peer: neither shares code with us.
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
    /// Between the account and the server; the peer has a line of its own.
    private let line: LoopbackProxy
    private let hibernation: Duration
    /// The prefixes of what the peer was told to send.
    private var senders: [String] = []
    private var isSending = false
    private var peerLog: LogTail
    private var sentByPeer = 0
    private var publishedByPeer = 0

    /// The number of messages that the peer sends a second.
    private let rate: Double

    /// - Parameters:
    ///   - hibernation: How long the server keeps a session without a stream, in whole seconds.
    ///   - rate: How many messages the peer sends a second. What a server holds back for a session it sends again at every
    ///     resumption; when processes are killed faster than it can do that, it never ends.
    ///   - hasPush: Whether the server wakes workers by an app server.
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
                // Its archive in files is read and written as a whole again and again once it holds 10 000 messages, for
                // seconds, in which nobody is served.
                options.removedModules = ["mam"]
                options.components = components
            },
            ejabberd: { options in
                options.hibernation = hibernation
                // Its archive in Mnesia is one bag for each account, so a message costs more the more there are: after some
                // thousand, ejabberd takes fewer in a second than the peer sends.
                options.removedModules = ["mod_mam"]
                options.components = components
            })
        try server.start()
        name = server.version.lowercased()
        account = try JID("alice@localhost")
        authorityFile = certificates.authorityFile
        try server.addAccount("alice", password: password)
        try server.addAccount("bob", password: password)
        // The peer's node is for its contacts.
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
        // Two that count the same items would contradict each other.
        guard !isSending else { return }
        let prefix = "p\(senders.count + 1)"
        senders.append(prefix)
        isSending = true
        try client.sendMessages(to: account.description, count: 1_000_000, rate: rate, prefix: prefix)
        try publish(rate: rate / 10)
    }

    /// Has the peer publish the items that come next.
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

    /// What was written down since the last look is counted, because the whole log is long after some thousand kills.
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

    /// Waits until the server ends the session, as it cannot be told to; false if that takes too long.
    package func expireSession() -> Bool {
        guard hibernation <= .seconds(5) else { return false }
        SystemThread.sleep(microseconds: UInt32((hibernation + .seconds(1)) / .microseconds(1)))
        return true
    }

    /// ejabberd does not stand a connection while it still works on what an older one brought; nobody waits for ever.
    package func awaitDeparture() throws -> Bool {
        defer { push?.forget() }
        guard let server = server as? EjabberdServer else { return true }
        return try server.waitUntilDepartedAreGone(over: line, deadline: .now + .seconds(30))
    }

    /// ejabberd does not; see ``awaitDeparture()``.
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
