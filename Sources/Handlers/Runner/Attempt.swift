import Synchronization

/// A run of an async handler in this process: from its lease to its end, or until nobody waits for it any longer.
final class Attempt: Sendable {
    let lease: Lease
    private struct State {
        var task: Task<Void, Never>?
        /// Waits for the handler's limit, then for the end of the canceled task.
        var timer: Task<Void, Never>?
        var cause: HandlerError?
        var isCanceled = false
        var isOver = false
    }

    private let state = Mutex(State())

    init(_ lease: Lease) { self.lease = lease }

    /// Why the task was canceled; nil while it was not, and when its runner was closed.
    var cause: HandlerError? { state.withLock { $0.cause } }

    /// Starts the task.
    func start(_ make: () -> Task<Void, Never>) {
        let task = make()
        let isCanceled = state.withLock { state in
            state.task = state.isOver ? nil : task
            return state.isCanceled
        }
        if isCanceled { task.cancel() }
    }

    /// Waits for the handler's limit, unless the task was canceled or has ended.
    func wait(_ make: () -> Task<Void, Never>) {
        state.withLock { state in
            if !state.isCanceled, !state.isOver { state.timer = make() }
        }
    }

    /// Cancels the task, unless it has ended or was canceled before.
    ///
    /// - Parameters:
    ///   - cause: The error with which the attempt fails.
    ///   - wait: Starts to wait for the end of the task.
    func cancel(because cause: HandlerError, _ wait: () -> Task<Void, Never>) {
        end { state in
            if state.isOver || state.isCanceled { return false }
            (state.cause, state.isCanceled) = (cause, true)
            return true
        } then: {
            $0.timer = wait()
        }
    }

    /// Cancels the task: its runner was closed.
    func cancel() {
        end { state in
            state.isCanceled = true
            return true
        }
    }

    private func end(_ isWanted: (inout State) -> Bool, then: (inout State) -> Void = { _ in }) {
        let tasks = state.withLock { state -> [Task<Void, Never>?] in
            guard isWanted(&state) else { return [] }
            let tasks = [state.task, state.timer]
            state.timer = nil
            then(&state)
            return tasks
        }
        for task in tasks { task?.cancel() }
    }

    /// Waits for nothing any more: the task has ended.
    func ended() {
        let timer = state.withLock { state in
            (state.isOver, state.task) = (true, nil)
            return state.timer
        }
        timer?.cancel()
    }
}
