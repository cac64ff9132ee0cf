import Synchronization

/// Runs `body` until it ends or a signal asks the process to end, then closes what was made for it.
package func untilSignal<Made: Sendable, Result: Sendable>(
    _ make: () throws -> (Made, close: () async -> Void),
    body: @escaping @Sendable (Made) async throws -> Result
) async throws -> Result? {
    let ending = SignaledEnd()
    let watcher = try Termination.watch { ending.terminate() }
    defer { Termination.stopWatching(watcher) }
    let (made, close) = try make()
    let work = Task { try await body(made) }
    ending.cancelsAtSignal { work.cancel() }
    let result = await withTaskCancellationHandler {
        await work.result
    } onCancel: {
        work.cancel()
    }
    await close()
    return ending.isTerminated ? nil : try result.get()
}

/// Whether a signal asked the process to end.
private final class SignaledEnd: Sendable {
    private let state = Mutex((isTerminated: false, cancel: nil as (@Sendable () -> Void)?))

    var isTerminated: Bool { state.withLock { $0.isTerminated } }

    func terminate() {
        state.withLock { state in
            state.isTerminated = true
            return state.cancel
        }?()
    }

    /// Calls `cancel` at the first signal, or now if it came before.
    func cancelsAtSignal(_ cancel: @escaping @Sendable () -> Void) {
        let isTerminated = state.withLock { state in
            state.cancel = cancel
            return state.isTerminated
        }
        if isTerminated { cancel() }
    }
}
