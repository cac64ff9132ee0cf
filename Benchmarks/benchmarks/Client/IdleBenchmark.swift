import FoundationEssentials
import Glibc
import TestServers
import XMPPTestKit

/// How often a process wakes in a minute while its account has an open stream on Prosody and nothing happens, beside two: one
/// for the ack request of the keep-alive, one for the answer.
///
/// The account has the standard modules and the default configuration. Each time that a thread of the process gives up the
/// processor by itself counts as a wake-up, as the kernel counts it (`voluntary_ctxt_switches`). On Linux Swift's runtime looks
/// at its own threads every second in each program that has run a task (libdispatch's `_dispatch_workq_monitor_pools`). So the
/// wake-ups of a program that does nothing else, in the same two minutes, are subtracted.
struct IdleBenchmark: Benchmark {
    /// What follows a login is over by then.
    private static let settling = Duration.seconds(10)
    /// Twice the interval of the keep-alive.
    private static let minutes = 2

    let names = ["client/idle"]

    func run(in workspace: Workspace) throws -> [Line] {
        // Prosody is told paths and runs elsewhere.
        let workspace = Workspace(path: FileManager.default.currentDirectoryPath + "/" + workspace.path)
        let certificates = try TestCertificates(in: workspace.path)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let server = try ProsodyServer(
            folder: workspace.file("prosody"), domain: "localhost",
            certificateFile: certificate.certificateFile, keyFile: certificate.keyFile)
        try server.addAccount("alice", password: "secret")
        try server.start()
        defer { server.close() }
        let clients = StreamClients(
            jid: "alice@localhost", password: "secret", port: server.directTLSPort,
            startTLSPort: server.startTLSPort, authority: certificates.authorityFile, workspace: workspace)
        let account = try clients.start("idle", 0, store: "idle.db")
        let nothing = try clients.startNothing()
        for child in [account, nothing] {
            let line = try child.output?.readLine(deadline: .now + .seconds(20)) { $0 == "ready" }
            guard line != nil else { throw BenchmarkError("stream-client was not ready") }
        }
        let wakeUps = try count(of: account, beyond: nothing)
        return [
            Line(
                names[0], unit: "1/min", better: .less, ours: Double(wakeUps) / Double(Self.minutes),
                reference: 2, referenceName: "2 wake-ups", goal: 1)
        ]
    }

    private func count(of account: ChildProcess, beyond nothing: ChildProcess) throws -> Int {
        sleep(Self.settling)
        let before = try [nothing, account].map { try ContextSwitches(of: $0.processID) }
        sleep(.seconds(60 * Self.minutes))
        let after = try [nothing, account].map { try ContextSwitches(of: $0.processID) }
        let wakes = after[1].since(before[1])
        let threads = wakes.map { "\($0.thread) \($0.count)" }.joined(separator: ", ")
        let counts = [after[0].since(before[0]), wakes].map { $0.reduce(0) { $0 + $1.count } }
        let count = counts[1] - counts[0]
        // A stream that is open is asked for a proof.
        guard account.isRunning, nothing.isRunning, count >= Self.minutes else {
            throw BenchmarkError(
                "the account has no open stream any more: \(threads), \(counts[0]) without it")
        }
        if count > 2 * Self.minutes {
            BenchmarkCommand.complain("threads woke so often: \(threads), \(counts[0]) without the account")
        }
        return count
    }

    private func sleep(_ time: Duration) { usleep(UInt32(time / .microseconds(1))) }
}

/// How often each thread of a process has given up the processor by itself: to wait for something.
private struct ContextSwitches {
    private var counts: [String: (name: String, count: Int)] = [:]

    init(of process: Int32) throws {
        let folder = "/proc/\(process)/task"
        for thread in try FileManager.default.contentsOfDirectory(atPath: folder) {
            let status = try String(contentsOfFile: "\(folder)/\(thread)/status", encoding: .utf8)
            var fields: [Substring: Substring] = [:]
            for line in status.split(separator: "\n") {
                let parts = line.split(separator: "\t", maxSplits: 1)
                if parts.count == 2 { fields[parts[0]] = parts[1] }
            }
            guard let name = fields["Name:"],
                let count = fields["voluntary_ctxt_switches:"].flatMap({ Int($0) })
            else { throw BenchmarkError("the kernel does not count the context switches of threads") }
            counts[thread] = (String(name), count)
        }
    }

    /// Those that were added, by thread. A thread that is new has all of its own.
    func since(_ before: Self) -> [(thread: String, count: Int)] {
        counts.map { id, now in (now.name, now.count - (before.counts[id]?.count ?? 0)) }
            .filter { $0.1 > 0 }.sorted { $0.1 > $1.1 }
    }
}
