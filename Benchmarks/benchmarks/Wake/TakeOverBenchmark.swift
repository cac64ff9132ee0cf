import FoundationEssentials
import Glibc
import TestServers
import XMPPTestKit

/// How soon another process owns an account whose owner was killed, is frozen, or is asked for it.
///
/// Processes that have the store open take turns; the successor is told to connect at the moment in question, so that the
/// start of a program, which the wake is about, is left out.
struct TakeOverBenchmark: Benchmark {
    private static let killed = 101
    private static let frozen = 41
    private static let handedOver = 201
    /// How long an owner may be silent, in milliseconds: what an account has unless told otherwise.
    private static let silence = 500.0
    private static let killLimit = 10.0
    private static let handOverLimit = 100.0

    private static let stems = ["wake/takeover-after-kill", "wake/takeover-after-freeze", "wake/hand-over"]

    var names: [String] { Self.stems.flatMap { [$0, $0 + "-p99"] } }

    func run(in workspace: Workspace) throws -> [Line] {
        let server = try WakeServer(in: workspace)
        defer { server.close() }
        let owners = StreamOwners(server, silence: Self.silence)
        let times = [
            (try afterKill(owners, workspace.file("kill.db")), Self.killLimit, "limit"),
            (try afterFreeze(owners, workspace.file("freeze.db")), Self.silence, "silence"),
            (try handOver(owners, workspace.file("hand-over.db")), Self.handOverLimit, "limit"),
        ]
        return zip(Self.stems, times).flatMap { stem, measured in
            [("", 50), ("-p99", 99)].map { end, percent in
                Line(
                    stem + end, unit: "ms", better: .less, ours: measured.0.percentile(percent),
                    reference: measured.1, referenceName: measured.2, goal: 1)
            }
        }
    }

    /// From SIGKILL until the successor's epoch is committed.
    private func afterKill(_ owners: StreamOwners, _ store: String) throws -> [Double] {
        var owner = try owners.start(store, role: "main")
        try owner.connect()
        return try (0..<Self.killed).map { _ in
            let successor = try owners.start(store, role: "worker")
            let begin = ServerTime.monotonicNanoseconds
            owner.process.signal(SIGKILL)
            let owned = try successor.connect().owned
            owner = successor
            return Double(owned - begin) / 1_000_000
        }
    }

    /// From the successor's question until its epoch is committed.
    private func afterFreeze(_ owners: StreamOwners, _ store: String) throws -> [Double] {
        var owner = try owners.start(store, role: "main")
        try owner.connect()
        return try (0..<Self.frozen).map { _ in
            let successor = try owners.start(store, role: "worker")
            try owner.freeze()
            let times = try successor.connect()
            owner.process.killAndWait()
            owner = successor
            return Double(times.owned - times.asked) / 1_000_000
        }
    }

    /// From the main program's question until it has the stream itself: the worker has closed it, and the session is resumed.
    private func handOver(_ owners: StreamOwners, _ store: String) throws -> [Double] {
        let worker = try owners.start(store, role: "worker")
        let main = try owners.start(store, role: "main")
        return try (0..<Self.handedOver).map { _ in
            try worker.connect()
            let times = try main.connect()
            try main.suspend()
            return Double(times.established - times.asked) / 1_000_000
        }
    }
}

/// Starts processes that own an account when they are told to.
private struct StreamOwners {
    private let server: WakeServer
    private let silence: Double

    init(_ server: WakeServer, silence: Double) {
        self.server = server
        self.silence = silence
    }

    func start(_ store: String, role: String) throws -> StreamOwner {
        let process = try ChildProcess(
            ".build/release/stream-owner",
            [
                store, WakeServer.ours, WakeServer.password, "\(server.port)", server.authority, role,
                "\(Int(silence))",
            ], input: .pipe, output: .pipe, endsWithParent: false)
        let owner = StreamOwner(process: process)
        _ = try owner.time(of: ["ready"])
        return owner
    }
}

/// One such process.
private struct StreamOwner {
    /// In nanoseconds of the monotonic clock.
    struct Times {
        var asked: Int64
        var owned: Int64
        /// When the session was resumed or bound.
        var established: Int64
    }

    let process: ChildProcess

    @discardableResult
    func connect() throws -> Times {
        try process.write("connect\n")
        return Times(
            asked: try time(of: ["asked"]), owned: try time(of: ["owned"]),
            established: try time(of: ["resumed", "bound"]))
    }

    /// Stops it outside of a transaction, in which it would keep everybody out; a thread that runs on another processor does
    /// so for some moments more, and would answer.
    func freeze() throws {
        try process.write("settle\n")
        _ = try time(of: ["settled"])
        process.signal(SIGSTOP)
        let deadline = ContinuousClock.now + .seconds(10)
        while !isStopped {
            guard ContinuousClock.now < deadline else { throw BenchmarkError("a process did not stop") }
            usleep(500)
        }
    }

    private var isStopped: Bool {
        let folder = "/proc/\(process.processID)/task"
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return threads.allSatisfy { thread in
            let line = (try? String(contentsOfFile: "\(folder)/\(thread)/stat", encoding: .utf8)) ?? ""
            return line.split(separator: ")").last?.hasPrefix(" T") == true
        }
    }

    func suspend() throws {
        try process.write("suspend\n")
        _ = try time(of: ["suspended"])
    }

    /// When the next one of these was reached.
    func time(of names: Set<String>) throws -> Int64 {
        while let line = try process.output?.readLine(deadline: .now + .seconds(30)) {
            let words = line.split(separator: " ")
            if let name = words.first, names.contains(String(name)) {
                return words.last.flatMap { Int64($0) } ?? 0
            }
            if line.hasPrefix("failed ") { throw BenchmarkError("a process could not connect: \(line)") }
        }
        throw BenchmarkError("a process ended before it said \(names.sorted().joined(separator: " or "))")
    }
}
