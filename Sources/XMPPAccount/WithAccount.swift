public import Handlers

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
    try await untilSignal {
        let account = try Account(configuration, store: store)
        return (account, { await account.close(finishing: grace) })
    } body: {
        try await body($0)
    }
}

/// Runs `body` with a host and closes the host afterwards, also when `body` throws.
///
/// SIGTERM and SIGINT end it gracefully, as ``withAccount(_:store:finishing:_:)`` does.
///
/// ```swift
/// try await withAccountHost { host in
///     for configuration in configurations { host.connect(try host.add(configuration, store: store)) }
///     for await failure in host.failures { print(failure.error) }
/// }
/// ```
///
/// - Parameters:
///   - configuration: The limits of the host.
///   - grace: How long async handlers that run at the end may take, 0 or more; see ``AccountHost/close(finishing:)``.
///   - body: The program. It ends soon after its task is canceled, as waiting for failures does.
/// - Returns: The result of `body`; nil after a signal.
/// - Throws: Errors of `body`, unless a signal came first; ``AccountError`` of ``AccountHost/init(_:)``;
///   ``/Handlers/HandlerError`` `resourcesExhausted`.
@discardableResult
public func withAccountHost<Result: Sendable>(
    _ configuration: AccountHost.Configuration = .init(), finishing grace: Duration = .seconds(10),
    _ body: @escaping @Sendable (AccountHost) async throws -> Result
) async throws -> Result? {
    try await untilSignal {
        let host = try AccountHost(configuration)
        return (host, { await host.close(finishing: grace) })
    } body: {
        try await body($0)
    }
}
