import FoundationEssentials
import XMPPTestKit

/// What a push costs: a worker from exec to exit, and the most memory it had, as `pushwake simulate` measured them.
///
/// The reference is no other program but the limit that the goal names.
struct WakeBenchmark: Benchmark {
    /// What `simulate --json` prints, as far as it is read here.
    private struct Verdict: Decodable {
        struct Milliseconds: Decodable { let p50: Double }

        let server: String
        let wake: Milliseconds
        let peakMebibytes: Double

        enum CodingKeys: String, CodingKey {
            case server
            case wake = "wake_ms"
            case peakMebibytes = "worker_peak_rss_mib"
        }
    }

    private static let command = ".build/release/pushwake"
    private static let limitMilliseconds = 150.0
    private static let limitMebibytes = 24.0

    let names = ["wake/exec-to-exit", "wake/peak-memory"]

    func run(in workspace: Workspace) throws -> [Line] {
        let verdict = try simulate(in: workspace)
        let time = Line(
            names[0], unit: "ms", better: .less, ours: verdict.wake.p50, reference: Self.limitMilliseconds,
            referenceName: "limit", goal: 1)
        let memory = Line(
            names[1], unit: "MiB", better: .less, ours: verdict.peakMebibytes, reference: Self.limitMebibytes,
            referenceName: "limit", goal: 1)
        return [time, memory]
    }

    private func simulate(in workspace: Workspace) throws -> Verdict {
        let complaints = workspace.file("complaints")
        let child = try ChildProcess(
            Self.command, ["simulate", "--json", "--rounds", "20", "--kills", "0", "--seed", "1"],
            environment: .inheriting(["TMPDIR": workspace.path]), output: .pipe, errors: .file(complaints))
        let text = try child.output?.readToEnd(deadline: .now + .seconds(300)) ?? ""
        let ending = try child.waitUntilExit(deadline: .now + .seconds(30))
        guard ending.succeeded else {
            let said = FileManager.default.contents(atPath: complaints).map {
                String(decoding: $0, as: UTF8.self)
            }
            throw BenchmarkError("pushwake simulate \(ending): \(said ?? "")\(text)")
        }
        do {
            return try JSONDecoder().decode(Verdict.self, from: Data(text.utf8))
        } catch {
            throw BenchmarkError("pushwake simulate printed no verdict that can be read here: \(error)")
        }
    }
}
