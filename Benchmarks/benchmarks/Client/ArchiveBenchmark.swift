import FoundationEssentials
import XMPPCore
import XMPPTestKit

/// Messages of an archive, each stored exactly once: how many a second, beside a C program that only counts the bytes, which
/// shows what the server delivers, and slixmpp that stores the messages in SQLite.
///
/// All ask the scripted server for pages of 250; those that store wait for the disk with each commit.
struct ArchiveBenchmark: Benchmark {
    private static let count = 50_000
    private static let otherCount = 10_000
    private static let turns = 5

    let names = ["client/archive", "client/archive-slixmpp"]

    func run(in workspace: Workspace) throws -> [Line] {
        let certificates = try TestCertificates(in: workspace.path)
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": "secret"],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        // For the program that counts bytes. The others take the first.
        configuration.behavior.mechanisms.append("PLAIN")
        let server = try ScriptedServer(configuration)
        try server.start()
        defer { server.stop() }
        let (alice, peer) = (try JID("alice@localhost"), try JID("peer@localhost/bot"))
        let archive = ArchiveService(count: Self.count) { number in
            let body = "0 message number \(number), about as long as people write"
            return Message(to: alice, from: peer, id: "m-\(number)", body: body).element
        }
        archive.serve(at: alice, on: server)
        let clients = StreamClients(
            jid: alice.description, password: "secret", port: server.directTLSPort,
            startTLSPort: server.startTLSPort, authority: certificates.authorityFile, workspace: workspace)
        var rates: (ours: [Double], counter: [Double], slixmpp: [Double]) = ([], [], [])
        for turn in 0..<Self.turns {
            let child = try clients.start("catch-up", Self.count, store: "archive-\(turn).db")
            rates.ours.append(try clients.report(of: child).rate)
            rates.counter.append(try clients.countArchive())
            rates.slixmpp.append(try clients.slixmppArchive(Self.otherCount, store: "slixmpp-\(turn).db"))
        }
        return [
            Line(
                names[0], unit: "1/s", better: .more, ours: rates.ours.median,
                reference: rates.counter.median, referenceName: "bytes counted", goal: 0.8),
            Line(
                names[1], unit: "1/s", better: .more, ours: rates.ours.median,
                reference: rates.slixmpp.median, referenceName: "slixmpp", goal: 5),
        ]
    }
}
