import FoundationEssentials
import Simulation
import XMPPCore
import TestServers

/// `pushwake simulate`: runs main, worker, server and peer on one machine, and proves that no handler is lost.
struct SimulateCommand {
    private let plan: SimulationRun.Plan
    /// The kind of the server; nil for the embedded one.
    private let server: ServerKind?
    private let hasPush: Bool
    private let isJSON: Bool
    private let folder: String?
    /// The path of the page about the run.
    private let report: ReportFile?

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "simulate")
        let rounds = try arguments.number("--rounds", in: 1...1_000_000, default: 20)
        let kills = try arguments.number("--kills", in: 0...10_000_000, default: rounds)
        report = arguments.value("--report").map(ReportFile.init)
        plan = SimulationRun.Plan(
            rounds: rounds, kills: kills, seed: try arguments.seed(), hasFaults: arguments.has("--faults"),
            isRecorded: report != nil, limits: try Self.limits(arguments))
        server = try arguments.serverKind()
        guard !plan.hasFaults || server != .ejabberd else {
            throw UsageError(
                "--faults cannot be had with ejabberd, which then repeats and loses stanzas itself; docs/reference/servers.md says when. Leave it out, or choose prosody or embedded"
            )
        }
        hasPush = arguments.has("--push")
        guard !hasPush || server != nil else {
            throw UsageError("--push needs a server that pushes: add --server prosody or --server ejabberd")
        }
        isJSON = arguments.has("--json")
        folder = arguments.value("--keep")
    }

    private static func limits(_ arguments: Arguments) throws -> WorkerLimits? {
        let memory = try arguments.number("--worker-memory", in: 1...1_000_000)
        let time = try arguments.number("--worker-time", in: 1...30)
        guard memory != nil || time != nil else { return nil }
        return WorkerLimits(mebibytes: memory, time: time.map { .seconds($0) })
    }

    func run() async throws -> Int32 {
        try report?.check()
        let workFolder = try RunFolder(folder, name: "pushwake", seed: plan.seed)
        var isGood = false
        defer { workFolder.finish(isGood: isGood) }
        isGood = try simulate(in: workFolder.path).isGood
        return isGood ? 0 : 1
    }

    private func simulate(in workFolder: String) throws -> Verdict {
        let world = try makeWorld(workFolder)
        defer { world.close() }
        if !isJSON {
            Terminal.writeError(
                "\(world.name), seed \(plan.seed): \(Terminal.count(plan.rounds, "round")), \(Terminal.count(plan.kills, "kill"))\n"
            )
        }
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let simulation = SimulationRun(
            plan, world: world, folder: workFolder, program: program, complain: Terminal.complain)
        let verdict: Verdict
        do {
            verdict = try run(simulation)
        } catch {
            // The page of an aborted run shows what happened before the error.
            try? write(simulation, verdict: "The run broke off.", isGood: false, summary: "\(error)")
            throw error
        }
        Terminal.say(
            isJSON ? VisibleText(json: try OneLineJSON.text(verdict)) : VisibleText(lines: summary(verdict)))
        try write(
            simulation, verdict: promise(verdict), isGood: verdict.isGood,
            summary: VisibleText(lines: summary(verdict)))
        return verdict
    }

    private func run(_ simulation: SimulationRun) throws -> Verdict {
        var bar = ProgressBar(total: plan.rounds)
        return try simulation.run { round, kills in
            bar.show(
                round, "rounds, \(Terminal.count(kills.main, "kill")) of main, \(kills.worker) of the worker")
        }
    }

    /// Writes the page about the run, if it was requested, and prints its path.
    private func write(
        _ simulation: SimulationRun, verdict: String, isGood: Bool, summary: VisibleText
    ) throws {
        guard let report else { return }
        let page = try TimelinePage(
            title: "pushwake simulate: \(simulation.world.name), seed \(plan.seed)", verdict: verdict,
            isGood: isGood, summary: summary, lives: simulation.chronicle.lives,
            marks: simulation.chronicle.marks, record: FlightRecorder.read(simulation.storePath)
        ).page()
        try report.write(page)
    }

    private func makeWorld(_ folder: String) throws -> any SimulationWorld {
        guard let server else { return try EmbeddedWorld(folder: folder) }
        // In a run with faults sessions also expire. A real server does that only after its own time limit.
        return try RealServerWorld(
            server, folder: folder, hibernation: plan.hasFaults ? .seconds(2) : .seconds(600),
            rate: plan.hasFaults ? 25 : 100, hasPush: hasPush)
    }

    private func faults(_ faults: Verdict.Faults) -> String {
        guard plan.hasFaults else { return "" }
        return """

            Besides, \(faults.resets) connections were reset, \(faults.halfOpen) left \
            half-open, \(faults.expired) sessions expired, and the server was restarted \(faults.restarts) times.
            """
    }

    private func excesses(_ counts: Verdict.LimitCounts) -> String {
        guard plan.limits != nil else { return "" }
        let means = plan.limits.map { " (\($0.means))" } ?? ""
        return counts.memory + counts.time == 0
            ? " Every worker kept within its limits\(means)."
            : " Killed at their limits\(means): \(counts.memory) workers for memory, \(counts.time) for time."
    }

    private func owners(_ verdict: Verdict) -> String {
        let counts = verdict.owners
        let heard =
            counts.staleStanzas.map { "\($0) stanzas and acknowledgements came" }
            ?? "what came cannot be seen"
        return """
            The stream changed hands \(counts.epochs - 1) times, \(verdict.handedOver) times from a worker to a main that asked for \
            it: \(counts.staleCommits) processes committed after they had lost it, \(heard) on a connection that had been resumed \
            on another.
            """
    }

    private func promise(_ verdict: Verdict) -> String {
        verdict.isGood ? "Every handler ended exactly once." : "THE PROMISE WAS BROKEN."
    }

    private func summary(_ verdict: Verdict) -> String {
        let handlers = verdict.handlers
        let messages = verdict.messages
        let events = verdict.events
        let heldBack = verdict.heldBack > 0 ? " The peer was held back \(verdict.heldBack) times." : ""
        let pushes = verdict.pushes > 0 ? " \(verdict.pushes) workers were woken by a push." : ""
        return """
            \(verdict.kills.main + verdict.kills.worker) processes were killed: main \(Terminal.count(verdict.kills.main, "time")), \
            the worker \(Terminal.count(verdict.kills.worker, "time")).\(faults(verdict.faults))
            \(Verdict.text(verdict.transitions))
            \(owners(verdict))
            \(handlers.bound) handlers were bound. Ended: \(handlers.result) with a result, \(handlers.error) with an error, \
            \(handlers.timeout) timed out, \(handlers.invalidated) invalidated; \(handlers.pending) wait, \
            \(handlers.lost) were lost, \(handlers.repeated) repeated.
            \(messages.sent) messages were sent both ways and \(messages.stored) stored; \(messages.lost) were lost, \
            \(messages.repeated) repeated, \(messages.resentAfterLoss) sent again after a lost session.\(heldBack)\(pushes)
            \(events.published) items were published, \(events.stored) came in, \(events.byWorker) of them to a worker; \
            \(events.lost) were lost, \(events.repeated) repeated, \(events.replaced) replaced while there was no session.
            The session was resumed \(verdict.resumed) times and started again \(verdict.rebound) times. A worker took \
            \(verdict.wakeMs.p50) ms from start to end (p99 \(verdict.wakeMs.p99) ms) and at most \
            \(verdict.workerPeakRssMib) MiB.\(excesses(verdict.limits))
            \(promise(verdict)) Seed \(verdict.seed), \(verdict.server).
            """
    }
}
