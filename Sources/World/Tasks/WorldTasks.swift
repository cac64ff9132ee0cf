import CWorld

/// Runs the tasks of the process one job at a time, when the caller says.
///
/// From the first use on, Swift's global executor passes all jobs of the process to this one. So it is only for programs that
/// simulate. Task groups, actors and continuations then run on the thread that calls ``run(_:)``. `Task.sleep` and `Task.yield` do
/// not use that executor: their callers continue on a thread of the system, and a seed does not repeat them.
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
        /// The process whose code made it ready; nil for the world itself.
        package let process: SimulatedDisk.Process?
        /// Jobs are numbered in the order in which they became ready.
        package let number: Int
    }

    /// The only instance. Its first use takes over the jobs of the process.
    package static let shared = WorldTasks()

    private var jobs: [Job] = []
    /// A running job, with the jobs that became ready during it.
    private struct Frame {
        let process: SimulatedDisk.Process?
        var jobs: [Job] = []
    }
    private var frames: [Frame] = []
    private var lastNumber = 0
    private let executor = Executor()
    /// The process whose code is running.
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

    /// The jobs that can run, oldest first. Jobs of dead processes never run.
    package var ready: [Job] { jobs.filter { $0.process?.isDead != true } }

    /// The jobs of a process, oldest first.
    func jobs(of process: SimulatedDisk.Process) -> [Job] { jobs.filter { $0.process === process } }

    /// The oldest job of a process, which may be dead.
    func job(of process: SimulatedDisk.Process) -> Job? { jobs.first { $0.process === process } }

    /// Runs a job as its process, then all jobs that became ready during it, newest first.
    ///
    /// The optimizer removes some suspensions of a task, so the number of its jobs depends on the build. With the newest job first,
    /// a task with a needless suspension continues at once, as if it had not suspended. So all builds run a process in the same
    /// order.
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

    /// The executor that the runtime returns when a job asks for its current one.
    private final class Executor: SerialExecutor {
        func enqueue(_ job: consuming ExecutorJob) { WorldTasks.shared.add(UnownedJob(job)) }
    }
}
