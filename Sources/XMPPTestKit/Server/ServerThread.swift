package import Platform

/// Wakes a server's thread from poll(2).
package final class Waker: Sendable {
    /// What the thread waits for beside its sockets.
    package let pipe: WakePipe

    package init() throws(Errno) { pipe = try WakePipe() }
}

/// A thread of its own for a server, and the means to wake it out of poll(2).
final class ServerThread: Sendable {
    private let thread: SystemThread
    private let waker: Waker

    /// Starts the thread, on which no signal handler runs.
    ///
    /// - Parameters:
    ///   - name: What the system shows for the thread; at most 15 bytes.
    ///   - body: Gets what ``wake()`` raises.
    init(name: String, _ body: @escaping @Sendable (Waker) -> Void) throws(ScriptedServerError) {
        do throws(Errno) {
            let waker = try Waker()
            self.waker = waker
            thread = try SystemThread(name, blocksSignals: true) { body(waker) }
        } catch {
            throw ScriptedServerError(
                .system,
                "No thread or pipe could be made (\(error)); close other files or raise the process's limits."
            )
        }
    }

    /// Whether this is the thread that asks.
    var isCurrent: Bool { thread.id == .current }

    /// Ends the thread's wait.
    func wake() { waker.pipe.raise() }

    /// Waits until the thread has ended; from the thread itself, lets it end alone.
    func join() { thread.join() }
}
