import Platform

/// A thread that may block, outside Swift's cooperative pool, which may not.
///
/// Releasing this object does not stop the thread; code that must know that it has ended joins it. A program that
/// calls `exit` while a thread of a library still frees what it used may abort there, so whatever is closed joins its
/// threads.
package final class WorkerThread: Sendable {
    private let thread: SystemThread

    /// Starts a thread that ends when `body` returns.
    ///
    /// - Parameters:
    ///   - name: What debuggers and the system show for the thread; at most 15 bytes.
    ///   - blocksSignals: Whether the application's signal handlers never run on it: for one that only waits.
    ///   - stack: The size of its stack in bytes.
    /// - Throws: ``HandlerError`` `resourcesExhausted`.
    package init(
        _ name: String, blocksSignals: Bool = false, stack: Int = SystemThread.stack,
        _ body: @escaping @Sendable () -> Void
    ) throws(HandlerError) {
        do throws(Errno) {
            thread = try SystemThread(name, blocksSignals: blocksSignals, stack: stack, body)
        } catch {
            throw HandlerError(
                .resourcesExhausted,
                "no thread could be started (\(error)); raise the process's limits")
        }
    }

    /// Waits for the thread's end, with everything that ends with it; on the thread itself it only lets go of it.
    package func join() { thread.join() }
}
