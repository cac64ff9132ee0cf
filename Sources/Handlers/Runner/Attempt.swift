import Synchronization

/// A run of an async handler in this process: from its lease to its end, or until nobody waits for it any longer.
final class Attempt: Sendable {
    let lease: Lease
    private struct State {
        var task: Task<Void, Never>?
        /// Cancels the task at the handler's limit.
        var timer: Task<Void, Never>?
        var cause: HandlerError?
    }

    private let state = Mutex(State())

    init(_ lease: Lease) { self.lease = lease }

    /// Why the task was canceled; nil while it was not.
    var cause: HandlerError? { state.withLock { $0.cause } }

    /// - Parameter timer: Cancels the task in time; nil for a handler without a limit.
    func started(_ task: Task<Void, Never>, _ timer: Task<Void, Never>?) {
        let isOver = state.withLock { state in
            (state.task, state.timer) = (task, timer)
            return state.cause != nil
        }
        if isOver { task.cancel() }
    }

    /// Cancels the task.
    ///
    /// - Parameter cause: The error with which the attempt fails; nil when its runner is closed.
    /// - Returns: Whether it was not canceled before.
    @discardableResult
    func cancel(because cause: HandlerError? = nil) -> Bool {
        let (task, isFirst) = state.withLock { state in
            defer { state.cause = state.cause ?? cause }
            return (state.task, state.cause == nil)
        }
        task?.cancel()
        return isFirst
    }

    /// Stops the timer: the handler has ended.
    func ended() { state.withLock { $0.timer }?.cancel() }
}
