import Synchronization

/// A run of an async handler in this process: from its lease to its end, or until nobody waits for it any longer.
final class Attempt: Sendable {
    let lease: Lease
    private struct State {
        var task: Task<Void, Never>?
        /// Waits for the handler's limit, then for the end of the canceled task.
        var timer: Task<Void, Never>?
        var cause: HandlerError?
        var isOver = false
    }

    private let state = Mutex(State())

    init(_ lease: Lease) { self.lease = lease }

    /// Why the task was canceled; nil while it was not.
    var cause: HandlerError? { state.withLock { $0.cause } }

    /// - Parameter limit: Waits for the handler's limit; nil for none.
    func started(_ task: Task<Void, Never>, _ limit: Task<Void, Never>?) {
        state.withLock { state in (state.task, state.timer) = (task, limit) }
    }

    /// Cancels the task, unless it has ended or was canceled before.
    ///
    /// - Parameters:
    ///   - cause: The error with which the attempt fails.
    ///   - wait: Starts to wait for the end of the task.
    func cancel(because cause: HandlerError, _ wait: () -> Task<Void, Never>) {
        let task = state.withLock { state -> Task<Void, Never>? in
            if state.isOver || state.cause != nil { return nil }
            (state.cause, state.timer) = (cause, wait())
            return state.task
        }
        task?.cancel()
    }

    /// Cancels the task: its runner was closed.
    func cancel() { state.withLock { $0.task }?.cancel() }

    /// Waits for nothing any more: the task has ended.
    func ended() {
        let timer = state.withLock { state in
            state.isOver = true
            return state.timer
        }
        timer?.cancel()
    }
}
