public import Handlers
import Synchronization

/// Runs `body` with an account and closes the account afterwards, also when `body` throws.
///
/// SIGTERM and SIGINT end it gracefully: the task of `body` is canceled, running async handlers may finish within `grace`, and the
/// account is closed so that its session can be resumed. A second signal ends the process at once.
///
/// ```swift
/// try await withAccount(configuration, store: store) { account in
///     let events = account.events
///     try await account.listen(as: "echo", Echo.received())
///     try await account.connect(retrying: true)
///     for await event in events { if case .stopped(let error) = event { throw error } }
/// }
/// ```
///
/// - Parameters:
///   - configuration: Address, password and where to connect.
///   - store: A store opened with `Account.schemas`.
///   - grace: How long async handlers that run at the end may take, 0 or more; see ``Account/close(finishing:)``.
///   - body: The program. It ends soon after its task is canceled, as waiting for events does.
/// - Returns: The result of `body`; nil after a signal.
/// - Throws: Errors of `body`, unless a signal came first; ``AccountError`` and ``/Handlers/HandlerError`` of ``Account/init(_:store:)``;
///   ``/Handlers/HandlerError`` `resourcesExhausted`.
@discardableResult
public func withAccount<Result: Sendable>(
    _ configuration: AccountConfiguration, store: HandlerStore, finishing grace: Duration = .seconds(10),
    _ body: @escaping @Sendable (Account) async throws -> Result
) async throws -> Result? {
    let ending = Ending()
    let watcher = try Termination.watch { ending.terminate() }
    defer { Termination.stopWatching(watcher) }
    let account = try Account(configuration, store: store)
    let work = Task { try await body(account) }
    ending.cancelsAtSignal { work.cancel() }
    let result = await withTaskCancellationHandler {
        await work.result
    } onCancel: {
        work.cancel()
    }
    await account.close(finishing: grace)
    return ending.isTerminated ? nil : try result.get()
}

/// Whether a signal asked the process to end.
private final class Ending: Sendable {
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
