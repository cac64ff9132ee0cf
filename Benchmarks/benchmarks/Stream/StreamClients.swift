import FoundationEssentials
import TestServers

/// The programs whose streams are measured, on one account of one server.
struct StreamClients {
    let jid: String
    let password: String
    let port: UInt16
    let startTLSPort: UInt16
    let authority: String
    let workspace: Workspace

    /// What a program says at its end.
    struct Report {
        /// Per second.
        var rate: Double
        /// In milliseconds.
        var p99: Double = 0
    }

    // MARK: Ours

    func ours(_ mode: String, _ count: Int, _ window: Int) throws -> Report {
        let store = "\(mode)-\(window).db"
        defer { remove(store) }
        return try report(of: start(mode, count, window, store: store))
    }

    func start(_ mode: String, _ count: Int, _ window: Int? = nil, store: String) throws -> ChildProcess {
        try ChildProcess(
            ".build/release/stream-client",
            [workspace.file(store), jid, password, "\(port)", authority, mode, "\(count)"]
                + (window.map { ["\($0)"] } ?? []),
            output: .pipe)
    }

    /// The same program without an account.
    func startNothing() throws -> ChildProcess {
        try ChildProcess(".build/release/stream-client", ["nothing"], output: .pipe)
    }

    func report(of child: ChildProcess) throws -> Report {
        let line = try child.output?.readLine(deadline: .now + .seconds(120)) { $0.hasPrefix("rate ") }
        let words = (line ?? "").split(separator: " ")
        guard words.count == 6, let rate = Double(words[1]), let p99 = Double(words[5]) else {
            throw BenchmarkError("stream-client said \(line ?? "nothing")")
        }
        try child.waitUntilExit(deadline: .now + .seconds(20))
        return Report(rate: rate, p99: p99)
    }

    private func remove(_ store: String) {
        for end in ["", "-wal", "-shm", "-processes", "-signal"] {
            try? FileManager.default.removeItem(atPath: workspace.file(store + end))
        }
    }

    // MARK: Others

    /// - Parameter store: Where it commits each request and each answer; nil keeps them in memory.
    func strophe(_ count: Int, _ window: Int, store: String? = nil) throws -> Double {
        defer { if let store { remove(store) } }
        return try rate(
            ".build/release/strophe-peer",
            [jid, password, "\(port)", "direct", "ping", "\(count)", "\(window)"]
                + (store.map { [workspace.file($0)] } ?? []))
    }

    /// Counts the bytes of an archive.
    func countArchive() throws -> Double {
        try rate(".build/release/archive-counter", [jid, password, "\(port)", authority])
    }

    func slixmpp(_ count: Int, _ window: Int) throws -> Double {
        try rate(
            SlixmppPeer.locatePython(),
            [
                "Benchmarks/peers/slixmpp_ping.py", jid, password, "\(startTLSPort)", authority, "\(count)",
                "\(window)",
            ])
    }

    func slixmppArchive(_ count: Int, store: String) throws -> Double {
        try rate(
            SlixmppPeer.locatePython(),
            [
                "Benchmarks/peers/slixmpp_archive.py", jid, password, "\(startTLSPort)", authority,
                workspace.file(store), "\(count)",
            ])
    }

    private func rate(_ program: String, _ arguments: [String]) throws -> Double {
        let child = try ChildProcess(program, arguments, output: .pipe)
        let line = try child.output?.readLine(deadline: .now + .seconds(120)) { $0.hasPrefix("rate ") }
        guard let rate = line.flatMap({ Double($0.dropFirst("rate ".count)) }) else {
            throw BenchmarkError("\(program) said \(line ?? "nothing")")
        }
        try child.waitUntilExit(deadline: .now + .seconds(20))
        return rate
    }
}
