import Synchronization

/// A caller that waits for a result or for the cancelation of its task, whichever comes first.
final class CancelableWaiter: Sendable {
    typealias Continuation = CheckedContinuation<Void, any Error>

    private enum State {
        case new
        case waiting(Continuation)
        case ended
    }

    private let state = Mutex(State.new)

    /// Starts to wait.
    ///
    /// - Returns: False when the task was canceled before; `continuation` was resumed.
    func wait(_ continuation: Continuation) -> Bool {
        let isNew = state.withLock { state in
            guard case .new = state else { return false }
            state = .waiting(continuation)
            return true
        }
        if !isNew { continuation.resume(throwing: CancellationError()) }
        return isNew
    }

    /// Resumes the caller, once; later results are ignored.
    func end(_ result: Result<Void, any Error>) {
        let continuation = state.withLock { state -> Continuation? in
            defer { state = .ended }
            return if case .waiting(let continuation) = state { continuation } else { nil }
        }
        continuation?.resume(with: result)
    }
}
