import FoundationEssentials
import Glibc
import XMPPCore
import XMPPTestKit

/// A real Prosody, and a slixmpp client as the peer: neither shares code with us.
final class ProsodyWorld: SimulationWorld {
    let name: String
    let account: JID
    let password = "correct horse battery staple"
    let peer: JID
    let host = "127.0.0.1"
    let authorityFile: String
    private let server: ProsodyServer
    private let client: SlixmppPeer
    private var senders: [String] = []

    private let hibernation: Duration

    /// - Parameter hibernation: How long Prosody keeps a session without a stream.
    init(folder: String, hibernation: Duration = .seconds(600)) throws {
        self.hibernation = hibernation
        let certificates = try TestCertificates(in: folder)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        var options = ProsodyOptions()
        options.hibernation = hibernation
        server = try ProsodyServer(
            folder: folder + "/server", domain: "localhost", certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile, options: options)
        try server.start()
        name = server.version.lowercased()
        account = try JID("alice@localhost")
        authorityFile = certificates.authorityFile
        try server.addAccount("alice", password: password)
        try server.addAccount("bob", password: password)
        client = try SlixmppPeer(
            script: PackageResources.slixmpp_peer_py, folder: folder + "/peer", jid: "bob@localhost/peer",
            password: password, port: server.startTLSPort, trustFile: certificates.authorityFile)
        try client.start()
        peer = try JID(client.fullJID ?? "bob@localhost/peer")
    }

    var port: UInt16 { server.startTLSPort }

    func startSending() throws {
        let prefix = "p\(senders.count + 1)"
        senders.append(prefix)
        try client.sendMessages(to: account.description, count: 1_000_000, rate: 100, prefix: prefix)
    }

    func stopSending() throws {
        try client.stopSending()
        for prefix in senders { _ = try client.waitUntilSent(prefix: prefix, deadline: .now + .seconds(30)) }
    }

    /// Prosody cannot be told to forget a session, but it does so when its time is over.
    func expireSession() -> Bool {
        guard hibernation <= .seconds(5) else { return false }
        usleep(UInt32((hibernation + .seconds(1)) / .microseconds(1)))
        return true
    }

    func sightings() throws -> PeerSightings {
        var sightings = PeerSightings()
        for record in try client.log() {
            let id = record.id ?? ""
            switch record.kind {
            case .received: sightings.messages.append(.init(id: id, from: record.from ?? ""))
            case .request: sightings.requests.append(.init(id: id, from: record.from ?? ""))
            case .answer: sightings.answered.insert(id)
            case .sent: sightings.sent.append(id)
            default: break
            }
        }
        return sightings
    }

    func close() {
        client.close()
        server.close()
    }
}
