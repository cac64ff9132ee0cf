import Glibc
import Synchronization

/// Reports SIGTERM and SIGINT, so that a program can end gracefully.
///
/// The first signal is reported to every watcher and restores the signals' earlier actions: a second one ends the process as if
/// nobody watched.
package enum Termination {
    private static let signals = [SIGTERM, SIGINT]

    private struct State {
        var watchers: [Int: @Sendable () -> Void] = [:]
        var lastNumber = 0
        /// The actions before the first watcher; empty while they are in force.
        var earlier: [sigaction] = []
        /// The thread that waits for a signal; started once.
        var thread: WorkerThread?
    }

    private static let state = Mutex(State())
    /// Raised by the signal handler, which may do nothing more than write.
    private static let arrived = Result { () throws(HandlerError) in try WakeSignal() }
    private static let pipe = Atomic<Int32>(-1)

    /// Starts to report signals.
    ///
    /// - Parameter report: Called on a thread of its own at the first signal.
    /// - Returns: The watcher's number, for ``stopWatching(_:)``.
    /// - Throws: ``HandlerError`` `resourcesExhausted`.
    package static func watch(_ report: @escaping @Sendable () -> Void) throws(HandlerError) -> Int {
        let arrived = try arrived.get()
        return try state.withLock { (state) throws(HandlerError) in
            if state.thread == nil {
                state.thread = try WorkerThread("signals", blocksSignals: true) { wait(for: arrived) }
            }
            pipe.store(arrived.writeEnd, ordering: .relaxed)
            if state.earlier.isEmpty { state.earlier = signals.map(replaceAction) }
            state.lastNumber += 1
            state.watchers[state.lastNumber] = report
            return state.lastNumber
        }
    }

    /// Ends the reports to one watcher. The last watcher restores the signals' earlier actions.
    package static func stopWatching(_ number: Int) {
        state.withLock { state in
            state.watchers.removeValue(forKey: number)
            if state.watchers.isEmpty { restoreActions(&state) }
        }
    }

    private static func wait(for arrived: WakeSignal) {
        while true {
            arrived.wait(milliseconds: nil)
            arrived.clear()
            let watchers = state.withLock { state in
                restoreActions(&state)
                return state.watchers.values.map(\.self)
            }
            watchers.forEach { $0() }
        }
    }

    /// - Returns: The action before.
    private static func replaceAction(of number: Int32) -> sigaction {
        var (action, earlier) = (sigaction(), sigaction())
        action.__sigaction_handler.sa_handler = { _ in
            let code = errno
            var byte: UInt8 = 1
            _ = write(Termination.pipe.load(ordering: .relaxed), &byte, 1)
            errno = code
        }
        action.sa_flags = SA_RESTART
        sigaction(number, &action, &earlier)
        return earlier
    }

    private static func restoreActions(_ state: inout State) {
        for (number, action) in zip(signals, state.earlier) {
            var action = action
            sigaction(number, &action, nil)
        }
        state.earlier = []
    }
}
