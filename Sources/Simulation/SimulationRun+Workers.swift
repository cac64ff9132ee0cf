import FoundationEssentials
import Platform
import Handlers
import TestServers

// Starts, watches and kills workers, and waits until their work is done.
extension SimulationRun {
    /// A running worker.
    struct Worker {
        let process: ChildProcess
        /// The limits of the worker; nil for none.
        let budget: WorkerBudget?
    }

    /// The end of a worker that was not killed at random.
    enum WorkerEnd: Equatable {
        /// It had nothing left to do.
        case done
        /// Its time was nearly over, or it was killed at a limit.
        case early
        /// It found main alive, or main requested the stream.
        case leftToMain
        /// Another process was frozen inside a transaction.
        case locked
    }

    /// - Parameters:
    ///   - isPushed: Whether the server must have sent a push, if there is an app server and the peer sends.
    ///   - lingering: How long the worker keeps the stream when it has nothing to do, in milliseconds.
    func startWorker(isPushed: Bool, lingering: Int = 0) throws -> Worker {
        if isPushed, flow.isOpen, let push = world.push {
            guard push.waitForPush(deadline: .now + .seconds(30)) else {
                throw SimulationError("the server has sent no push for 30 s although messages wait")
            }
            verdict.pushes += 1
        }
        chronicle.noted("push", "a push")
        var arguments = arguments("worker")
        let environment = ChildProcess.Environment.inheriting(environment)
        let worker: Worker
        // A worker that lingers does little else. Main may be frozen on its way, and then the worker's time limit ends it.
        let linger = lingering > 0 ? ["--linger", String(lingering), "--time", "3"] : []
        if let limits = plan.limits {
            if let time = limits.time, lingering == 0 {
                arguments += ["--time", String(time.components.seconds)]
            }
            let budget = try WorkerBudget(
                limits, [program] + arguments + linger, environment: environment, output: .pipe, errors: .pipe
            )
            worker = Worker(process: budget.process, budget: budget)
        } else {
            let process = try ChildProcess(
                program, arguments + linger, environment: environment, output: .pipe, errors: .pipe,
                endsWithParent: false)
            worker = Worker(process: process, budget: nil)
        }
        chronicle.started("worker", worker.process.processID)
        return worker
    }

    /// Counts a worker that was killed at a limit.
    ///
    /// - Returns: Whether it was killed at a limit.
    private func countExcess(_ worker: Worker) -> Bool {
        guard let excess = worker.budget?.excess else { return false }
        switch excess {
        case .memory: verdict.limits.memory += 1
        case .time: verdict.limits.time += 1
        }
        return true
    }

    /// Waits for the end of a worker.
    func finish(_ worker: Worker) throws -> WorkerEnd {
        let ending = try end(of: worker.process, "the worker")
        if ending.signal == Signal.kill, countExcess(worker) {
            try count(.worker)
            return .early
        }
        let said = try worker.process.output?.readToEnd(deadline: .now + .seconds(5)) ?? ""
        let complaint = try worker.process.errors?.readToEnd(deadline: .now + .seconds(5)) ?? ""
        try awaitDeparture()
        guard ending.status == 0 else {
            if complaint.contains("is locked by another process") { return .locked }
            throw SimulationError("the worker failed (\(ending)): \(said) \(complaint)")
        }
        if let peak = said.split(separator: "\n").last?.split(separator: "peak-kib=").last.flatMap({ Int($0) }
        ) {
            peaks.append(peak)
            if !said.contains("lingering") { wakes.append(ending.elapsed / .milliseconds(1)) }
        }
        if said.contains("drained") { return .done }
        guard said.contains("time is over") else { return .leftToMain }
        verdict.shortOfTime += 1
        return .early
    }

    /// The number of consecutive unfinished workers after which the run fails.
    private static let mostEarly = 20

    /// Runs workers until one has finished all work. A worker that exceeds its limits leaves work for the next.
    func runWorker() throws {
        guard try runWorkers(isPushed: true) == .done else {
            throw SimulationError("a worker found somebody else at work although main is away")
        }
    }

    /// - Returns: The end of the last worker.
    func runWorkers(isPushed: Bool) throws -> WorkerEnd {
        for _ in 0..<Self.mostEarly {
            let end = try finish(try startWorker(isPushed: isPushed))
            if end != .early { return end }
        }
        throw SimulationError(
            "\(Self.mostEarly) workers in a row were killed at their limits; give them more")
    }

    /// - Returns: False when the worker was done before the kill.
    func killWorker(patience: Int) throws -> Bool {
        let worker = try startWorker(isPushed: true)
        pause(milliseconds: 0...(40 + patience))
        worker.process.signal(Signal.kill)
        let ending = try self.ending(of: worker.process, within: .seconds(10))
        if ending.signal == Signal.kill {
            _ = countExcess(worker)
            try count(.worker)
            return true
        }
        guard ending.status == 0 else { throw SimulationError("the worker failed: \(ending)") }
        try awaitDeparture()
        return false
    }

    /// Sends a push while main is alive. The worker must leave the stream to main.
    func wakeBesideMain() throws {
        let end = try finish(try startWorker(isPushed: false))
        guard end == .leftToMain || end == .early else {
            throw SimulationError("a worker did not leave the stream to a live main: it ended as \(end)")
        }
    }
}
