import FoundationEssentials
import TestServers

/// What a push costs: a worker from exec to exit on Prosody, where a message and an answered request wait for the session
/// that a killed main program left; beside a program on slixmpp that finds the same, in turns.
struct WakeBenchmark: Benchmark {
    private static let rounds = 160
    /// Every so many rounds both go through a relay. It costs time, so those are not among the times.
    private static let relayedEvery = 5
    private static let limitMilliseconds = 30.0
    private static let limitMebibytes = 24.0
    /// To be accepted, TLS 1.3, and the login with the resumption inside.
    private static let leastRoundTrips = 3.0

    private static let command = ".build/release/pushwake"
    private static let ownEnds: [(Wake.Part, String)] = [
        (.exec, "main"), (.open, "owned"), (.connect, "connected"), (.tls, "protected"),
        (.resume, "resumed"), (.handle, "handled"), (.drain, "drained"),
    ]
    /// asyncio tells of a connection when TLS protects it.
    private static let otherEnds: [(Wake.Part, String)] = [
        (.exec, "main"), (.open, "opened"), (.tls, "protected"), (.resume, "resumed"), (.handle, "handled"),
    ]

    let names = [
        "wake/exec-to-exit", "wake/exec-to-exit-p99", "wake/exec-to-exit-slixmpp", "wake/round-trips",
        "wake/peak-memory",
    ]

    func run(in workspace: Workspace) throws -> [Line] {
        let server = try WakeServer(in: workspace)
        defer { server.close() }
        let store = workspace.file("store.db")
        var (ours, others): (WakeSeries, WakeSeries) = (.init(), .init())
        for round in 0..<Self.rounds {
            let relay = try Self.relay(round, to: server)
            defer { relay?.close() }
            if try leaveSession(server, store) {
                try ours.add(relay) { try wakeOurs(server, store, port: $0 ?? server.port) }
            } else {
                // Its question has timed out by now: less is waiting.
                _ = try wakeOurs(server, store, port: server.port)
            }
            try server.leaveOtherSession()
            try server.answer(WakeServer.other)
            try others.add(relay) { try wakeOther(server, port: $0 ?? server.port) }
        }
        print(WakeTable(ours: ours, others: others).text + "\n")
        return lines(ours, others)
    }

    /// Two relays by turns: one tells how long the server takes; the other holds what it carries for a while, so that all that
    /// is sent without waiting arrives before any answer, and counts how often somebody waits.
    private static func relay(_ round: Int, to server: WakeServer) throws -> WakeRelay? {
        guard round % relayedEvery == 0 else { return nil }
        let isSlow = round / relayedEvery % 2 == 0
        return try WakeRelay(to: server.port, delay: isSlow ? .milliseconds(10) : .zero)
    }

    private func lines(_ ours: WakeSeries, _ others: WakeSeries) -> [Line] {
        let limit = Self.limitMilliseconds
        return [
            Line(
                names[0], unit: "ms", better: .less, ours: ours.totals.percentile(50), reference: limit,
                referenceName: "limit", goal: 1),
            Line(
                names[1], unit: "ms", better: .less, ours: ours.totals.percentile(99),
                reference: others.totals.percentile(99), referenceName: "slixmpp, p99", goal: 3),
            Line(
                names[2], unit: "ms", better: .less, ours: ours.totals.percentile(50),
                reference: others.totals.percentile(50), referenceName: "slixmpp", goal: 3),
            Line(
                names[3], unit: "", better: .less, ours: Double(ours.roundTrips.max() ?? 0),
                reference: Self.leastRoundTrips, referenceName: "the fewest", goal: 1),
            Line(
                names[4], unit: "MiB", better: .less, ours: ours.peak, reference: Self.limitMebibytes,
                referenceName: "limit", goal: 1),
        ]
    }

    // MARK: Ours

    /// A main program connects, asks the peer something and is killed; then the peer answers and writes.
    ///
    /// - Returns: Whether a caller waits for the answer.
    private func leaveSession(_ server: WakeServer, _ store: String) throws -> Bool {
        let main = try ChildProcess(
            Self.command, arguments("main", server, store, port: server.port) + ["--interval", "60000"],
            environment: Self.environment, input: .pipe, output: .pipe)
        let waits = try server.waitUntilAsked()
        main.killAndWait()
        try server.answer(WakeServer.ours)
        return waits
    }

    private func wakeOurs(_ server: WakeServer, _ store: String, port: UInt16) throws -> Wake {
        try Wake(
            Self.command, arguments("worker", server, store, port: port) + ["--timings"],
            environment: Self.variables, ends: Self.ownEnds)
    }

    private static let variables = ["PUSHWAKE_PASSWORD": WakeServer.password]
    private static let environment = ChildProcess.Environment.inheriting(variables)

    private func arguments(
        _ command: String, _ server: WakeServer, _ store: String, port: UInt16
    ) -> [String] {
        [
            command, "--store", store, "--jid", WakeServer.ours, "--peer", server.peerAddress, "--host",
            "127.0.0.1", "--port", "\(port)", "--direct-tls", "--ca", server.authority,
        ]
    }

    // MARK: slixmpp

    private func wakeOther(_ server: WakeServer, port: UInt16) throws -> Wake {
        try Wake(
            SlixmppPeer.locatePython(),
            [
                "Benchmarks/peers/slixmpp_wake.py", WakeServer.other, WakeServer.password, "\(port)",
                server.authority, server.otherState,
            ], ends: Self.otherEnds)
    }
}

/// All wakes of one program.
struct WakeSeries {
    private(set) var totals: [Double] = []
    private(set) var parts: [Wake.Part: [Double]] = [:]
    /// The server's share, as the relay saw it.
    private(set) var server: [Wake.Part: [Double]] = [:]
    private(set) var roundTrips: [Int] = []
    /// In MiB.
    private(set) var peak = 0.0

    /// - Parameter relay: What this wake goes through; nil for the way without.
    mutating func add(_ relay: WakeRelay?, _ wake: (_ port: UInt16?) throws -> Wake) throws {
        let before = relay?.proxy.records.count ?? 0
        let result = try wake(relay?.proxy.port)
        peak = max(peak, result.peak)
        guard let relay else {
            totals.append(result.total)
            for (part, time) in result.parts { parts[part, default: []].append(time) }
            return
        }
        let line = WakeLine(Array(relay.proxy.records.dropFirst(before)), until: result.resumedAt)
        if relay.isSlow { return roundTrips.append(line.roundTrips) }
        for (part, time) in line.server { server[part, default: []].append(time) }
    }
}

/// A line between a program and the server that is looked at.
struct WakeRelay {
    let proxy: LoopbackProxy
    let isSlow: Bool

    init(to port: UInt16, delay: Duration) throws {
        proxy = try LoopbackProxy(to: port, delay: delay)
        isSlow = delay > .zero
    }

    func close() { proxy.close() }
}

extension [Double] {
    /// The least that so many in a hundred do not exceed; there must be one.
    func percentile(_ percent: Int) -> Double {
        sorted()[Swift.min(count - 1, count * percent / 100)]
    }
}
