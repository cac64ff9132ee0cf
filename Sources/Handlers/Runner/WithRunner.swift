/// Runs `body` with a started runner and closes the runner afterwards, also when `body` throws.
///
/// SIGTERM and SIGINT end it gracefully: the task of `body` is canceled, handlers that run may end within the grace, and what has not ended
/// by then is called again by the next process. A second signal ends the process at once.
///
/// ```swift
/// let store = try HandlerStore(path: "shop.db", registry: .discovered())
/// try await withRunner(store, .init { error in print(error) }) { runner in
///     try await runner.untilCanceled()
/// }
/// ```
///
/// - Parameters:
///   - store: The store whose handlers it calls.
///   - configuration: The limits of the runner, and where failures are reported.
///   - grace: How long async handlers that run at the end may take, 0 or more; see ``HandlerRunner/close(finishing:)``.
///   - body: The program. It ends soon after its task is canceled.
/// - Returns: The result of `body`; nil after a signal.
/// - Throws: Errors of `body`, unless a signal came first; ``HandlerError`` `resourcesExhausted`, or with the codes of the store.
@discardableResult
public func withRunner<Result: Sendable>(
    _ store: HandlerStore, _ configuration: HandlerRunner.Configuration = .init(),
    finishing grace: Duration = .seconds(10),
    _ body: @escaping @Sendable (HandlerRunner) async throws -> Result
) async throws -> Result? {
    try await untilSignal {
        let runner = try HandlerRunner(store, configuration)
        do { try runner.start() } catch {
            runner.close()
            throw error
        }
        return (runner, { await runner.close(finishing: grace) })
    } body: {
        try await body($0)
    }
}

extension HandlerRunner {
    /// Waits until the task is canceled, as ``withRunner(_:_:finishing:_:)`` does at a signal.
    ///
    /// - Throws: `CancellationError`, always.
    public func untilCanceled() async throws {
        let (stream, end) = AsyncStream<Never>.makeStream()
        defer { end.finish() }
        for await _ in stream {}
        throw CancellationError()
    }
}
