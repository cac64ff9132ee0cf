import Synchronization

/// Lets a limited number of tasks through at a time, in the order in which they came.
final class OpeningGate: Sendable {
    private struct State {
        /// The number of tasks that may still enter.
        var free: Int
        var waiting: [(number: Int, continuation: CheckedContinuation<Bool, Never>)] = []
        var lastNumber = 0
        /// Waits that were canceled before they started.
        var canceled: Set<Int> = []
    }

    private let state: Mutex<State>

    /// - Parameter limit: The number of tasks that are inside at the same time, from 1.
    init(_ limit: Int) { state = Mutex(State(free: limit)) }

    /// Waits until the task may enter; ``leave()`` must follow.
    ///
    /// - Throws: `CancellationError` when the task is canceled meanwhile; it has not entered then.
    func enter() async throws(CancellationError) {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let hasEntered = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    if state.canceled.remove(number) != nil { return false }
                    if state.free > 0 {
                        state.free -= 1
                        return true
                    }
                    state.waiting.append((number, continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                let index = state.waiting.firstIndex { $0.number == number }
                if index == nil { state.canceled.insert(number) }
                return index.map { state.waiting.remove(at: $0).continuation }
            }
            continuation?.resume(returning: false)
        }
        state.withLock { _ = $0.canceled.remove(number) }
        if !hasEntered { throw CancellationError() }
    }

    func leave() {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.free += 1
            } else {
                // With the lock held: a task that is canceled meanwhile finds that it has entered, and leaves.
                state.waiting.removeFirst().continuation.resume(returning: true)
            }
        }
    }
}
