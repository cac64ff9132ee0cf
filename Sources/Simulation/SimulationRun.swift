import FoundationEssentials
import Platform
import Handlers
import HandlersTestKit
import XMPPAccount
package import XMPPCore
package import TestServers

/// Runs main and worker in turns, kills them at random moments, and lets the other one go on.
package final class SimulationRun {
    package struct Plan {
        package var rounds: Int
        package var kills: Int
        package var seed: UInt64
        /// Whether the line also breaks, the server restarts, sessions expire and main freezes.
        package var hasFaults = false
        /// Whether the store records the history of each handler, for the report.
        package var isRecorded = false
        /// The limits of a worker.
        package var limits: WorkerLimits?

        package init(
            rounds: Int, kills: Int, seed: UInt64, hasFaults: Bool = false, isRecorded: Bool = false,
            limits: WorkerLimits? = nil
        ) {
            (self.rounds, self.kills, self.seed, self.hasFaults, self.isRecorded, self.limits) = (
                rounds, kills, seed, hasFaults, isRecorded, limits
            )
        }
    }

    let plan: Plan
    package let world: any SimulationWorld
    package let storePath: String
    let program: String
    let environment: [String: String]
    /// Called with each error that does not end the run.
    let complain: (VisibleText) -> Void
    var random: SeededGenerator
    var main: ChildProcess?
    /// The state of main.
    var life: MainLife
    /// A worker that has the stream and waits for main to request it.
    var guest: Worker?
    /// Whether a worker was woken while main was frozen inside a transaction. It takes seconds until the worker reports that.
    var hasMetLock = false
    /// The round in which the server restarts. Without a connected main, it restarts in the next round with one.
    var nextRestart = 8
    package var verdict: Verdict
    package var flow = Flow()
    package let chronicle = Chronicle()
    var wakes: [Double] = []
    var peaks: [Int] = []
    /// The time limit for the last stanzas and handlers at the end.
    package var settleLimit = Duration.seconds(60)

    /// - Parameters:
    ///   - program: The command that runs as main and worker.
    ///   - environment: Additional variables for the processes.
    ///   - complain: Called with each error that does not end the run.
    package init(
        _ plan: Plan, world: any SimulationWorld, folder: String, program: String,
        environment: [String: String] = [:], complain: @escaping (VisibleText) -> Void
    ) {
        self.complain = complain
        self.plan = plan
        self.world = world
        storePath = folder + "/store.db"
        self.program = program
        self.environment = environment.merging([
            "PUSHWAKE_PASSWORD": world.password, "PUSHWAKE_PUSH_SECRET": PushLine.secret,
            Witness.variable: "1",
        ]) { $1 }
        life = MainLife(
            forbidden: world.standsTakeover ? [] : [.overtaken, .startBesideWorker, .callBesideWorker])
        random = SeededGenerator(seed: plan.seed)
        verdict = Verdict(server: world.name, seed: plan.seed, rounds: plan.rounds)
    }

    /// - Parameter progress: Called after every round with the numbers of rounds and kills so far.
    package func run(progress: (Int, Verdict.Kills) -> Void) throws -> Verdict {
        defer { main?.killAndWait() }
        if plan.isRecorded { try FlightRecorder.install(in: storePath) }
        try bring(to: .foreground)
        try openFlow()
        for round in 0..<plan.rounds {
            try play(round, kills: kills(in: round))
            progress(round + 1, verdict.kills)
        }
        try bring(to: .foreground)
        try settle()
        return try judge()
    }

    // MARK: Rounds

    /// Spreads the kills evenly over the rounds.
    private func kills(in round: Int) -> Int {
        plan.kills * (round + 1) / plan.rounds - plan.kills * round / plan.rounds
    }

    /// The number of moves of main in a round.
    private static let moves = 4

    /// Plays one round. Main makes some moves, and may be killed. Then it goes away, and a push wakes workers, of which all but the
    /// last are killed. Main may come back at the end.
    func play(_ round: Int, kills: Int) throws {
        var left = kills
        if life.state == .foreground { try live(in: round) }
        for _ in 0..<Self.moves {
            // A kill is always allowed while transitions are missing. Otherwise some kills are left for workers.
            let mayKill = left > 0 && (!life.missing.isEmpty || Bool.random(using: &random))
            let passage = life.next(mayKill: mayKill, using: &random)
            if passage.move == .kill { left -= 1 }
            try take(passage)
            let isAway = life.state == .gone || life.state == .background
            if isAway, Int.random(in: 0..<4, using: &random) == 0 { try runWorker() }
        }
        try retreat(&left)
        try expireSession(in: round)
        while left > 0 { if try killSomebody() { left -= 1 } }
        try runWorker()
        if owesFaults(after: round) || Bool.random(using: &random) { try bring(to: .foreground) }
    }

    /// Lets main keep the stream for a while.
    private func live(in round: Int) throws {
        try regulateByStore()
        pause(milliseconds: 20...100)
        if Int.random(in: 0..<4, using: &random) == 0 { try wakeBesideMain() }
        if plan.hasFaults { try sufferBesideMain(in: round) }
    }

    /// - Returns: False when a worker was done before the kill.
    private func killSomebody() throws -> Bool {
        // Each waiting message delays a process by about a millisecond. With more messages, the first commit comes later, and a
        // process that is killed before it commits nothing.
        let patience = try regulateByCount()
        guard Int.random(in: 0..<4, using: &random) == 0 else { return try killWorker(patience: patience) }
        try take(
            .init(from: life.state, move: life.state == .gone ? .start : .call, to: .opening), pausing: false)
        pause(milliseconds: 0...(60 + patience))
        try take(.init(from: .opening, move: .kill, to: .gone))
        return true
    }

    package func startMain(untilConnected: Bool) throws {
        main = try start("main")
        if untilConnected { _ = try hear("connected") }
    }

    package func start(
        _ command: String, _ more: [String] = [], with variables: [String: String] = [:]
    ) throws -> ChildProcess {
        let process = try ChildProcess(
            program, arguments(command) + more,
            environment: .inheriting(environment.merging(variables) { $1 }),
            input: .pipe,
            output: .pipe)
        chronicle.started(command, process.processID)
        return process
    }

    /// Waits for a process to end, and records its ending.
    func ending(of process: ChildProcess, within limit: Duration) throws -> ChildEnding {
        let ending = try process.waitUntilExit(deadline: .now + limit)
        chronicle.ended(process.processID, ending)
        return ending
    }

    func count(_ role: AccountRole) throws {
        if role == .main { verdict.kills.main += 1 } else { verdict.kills.worker += 1 }
        try awaitDeparture()
    }

    /// Waits until the next connection is possible, up to a limit.
    func awaitDeparture() throws {
        if try !world.awaitDeparture() { complain("the server still works on a connection that has ended") }
    }

    package func killMain() throws {
        guard let process = main else { return }
        main = nil
        process.signal(Signal.kill)
        let ending = try self.ending(of: process, within: .seconds(10))
        guard ending.signal == Signal.kill else {
            throw SimulationError("main ended by itself (\(ending)); its complaint stands above")
        }
        try count(.main)
    }

    func quitMain() throws {
        guard let process = main else { return }
        main = nil
        try process.write("quit\n")
        let ending = try end(of: process, "main, told to quit,")
        guard ending.status == 0 else { throw SimulationError("main failed when told to quit: \(ending)") }
        try awaitDeparture()
    }

    /// Waits for a process slightly longer than the platform lets a worker run.
    func end(of process: ChildProcess, _ name: String) throws -> ChildEnding {
        do {
            return try ending(of: process, within: .seconds(40))
        } catch {
            // The system may keep a core dump of an aborted process, which shows what it was doing.
            process.signal(Signal.abort)
            _ = try? ending(of: process, within: .seconds(10))
            throw SimulationError("\(name) has not ended within 40 s (process \(process.processID))")
        }
    }

    func arguments(_ command: String) -> [String] {
        let push = world.push.map {
            ["--push-service", $0.service.description, "--push-node", PushLine.node]
        }
        return [
            command, "--store", storePath, "--jid", world.account.description, "--peer",
            world.peer.description,
            "--host", world.host, "--port", String(world.port), "--ca", world.authorityFile,
        ] + (command == "main" ? push ?? [] : [])
    }

    func pause(milliseconds: ClosedRange<Int>) {
        SystemThread.sleep(
            microseconds:
                UInt32(
                    Int.random(
                        in: (milliseconds.lowerBound * 1000)...(milliseconds.upperBound * 1000),
                        using: &random)))
    }

    // MARK: The end

    /// Stops the peer and waits until all stanzas have arrived.
    func settle() throws {
        try closeFlow()
        guard let main else { return }
        try main.write("settle\n")
        // Unfinished work appears as pending or lost in the verdict.
        do { _ = try hear("settled", within: settleLimit) } catch { complain("\(error)") }
        try quitMain()
        if life.state == .foreground { life.make(.init(from: .foreground, move: .quit, to: .gone)) }
        // Stores the stanzas that arrived while main was closing.
        try runWorker()
    }

    func judge() throws -> Verdict {
        let store = try HandlerStore(path: storePath, registry: HandlerRegistry())
        try Judge(store: store, sightings: world.sightings()).judge(&verdict)
        verdict.transitions = Verdict.transitions(life)
        verdict.owners.staleStanzas = try world.staleStanzas()
        verdict.limitsKeptBy = plan.limits?.means
        verdict.wakeMs = .init(p50: percentile(50), p99: percentile(99))
        verdict.workerPeakRssMib = (Double(peaks.max() ?? 0) / 1024 * 10).rounded() / 10
        return verdict
    }

    private func percentile(_ percent: Int) -> Double {
        let sorted = wakes.sorted()
        guard !sorted.isEmpty else { return 0 }
        return (sorted[min(sorted.count - 1, sorted.count * percent / 100)] * 10).rounded() / 10
    }
}
