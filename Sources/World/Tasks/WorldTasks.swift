import CWorld

/// Runs the tasks of the process one job at a time, where and when the caller says.
///
/// Swift's global executor gives its jobs to this one from the first use on, in the whole process: only for programs that
/// simulate. Task groups, actors and continuations then run on the thread that calls ``run(_:)``. `Task.sleep` and `Task.yield`
/// do not come by that executor: what calls them goes on upon a thread of the system and is not repeated by a seed.
///
/// ```swift
/// let tasks = WorldTasks.shared
/// Task.detached { try await account.connect() }
/// while let job = tasks.ready.randomElement() { tasks.run(job) }
/// ```
///
/// `@unchecked Sendable`: one thread uses it.
package final class WorldTasks: @unchecked Sendable {
    /// A part of a task, up to its next suspension.
    package struct Job {
        fileprivate let job: UnownedJob
        /// The process that made it ready; nil for the world itself.
        package let process: SimulatedDisk.Process?
        /// Jobs are numbered in the order in which they became ready.
        package let number: Int
    }

    /// Takes over the jobs of the process when it is first used.
    package static let shared = WorldTasks()

    private var jobs: [Job] = []
    private var lastNumber = 0
    private let executor = Executor()
    /// The process whose code runs now.
    package var current: SimulatedDisk.Process?

    private init() {
        dh_take_jobs { job in WorldTasks.shared.add(unsafeBitCast(job, to: UnownedJob.self)) }
    }

    private func add(_ job: UnownedJob) {
        lastNumber += 1
        jobs.append(Job(job: job, process: current, number: lastNumber))
    }

    /// The jobs that can run, oldest first. Those of dead processes never do.
    package var ready: [Job] { jobs.filter { $0.process?.isDead != true } }

    /// The jobs of a process, oldest first.
    func jobs(of process: SimulatedDisk.Process) -> [Job] { jobs.filter { $0.process === process } }

    /// The oldest job of a process, which may be dead.
    func job(of process: SimulatedDisk.Process) -> Job? { jobs.first { $0.process === process } }

    /// Runs a job as its process.
    package func run(_ job: Job) {
        guard let index = jobs.firstIndex(where: { $0.number == job.number }) else { return }
        jobs.remove(at: index)
        let outer = current
        current = job.process
        defer { current = outer }
        job.job.runSynchronously(on: executor.asUnownedSerialExecutor())
    }

    /// The executor that the runtime sees where a job asks for its own.
    private final class Executor: SerialExecutor {
        func enqueue(_ job: consuming ExecutorJob) { WorldTasks.shared.add(UnownedJob(job)) }
    }
}
