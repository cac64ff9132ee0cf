import Platform
import Handlers
import XMPPAccount
import XMPPModules

// A worker with a large backlog: messages and answers that arrived while no process ran, and a store full of waiting requests.
extension SimulationRun {
    package struct Backlog {
        package var messages: Int
        package var answers: Int
        package var pending: Int
        /// Whether the server forgets the session at the end, which ends all pending requests.
        package var losesSession: Bool

        package init(messages: Int, answers: Int, pending: Int, losesSession: Bool = false) {
            (self.messages, self.answers, self.pending, self.losesSession) = (
                messages, answers, pending, losesSession
            )
        }
    }

    /// The number of measured wakes with nothing to do.
    private static let idleWakes = 5
    /// The number of attempts for a wake that did not finish in time.
    private static let idleTries = 20
    /// The number of workers killed at their limits after which the limits count as too narrow.
    private static let mostKilled = 20
    /// The maximum number of wakes.
    private static let mostWakes = 1000

    /// - Parameter progress: Called with a description of each stage.
    package func run(_ backlog: Backlog, progress: (String) -> Void) throws -> BacklogVerdict {
        defer { main?.killAndWait() }
        var result = BacklogVerdict(
            server: world.name, seed: plan.seed, messages: backlog.messages, answers: backlog.answers,
            pending: backlog.pending, limitsKeptBy: plan.limits?.means ?? "none")
        progress("main asks and goes")
        try leaveQuestions(backlog.answers)
        result.idleWakeMs = try idleWake()
        progress("\(backlog.pending) requests of strangers are stored")
        let store = try openStore()
        try SimulationApp.addStrangers(backlog.pending, to: store)
        result.idleWakeWithPendingMs = try idleWake()
        progress("\(backlog.messages) messages and \(backlog.answers) answers come")
        try world.answerLater()
        try world.send(backlog.messages)
        result.wakes = try wakeUntilDone(progress) { try ownWork(store) == 0 }
        result.pendingLeft = try store.step { try SimulationApp.strangers(in: $0) }
        try Judge(store: store, sightings: world.sightings()).judge(&verdict)
        verdict.handlers.pending -= result.pendingLeft
        verdict.owners.staleStanzas = try world.staleStanzas()
        result.rest = verdict
        if backlog.losesSession, try world.expireSession() {
            result.settling = try wakeUntilDone(progress) {
                try store.step { try SimulationApp.strangers(in: $0) } == 0
            }
            result.settled = try store.step { try SimulationApp.lostStrangers(in: $0) }
        }
        return result
    }

    private func openStore() throws -> HandlerStore {
        try HandlerStore(
            path: storePath, registry: HandlerRegistry(SimulationApp.handlers),
            schemas: Account.schemas + [SimulationApp.schema])
    }

    /// Makes main send requests that are answered later, and quit with its session kept.
    private func leaveQuestions(_ count: Int) throws {
        let main = try start("main", ["--quiet"])
        self.main = main
        try main.write("ask \(count)\n")
        while let line = try main.output?.readLine(deadline: .now + .seconds(60)), line != "asked" {}
        let end = ContinuousClock.now + .seconds(60)
        while try world.sightings().requests.count < count {
            guard ContinuousClock.now < end else {
                throw SimulationError("the peer was not asked everything")
            }
            SystemThread.sleep(microseconds: 20_000)
        }
        try quitMain()
    }

    /// Returns the number of the simulation's own waiting handlers, without those of strangers; 0 when all work is done.
    private func ownWork(_ store: HandlerStore) throws -> Int {
        try store.step { step in
            try step.first(
                "SELECT count(*) FROM handler WHERE kind = \(Transaction.Kind.once.sql) AND name LIKE 'simulation.%'"
            ) { Int($0.integer(0)) } ?? 0
        }
    }

    private func idleWake() throws -> Double {
        let before = wakes.count
        for _ in 0..<Self.idleWakes {
            // A worker that a busy machine gave too little time says nothing about the store.
            var triesLeft = Self.idleTries
            while try finish(try startWorker(isPushed: false)) != .done {
                triesLeft -= 1
                guard triesLeft > 0 else {
                    throw SimulationError(
                        "a worker with nothing to do was not done in its time; give it more")
                }
            }
        }
        let own = wakes[before...].sorted()
        return own.isEmpty ? 0 : (own[own.count / 2] * 10).rounded() / 10
    }

    /// Wakes workers until everything is done.
    private func wakeUntilDone(
        _ progress: (String) -> Void, _ isDone: () throws -> Bool
    ) throws -> BacklogVerdict.Wakes {
        var result = BacklogVerdict.Wakes()
        let (wakesBefore, peaksBefore) = (wakes.count, peaks.count)
        let (early, killed) = (verdict.shortOfTime, verdict.kills.worker)
        repeat {
            guard result.count < Self.mostWakes else {
                throw SimulationError(
                    "\(Self.mostWakes) wakes were not enough; give each more time or memory")
            }
            let end = try finish(try startWorker(isPushed: false))
            guard end == .done || end == .early else { throw SimulationError("a worker ended as \(end)") }
            result.count += 1
            progress("wake \(result.count)")
            guard verdict.kills.worker - killed < Self.mostKilled else {
                throw SimulationError(
                    "\(Self.mostKilled) workers were killed at their limits (\(verdict.limits.memory) for memory); give them more"
                )
            }
        } while try !isDone()
        result.shortOfTime = verdict.shortOfTime - early
        result.killed = verdict.kills.worker - killed
        result.longestMs = ((wakes[wakesBefore...].max() ?? 0) * 10).rounded() / 10
        result.peakMib = (Double(peaks[peaksBefore...].max() ?? 0) / 1024 * 10).rounded() / 10
        return result
    }
}
