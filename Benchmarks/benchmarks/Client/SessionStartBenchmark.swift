import FoundationEssentials
import TestServers
import XMPPTestKit

/// From the start of a process until it has a session on Prosody, beside a client on libstrophe.
///
/// Both use the same account, server and kind of TLS. Ours has a store in which an earlier process left its session, as
/// every process but the first has; the first one is measured apart, on an empty store.
struct SessionStartBenchmark: Benchmark {
    private static let starts = 41
    private static let user = "alice"
    private static let password = "correct horse battery staple"
    private static let ours = ".build/release/session-start"
    private static let peer = ".build/release/strophe-peer"

    private static let kinds = ["direct", "starttls"]

    var names: [String] {
        Self.kinds.flatMap { ["client/session-start-\($0)", "client/first-session-\($0)"] }
    }

    func run(in workspace: Workspace) throws -> [Line] {
        guard FileManager.default.isExecutableFile(atPath: Self.peer) else {
            throw BenchmarkError("there is no \(Self.peer); run scripts/setup.sh bench")
        }
        // Prosody is told paths and runs elsewhere.
        let workspace = Workspace(path: FileManager.default.currentDirectoryPath + "/" + workspace.path)
        let certificates = try TestCertificates(in: workspace.path)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let server = try ProsodyServer(
            folder: workspace.file("prosody"), domain: "localhost",
            certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile)
        try server.addAccount(Self.user, password: Self.password)
        try server.start()
        defer { server.close() }
        return try Self.kinds.flatMap { kind in
            try measure(kind, server, authority: certificates.authorityFile, in: workspace)
        }
    }

    private func measure(
        _ kind: String, _ server: ProsodyServer, authority: String, in workspace: Workspace
    ) throws -> [Line] {
        let port = "\(kind == "direct" ? server.directTLSPort : server.startTLSPort)"
        let login = ["\(Self.user)@localhost", Self.password, port, kind]
        let kept = workspace.file("kept-\(kind).db")
        func start(_ store: String) throws -> Double {
            try Self.milliseconds(Self.ours, [store] + login + [authority])
        }
        _ = try start(kept)
        var times: (ours: [Double], first: [Double], peer: [Double]) = ([], [], [])
        for number in 0..<Self.starts {
            times.ours.append(try start(kept))
            times.peer.append(try Self.milliseconds(Self.peer, login))
            times.first.append(try start(workspace.file("first-\(kind)-\(number).db")))
        }
        return [
            line("client/session-start-\(kind)", times.ours, times.peer, goal: 2),
            line("client/first-session-\(kind)", times.first, times.peer, goal: 1),
        ]
    }

    private func line(_ name: String, _ ours: [Double], _ peer: [Double], goal: Double) -> Line {
        Line(
            name, unit: "ms", better: .less, ours: ours.median, reference: peer.median,
            referenceName: "libstrophe", goal: goal)
    }

    /// The time from before a program is started until it says that it is ready.
    private static func milliseconds(_ program: String, _ arguments: [String]) throws -> Double {
        let start = ContinuousClock.now
        let child = try ChildProcess(program, arguments, output: .pipe, endsWithParent: false)
        let line = try child.output?.readLine(deadline: .now + .seconds(20))
        let elapsed = (ContinuousClock.now - start) / .milliseconds(1)
        let ending = try child.waitUntilExit(deadline: .now + .seconds(20))
        guard line == "ready", ending.succeeded else {
            throw BenchmarkError("\(program) was not ready: \(line ?? "no word"), \(ending)")
        }
        return elapsed
    }
}
