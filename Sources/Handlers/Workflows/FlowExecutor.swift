import Platform
import Synchronization

/// Runs the task of a workflow on the thread that drives it, until it has ended or waits.
///
/// The operations of a ``Flow`` never suspend. A task that has not ended when nothing is left to run awaits something else, and one that another
/// thread wants to go on has done so.
final class FlowExecutor: TaskExecutor {
    private struct State {
        /// The first is next; a workflow has few at a time.
        var jobs: [UnownedJob] = []
        /// What other threads wanted to go on.
        var foreign: [UnownedJob] = []
        var isForeign = false
        /// The thread on which the jobs are run; nil until it begins.
        var thread: ThreadID?
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Whether another thread wanted to go on with the task.
    var isForeign: Bool { state.withLock { $0.isForeign } }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isLate = state.withLock { state in
            if state.isClosed { return true }
            if state.thread ?? .current == .current {
                state.jobs.append(job)
            } else {
                state.isForeign = true
                state.foreign.append(job)
            }
            return false
        }
        if isLate { unwind(job) }
    }

    /// Runs what is to be run.
    func drain() {
        state.withLock { $0.thread = .current }
        while let job = state.withLock({ $0.jobs.isEmpty ? nil : $0.jobs.removeFirst() }) {
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    /// Lets go what has waited for something else. Only now: while the task is driven, nothing of it runs beside it.
    func close() {
        let foreign = state.withLock { state in
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
