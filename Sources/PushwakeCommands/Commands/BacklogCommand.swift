import FoundationEssentials
import Simulation
import XMPPCore
import TestServers

/// `pushwake backlog`: runs a worker with a large backlog in a full store, within a phone's limits.
struct BacklogCommand {
    private let backlog: SimulationRun.Backlog
    private let plan: SimulationRun.Plan
    /// The kind of the server; nil for the embedded one.
    private let server: ServerKind?
    private let isJSON: Bool
    private let folder: String?

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "backlog")
        backlog = SimulationRun.Backlog(
            messages: try arguments.number("--messages", in: 1...1_000_000, default: 10_000),
            answers: try arguments.number("--answers", in: 1...50_000, default: 1000),
            pending: try arguments.number("--pending", in: 0...100_000_000, default: 1_000_000),
            losesSession: arguments.has("--lose-session"))
        let limits = WorkerLimits(
            mebibytes: try arguments.number("--worker-memory", in: 1...1_000_000, default: 24),
            time: .seconds(try arguments.number("--worker-time", in: 1...30, default: 30)))
        plan = SimulationRun.Plan(rounds: 1, kills: 0, seed: try arguments.seed(), limits: limits)
        server = try arguments.serverKind()
        guard !backlog.losesSession || server == nil else {
            throw UsageError(
                "--lose-session needs the embedded server, which can be told to forget a session")
        }
        isJSON = arguments.has("--json")
        folder = arguments.value("--keep")
    }

    func run() throws -> Int32 {
        let workFolder = try RunFolder(folder, name: "pushwake-backlog", seed: plan.seed)
        var isGood = false
        defer { workFolder.finish(isGood: isGood) }
        let verdict = try measure(in: workFolder.path)
        Terminal.say(
            isJSON ? VisibleText(json: try OneLineJSON.text(verdict)) : VisibleText(lines: verdict.summary))
        isGood = verdict.isGood
        return isGood ? 0 : 1
    }

    private func measure(in folder: String) throws -> BacklogVerdict {
        let world: any SimulationWorld =
            try server.map { try RealServerWorld($0, folder: folder) }
            ?? EmbeddedWorld(folder: folder)
        defer { world.close() }
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let simulation = SimulationRun(
            plan, world: world, folder: folder, program: program, complain: Terminal.complain)
        return try simulation.run(backlog) { if !isJSON { Terminal.writeError("\($0)\n") } }
    }
}
