/// Runs the tasks of async handlers on threads of their own.
///
/// A handler that blocks its thread instead of awaiting so holds up no other task of the program. There are as many threads as
/// handlers that are not waiting.
package final class AsyncHandlerThreads: TaskExecutor {
    package static let shared = AsyncHandlerThreads()

    /// Far above the leases of a program: whoever blocks so many waits for one of them.
    private static let limit = 512

    /// More than for the library's own code: what programs call here once ran on larger stacks.
    private static let stack = 4 << 20

    private let threads = WorkThreads(
        AsyncHandlerThreads.limit, "async handlers", stack: AsyncHandlerThreads.stack)

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Never on the caller's thread, which may hold a lock.
        if !threads.tryStart({ job.runSynchronously(on: self.asUnownedTaskExecutor()) }) {
            globalConcurrentExecutor.enqueue(job)
        }
    }
}
