import Platform
import Synchronization

/// Reports SIGTERM and SIGINT, so that a program can end gracefully.
///
/// The first signal is reported to every watcher and restores the signals' earlier actions: a second one ends the process as if
/// nobody watched.
package enum Termination {
    private struct State {
        var watchers: [Int: @Sendable () -> Void] = [:]
        var lastNumber = 0
        /// The redirected signals; nil while their earlier actions are in force.
        var redirected: TerminationSignals?
        /// The thread that waits for a signal; started once.
        var thread: WorkerThread?
    }

    private static let state = Mutex(State())
    /// Raised by a signal.
    private static let arrived = Result { () throws(HandlerError) in try WakeSignal() }

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
            if state.redirected == nil { state.redirected = .redirect(to: arrived.writeEnd) }
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
            arrived.wait()
            arrived.clear()
            let watchers = state.withLock { state in
                restoreActions(&state)
                return state.watchers.values.map(\.self)
            }
            watchers.forEach { $0() }
        }
    }

    private static func restoreActions(_ state: inout State) {
        state.redirected?.restore()
        state.redirected = nil
    }
}
