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
    /// A job that runs, with what became ready in it.
    private struct Frame {
        let process: SimulatedDisk.Process?
        var jobs: [Job] = []
    }
    private var frames: [Frame] = []
    private var lastNumber = 0
    private let executor = Executor()
    /// The process whose code runs now.
    package var current: SimulatedDisk.Process?

    private init() {
        dh_take_jobs { job in WorldTasks.shared.add(unsafeBitCast(job, to: UnownedJob.self)) }
    }

    private func add(_ job: UnownedJob) {
        lastNumber += 1
        let job = Job(job: job, process: current, number: lastNumber)
        if current != nil, let index = frames.lastIndex(where: { $0.process === current }) {
            frames[index].jobs.append(job)
        } else {
            jobs.append(job)
        }
    }

    /// The jobs that can run, oldest first. Those of dead processes never do.
    package var ready: [Job] { jobs.filter { $0.process?.isDead != true } }

    /// The jobs of a process, oldest first.
    func jobs(of process: SimulatedDisk.Process) -> [Job] { jobs.filter { $0.process === process } }

    /// The oldest job of a process, which may be dead.
    func job(of process: SimulatedDisk.Process) -> Job? { jobs.first { $0.process === process } }

    /// Runs a job as its process, and whatever becomes ready in it, the newest first.
    ///
    /// How many jobs a task consists of depends on the optimizer, which leaves out some of its suspensions. With the newest first,
    /// a task that was suspended for nothing goes on at once, as if it had not been; so all builds run a process in the same order.
    package func run(_ job: Job) {
        guard let index = jobs.firstIndex(where: { $0.number == job.number }) else { return }
        jobs.remove(at: index)
        let outer = current
        current = job.process
        defer { current = outer }
        let wasDead = job.process?.isDead
        frames.append(Frame(process: job.process))
        var next: Job? = job
        while let job = next {
            job.job.runSynchronously(on: executor.asUnownedSerialExecutor())
            next = job.process?.isDead == wasDead ? frames[frames.count - 1].jobs.popLast() : nil
        }
        jobs += frames.removeLast().jobs
    }

    /// The executor that the runtime sees where a job asks for its own.
    private final class Executor: SerialExecutor {
        func enqueue(_ job: consuming ExecutorJob) { WorldTasks.shared.add(UnownedJob(job)) }
    }
}
