import Platform
import Synchronization

/// Runs the tasks of a workflow on the thread that drives it, until each of them has ended or waits.
///
/// Jobs run in the order in which they came: it is a part of what a journal means, as it decides in which order tasks of a workflow act. A job
/// that comes from another thread, or while nothing drives the workflow, shows that a task has awaited something that is not its flow's.
final class FlowExecutor: TaskExecutor {
    fileprivate struct State {
        var jobs: [UnownedJob] = []
        /// The index of the next job.
        var next = 0
        /// What other threads wanted to go on.
        var foreign: [UnownedJob] = []
        var isForeign = false
        /// The thread that drives the workflow; nil while none does.
        var thread: ThreadID?
        /// Whether the next job that comes is the first to run.
        var comesFirst = false
        var isPaused = false
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Whether another thread wanted to go on with a task.
    var isForeign: Bool { state.withLock { $0.isForeign } }

    /// Whether this thread drives the workflow.
    var isDriven: Bool { state.withLock { $0.thread == .current } }

    var isPaused: Bool { state.withLock { $0.isPaused } }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isLate = state.withLock { state in
            if state.thread == .current {
                if state.comesFirst {
                    state.jobs.insert(job, at: state.next)
                } else {
                    state.jobs.append(job)
                }
                return false
            }
            state.isForeign = true
            if !state.isClosed { state.foreign.append(job) }
            return state.isClosed
        }
        if isLate { unwind(job) }
    }

    /// Runs `body`, in which this thread drives the workflow.
    func driven<R, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
        state.withLock { $0.thread = .current }
        defer { state.withLock { $0.thread = nil } }
        return try body()
    }

    /// Runs what is to be run, unless it is paused.
    func drain() {
        while let job = state.withLock({ $0.takeJob() }) {
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    /// Runs nothing more until ``resume(_:)``; the job that runs now ends where it suspends.
    func pause() { state.withLock { $0.isPaused = true } }

    /// Goes on with the job that has paused all others, as if it had not.
    func resume(_ resume: () -> Void) {
        state.withLock { ($0.comesFirst, $0.isPaused) = (true, false) }
        resume()
        state.withLock { $0.comesFirst = false }
    }

    /// Lets go what has waited for something else. Only now: while the task is driven, nothing of it runs beside it.
    func close() {
        let foreign = state.withLock { state in
            defer { state.foreign = [] }
            state.isClosed = true
            return state.foreign
        }
        for job in foreign { unwind(job) }
    }

    /// It has left its place in the workflow: whatever it asks of the flow throws.
    private func unwind(_ job: UnownedJob) {
        Task.detached { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

extension FlowExecutor.State {
    fileprivate mutating func takeJob() -> UnownedJob? {
        guard !isPaused, next < jobs.count else { return nil }
        defer {
            next += 1
            if next == jobs.count {
                jobs.removeAll(keepingCapacity: next < 16)
                next = 0
            }
        }
        return jobs[next]
    }
}
