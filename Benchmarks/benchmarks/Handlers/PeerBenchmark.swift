import XMPPTestKit

/// The same work by another library that keeps what is to be done in SQLite, run beside ours.
struct PeerBenchmark: Benchmark {
    private static let turns = 5
    private static let secondsATurn = 1
    private static let starts = 11
    private static let python = ".build/peers/bin/python"

    /// Its name in the table.
    let peer: String
    /// Its program, which says what it does.
    let script: String

    var names: [String] { ["step", "cold-start", "cold-memory"].map { "handlers/\($0)-\(peer)" } }

    func run(in workspace: Workspace) throws -> [Line] {
        let store = workspace.file("ours.db")
        let ours = try OurSteps(store, pending: 1000)
        var rates: (ours: [Double], peer: [Double]) = ([], [])
        for _ in 0..<Self.turns {
            rates.ours.append(try Self.stepsPerSecond(ours))
            rates.peer.append(try number("rate", [workspace.path, "\(Self.secondsATurn)"]))
        }
        return [
            Line(
                names[0], unit: "steps/s", better: .more, ours: rates.ours.median,
                reference: rates.peer.median, referenceName: peer, goal: 1)
        ] + (try starts(in: workspace))
    }

    private static func stepsPerSecond(_ steps: OurSteps) throws -> Double {
        let start = ContinuousClock.now
        var ended = 0
        while ContinuousClock.now - start < .seconds(secondsATurn) {
            try steps.step(1)
            ended += 1
        }
        return Double(ended) / ((ContinuousClock.now - start) / .seconds(1))
    }

    private func starts(in workspace: Workspace) throws -> [Line] {
        let store = workspace.file("cold.db")
        _ = try OurSteps(store, pending: 2 * Self.starts)
        _ = try ColdStart.run(Self.python, [script, "fill", workspace.path, "\(2 * Self.starts)"])
        var times: (ours: [Double], peer: [Double]) = ([], [])
        for id in 1...Int64(Self.starts) {
            times.ours.append(try ColdStart.ours(store, id))
            times.peer.append(try ColdStart.milliseconds(Self.python, [script, "one", workspace.path]))
        }
        let kibibytes = try number("one", [workspace.path])
        return [
            Line(
                names[1], unit: "ms", better: .less, ours: times.ours.median, reference: times.peer.median,
                referenceName: peer, goal: 1),
            Line(
                names[2], unit: "MiB", better: .less,
                ours: try ColdStart.peakMebibytes(store, Int64(Self.starts) + 1),
                reference: kibibytes / 1024, referenceName: peer, goal: 1),
        ]
    }

    private func number(_ mode: String, _ arguments: [String]) throws -> Double {
        let words = try ColdStart.run(Self.python, [script, mode] + arguments).output
        guard let number = Double(words.filter { !$0.isWhitespace }) else {
            throw BenchmarkError("\(script) \(mode) printed no number but '\(words)'")
        }
        return number
    }
}
