import BenchmarkHandlers
import Handlers

/// Workflows of three handlers, all of which are started at once, beside another library that keeps workflows in SQLite.
struct WorkflowBenchmark: Benchmark {
    private static let turns = 3
    private static let count = 300
    private static let python = ".build/peers/bin/python"

    /// Its name in the table.
    let peer: String
    let script: String
    let goal: Double

    var names: [String] { ["workflow/three-\(peer)"] }

    func run(in workspace: Workspace) throws -> [Line] {
        var rates: (ours: [Double], peer: [Double]) = ([], [])
        for turn in 0..<Self.turns {
            rates.ours.append(try Self.ours(workspace.file("workflows-\(turn).db")))
            let words = try ColdStart.run(
                Self.python, [script, "workflows", workspace.path, "\(Self.count)"]
            ).output
            guard let rate = Double(words.filter { !$0.isWhitespace }) else {
                throw BenchmarkError("\(script) workflows printed no number but '\(words)'")
            }
            rates.peer.append(rate)
        }
        return [
            Line(
                names[0], unit: "workflows/s", better: .more, ours: rates.ours.median,
                reference: rates.peer.median, referenceName: peer, goal: goal)
        ]
    }

    private static func ours(_ path: String) throws -> Double {
        let store = try BenchmarkStore.open(path, [Errand.self, Count.self])
        let runner = try HandlerRunner(store)
        defer { runner.close() }
        let start = ContinuousClock.now
        try store.step { step in for n in 0..<count { try step.start(Errand(n).durable) } }
        while try store.read({ try $0.handlers(limit: 1) }).isEmpty == false { try runner.runDue() }
        let rate = Double(count) / ((ContinuousClock.now - start) / .seconds(1))
        let total = try store.read { try $0.first("SELECT total FROM effect") { $0.integer(0) } }
        guard total == Int64(3 * count) else {
            throw BenchmarkError("\(count) workflows of three handlers counted to \(total ?? 0)")
        }
        return rate
    }
}
