import FoundationEssentials
import Glibc
import XMPPCore
import TestServers
import XMPPTestKit

/// How many requests a second go to ejabberd and back, beside clients that keep their callbacks in memory.
///
/// Ours commits each request with its handler before it is sent, and each ending with its effect; slixmpp stores nothing, nor does
/// libstrophe with 64 requests at once. With one at a time it commits each request and each answer, too.
struct RoundTripBenchmark: Benchmark {
    private static let user = "alice"
    private static let password = "correct horse battery staple"
    private static let turns = 7

    private struct Course {
        let name: String
        let window: Int
        let count: Int
        /// Whether libstrophe commits, too.
        let commits: Bool
        /// Against libstrophe.
        let goal: Double
    }

    private static let courses = [
        Course(name: "stream/round-trips-64", window: 64, count: 12_800, commits: false, goal: 1),
        Course(name: "stream/round-trips-1", window: 1, count: 1500, commits: true, goal: 0.8),
    ]

    var names: [String] { Self.courses.map(\.name) + ["stream/round-trips-64-slixmpp"] }

    func run(in workspace: Workspace) throws -> [Line] {
        let workspace = Workspace(path: FileManager.default.currentDirectoryPath + "/" + workspace.path)
        let certificates = try TestCertificates(in: workspace.path)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let server = try EjabberdServer(
            folder: workspace.file("ejabberd"), domain: "localhost",
            certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile)
        try server.start()
        defer { server.close() }
        try server.addAccount(Self.user, password: Self.password)
        let clients = StreamClients(
            jid: "\(Self.user)@localhost", password: Self.password, port: server.directTLSPort,
            startTLSPort: server.startTLSPort, authority: certificates.authorityFile, workspace: workspace)
        var lines: [Line] = []
        for course in Self.courses {
            var rates: (ours: [Double], strophe: [Double], slixmpp: [Double]) = ([], [], [])
            for _ in 0..<Self.turns {
                rates.ours.append(try clients.ours("ping", course.count, course.window).rate)
                rates.strophe.append(
                    try clients.strophe(
                        course.count, course.window, store: course.commits ? "strophe.db" : nil))
                if course.window > 1 {
                    rates.slixmpp.append(try clients.slixmpp(course.count / 4, course.window))
                }
            }
            lines.append(
                Line(
                    course.name, unit: "1/s", better: .more, ours: rates.ours.median,
                    reference: rates.strophe.median,
                    referenceName: course.commits ? "libstrophe, 2 commits" : "libstrophe", goal: course.goal)
            )
            if course.window > 1 {
                lines.append(
                    Line(
                        course.name + "-slixmpp", unit: "1/s", better: .more, ours: rates.ours.median,
                        reference: rates.slixmpp.median, referenceName: "slixmpp", goal: 3))
            }
        }
        return lines
    }
}

/// Messages stored exactly once, from the scripted server: how many a second, and how long each takes from being sent to
/// being committed when a thousand come a second.
struct InboundBenchmark: Benchmark {
    private static let count = 100_000
    private static let wanted = 20_000.0
    private static let paced = 5000

    let names = ["stream/inbound", "stream/message-to-commit-p99"]

    func run(in workspace: Workspace) throws -> [Line] {
        let rate = try receive(Self.count, pace: nil, in: workspace, store: "burst.db").rate
        let wait = try receive(Self.paced, pace: .milliseconds(1), in: workspace, store: "paced.db").p99
        return [
            Line(
                names[0], unit: "1/s", better: .more, ours: rate, reference: Self.wanted,
                referenceName: "wanted",
                goal: 1),
            Line(
                names[1], unit: "ms", better: .less, ours: wait, reference: 50, referenceName: "50 ms",
                goal: 1),
        ]
    }

    private func receive(
        _ count: Int, pace: Duration?, in workspace: Workspace, store: String
    ) throws -> StreamClients.Report {
        let certificates = try TestCertificates(in: workspace.path)
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": "secret"],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        configuration.logsXML = false
        let server = try ScriptedServer(configuration)
        try server.start()
        defer { server.stop() }
        let clients = StreamClients(
            jid: "alice@localhost", password: "secret", port: server.directTLSPort,
            startTLSPort: server.startTLSPort, authority: certificates.authorityFile, workspace: workspace)
        let child = try clients.start("listen", count, store: store)
        _ = try child.output?.readLine(deadline: .now + .seconds(20)) { $0 == "ready" }
        let bot = server.addBot(jid: try JID("peer@localhost/bot"))
        let to = try JID("alice@localhost")
        let begin = ContinuousClock.now
        for number in 0..<count {
            if let pace { Self.sleep(until: begin + pace * number) }
            let body = "\(Self.now) message number \(number), about as long as people write"
            bot.send(Message(to: to, id: "m-\(number)", body: body).element)
        }
        return try clients.report(of: child)
    }

    private static func sleep(until instant: ContinuousClock.Instant) {
        let left = instant - .now
        if left > .zero { usleep(UInt32(left / .microseconds(1))) }
    }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
