import FoundationEssentials
import Glibc
import HandlersTestKit
import Simulation
import XMPPCore
import TestServers

/// `pushwake storm`: proves that a login after a long absence survives kills.
struct StormCommand {
    /// The maximum of a client's physical memory, as for an iOS notification extension.
    private static let memoryLimitKibibytes = 24 * 1024
    /// The maximum total time of the client.
    private static let timeLimit = Duration.seconds(600)

    private let messages: Int
    private let rooms: Int
    private let roomMessages: Int
    private let pageSize: Int
    private let kills: Int
    private let seed: UInt64
    private let isJSON: Bool
    private let folder: String?

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "storm")
        messages = try arguments.number("--messages", in: 0...10_000_000, default: 100_000)
        rooms = try arguments.number("--rooms", in: 0...1000, default: 20)
        roomMessages = try arguments.number("--room-messages", in: 0...10_000_000, default: 50_000)
        pageSize = try arguments.number("--page-size", in: 1...250, default: 250)
        kills = try arguments.number("--kills", in: 0...100_000, default: 10)
        seed = try arguments.seed()
        isJSON = arguments.has("--json")
        folder = arguments.value("--keep")
    }

    func run() async throws -> Int32 {
        let workFolder = try RunFolder(folder, name: "pushwake-storm", seed: seed)
        var isGood = false
        defer { workFolder.finish(isGood: isGood) }
        let verdict = try storm(in: workFolder.path)
        Terminal.say(
            isJSON ? VisibleText(json: try OneLineJSON.text(verdict)) : VisibleText(lines: verdict.summary))
        isGood = verdict.isGood
        return isGood ? 0 : 1
    }

    /// Starts the client, kills it and starts it again, until everything has arrived.
    func storm(in folder: String) throws -> StormVerdict {
        let server = try StormServer(
            folder: folder, messages: messages, rooms: rooms, roomMessages: roomMessages)
        defer { server.server.stop() }
        var verdict = StormVerdict(seed: seed)
        var generator = SeededGenerator(seed: seed)
        var bar = ProgressBar(total: messages + roomMessages)
        let begin = ContinuousClock.now
        let end = begin + Self.timeLimit
        while true {
            let child = try start(server, folder)
            if verdict.kills < kills {
                usleep(UInt32.random(in: 50_000...350_000, using: &generator))
                verdict.peakKib = max(verdict.peakKib, ProcessMemory.peakKibibytes(of: child.processID))
                if child.isRunning {
                    _ = child.killAndWait()
                    verdict.kills += 1
                    continue
                }
            }
            try finish(child, &verdict, &bar, deadline: end)
            break
        }
        verdict.seconds = (ContinuousClock.now - begin) / .seconds(1)
        try verdict.count(store: folder + "/store.db", expected: server.counts)
        verdict.withinMemory = verdict.peakKib <= Self.memoryLimitKibibytes
        return verdict
    }

    private func start(_ server: StormServer, _ folder: String) throws -> ChildProcess {
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return try ChildProcess(
            program,
            [
                "storm-client", "--store", folder + "/store.db", "--jid", StormServer.account, "--peer",
                StormServer.peer, "--host", server.server.host, "--port", "\(server.server.directTLSPort)",
                "--direct-tls", "--ca", server.authorityFile, "--rooms", "\(rooms)",
                "--page-size", "\(pageSize)",
            ], environment: .inheriting(["PUSHWAKE_PASSWORD": StormServer.password]), output: .pipe)
    }

    /// Waits for the end of a client that is not killed.
    private func finish(
        _ child: ChildProcess, _ verdict: inout StormVerdict, _ bar: inout ProgressBar,
        deadline: ContinuousClock.Instant
    ) throws {
        while let line = try child.output?.readLine(deadline: deadline) {
            let words = line.split(separator: " ")
            if words.first == "progress", words.count == 3, let done = Int(words[1]) {
                if !isJSON { bar.show(done, "messages") }
            }
            if let peak = words.last, peak.hasPrefix("peak-kib="), let kib = Int(peak.dropFirst(9)) {
                verdict.peakKib = max(verdict.peakKib, kib)
                verdict.finished = true
            }
        }
        let ending = try child.waitUntilExit(deadline: deadline)
        guard ending.status == 0 else { throw CommandFailure("the client \(ending)") }
    }
}
