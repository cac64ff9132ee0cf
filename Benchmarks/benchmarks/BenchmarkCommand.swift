import FoundationEssentials
import Glibc

/// Measures this library against floors and peers in one run on one machine, and decides nothing.
///
///     benchmarks [prefix]                   prints the table and writes .build/bench.json
///     benchmarks profile NAME STEPS SIDE    runs one side (ours or reference) without a clock, for a profiler
///     benchmarks hold STORE                 stays inside a step of a store; the benchmark of contacts starts it
@main
struct BenchmarkCommand {
    private static let folder = ".build"
    private static let all: [any Benchmark] = [
        StepBenchmark(name: "handlers/step-alone", group: 1, goal: 0.9),
        StepBenchmark(name: "handlers/group-64", group: 64, goal: 0.6),
        // Where commits wait for a slow disk, two programs are alike, however slow one of them is.
        StepBenchmark(name: "handlers/group-64-no-disk", group: 64, goal: 0.5, place: "/dev/shm"),
        AdditionBenchmark(),
        PendingBenchmark(),
        ColdStartBenchmark(),
        PeerBenchmark(peer: "huey", script: "Benchmarks/peers/huey_peer.py"),
        PeerBenchmark(peer: "dbos", script: "Benchmarks/peers/dbos_peer.py"),
        WorkflowBenchmark(peer: "dbos", script: "Benchmarks/peers/dbos_peer.py", goal: 10),
        WorkflowBenchmark(peer: "huey", script: "Benchmarks/peers/huey_peer.py", goal: 3),
        ContactsBenchmark(),
        RoundTripBenchmark(),
        InboundBenchmark(), ArchiveBenchmark(),
        WakeBenchmark(), TakeOverBenchmark(),
        ParserBenchmark(), HostileTextBenchmark(),
        SessionStartBenchmark(), IdleBenchmark(),
        AccountsBenchmark(
            layout: "one", wanted: 10_000, memoryGoal: 100, descriptorGoal: 3, messageGoal: 20_000,
            timerGoal: 0.001, peers: 1000),
        // Every message is a commit, and every timer two: a millisecond for each.
        AccountsBenchmark(
            layout: "many", wanted: 1000, memoryGoal: 600, descriptorGoal: 12, messageGoal: 1000,
            timerGoal: 0.002),
    ]

    static func main() {
        do {
            let words = CommandLine.arguments.dropFirst()
            if words.first == "profile" { return try profile(Array(words.dropFirst())) }
            if words.first == "hold", words.count == 2 {
                return try ContactsBenchmark.hold(words[words.endIndex - 1])
            }
            try measure(prefix: words.first ?? "")
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    private static func measure(prefix: String) throws {
        let chosen = all.filter { $0.names.contains { $0.hasPrefix(prefix) } }
        guard !chosen.isEmpty else {
            let names = all.flatMap(\.names).joined(separator: ", ")
            throw BenchmarkError("no benchmark begins with '\(prefix)'; there are \(names)")
        }
        var lines: [Line] = []
        var failed = false
        for benchmark in chosen {
            do {
                lines += try Workspace.with(in: benchmark.place) { try benchmark.run(in: $0) }
            } catch {
                complain("\(benchmark.names.joined(separator: ", ")) could not run: \(error)")
                failed = true
            }
        }
        lines.removeAll { !$0.name.hasPrefix(prefix) }
        print(Table(lines).text)
        try Line.json(lines).write(to: URL(filePath: folder + "/bench.json"))
        if failed { exit(1) }
    }

    private static func profile(_ words: [String]) throws {
        guard words.count == 3, let steps = Int(words[1]), let side = StepBenchmark.Side(rawValue: words[2]),
            let benchmark = all.lazy.compactMap({ $0 as? StepBenchmark }).first(where: { $0.name == words[0] }
            )
        else { throw BenchmarkError("usage: benchmarks profile handlers/NAME STEPS ours|reference") }
        try Workspace.with(in: benchmark.place) { try benchmark.profile(side, steps: steps, in: $0) }
    }

    static func complain(_ sentence: String) {
        let line = "bench: \(sentence)\n"
        _ = line.withCString { write(STDERR_FILENO, $0, line.utf8.count) }
    }
}
