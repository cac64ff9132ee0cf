/// Argument of an ``AsyncHandler``: the context, and the functions that end the handler.
///
/// Members of the context can be read directly: `call.url` is `call.context.url`.
///
/// ```swift
/// func run(_ call: AsyncCall<TimerFired>) async throws {
///     let rate = try await exchangeRate(key: call.idempotencyKey)
///     try call.end { step in try step.execute("INSERT INTO rate VALUES (?)", rate) }
/// }
/// ```
@dynamicMemberLookup
public struct AsyncCall<Context: Sendable>: Sendable {
    /// Context that the caller supplied.
    public let context: Context
    /// The handler's row.
    public let handlerID: AnyHandlerID
    /// Number of this attempt, from 1.
    public let attempt: Int
    /// Key that is equal in all attempts of this handler and unique among all stores. Pass it to external services, so
    /// that they recognize a repeated request.
    public let idempotencyKey: String
    let lease: Lease

    /// Ends the handler with a result; see ``end(_:)``.
    ///
    /// ```swift
    /// func run(_ call: AsyncCall<TimerFired>) async throws {
    ///     let rate = try await exchangeRate(key: call.idempotencyKey)
    ///     try call.end(result: rate) { step in try step.execute("INSERT INTO rate VALUES (?)", rate) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - result: Kept with the ending as JSON, at most 64 KiB; see ``Ending/result(as:)``.
    ///   - effects: What the handler writes, inside a step; nothing where it is left out.
    /// - Returns: What `effects` returns.
    /// - Throws: ``HandlerError`` `argumentNotEncodable` when the result cannot be stored; else like ``end(_:)``.
    @discardableResult
    public func end<R>(
        result: some Encodable, _ effects: (borrowing Step) throws -> R = { _ in }
    ) throws -> R {
        try lease.close(returning: HandlerResult(result).bytes, effects)
    }

    /// Ends the handler: its effects and its ending commit together.
    ///
    /// - Parameter effects: What the handler writes, inside a step; nothing where it is left out.
    /// - Returns: What `effects` returns.
    /// - Throws: What `effects` throws, and then nothing is kept and the handler has not ended; ``HandlerError`` with
    ///   code `leaseLost` when another process runs the handler now, or it was ended or discarded meanwhile, or when
    ///   it was called before.
    @discardableResult
    public func end<R>(_ effects: (borrowing Step) throws -> R = { _ in }) throws -> R {
        try lease.close(effects)
    }

    /// Reads a member of ``context``.
    ///
    /// - Parameter path: The member of the context.
    public subscript<Value>(dynamicMember path: KeyPath<Context, Value>) -> Value { context[keyPath: path] }
}
