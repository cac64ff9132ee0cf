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

    /// Saves how far the handler has come, in the place of what it saved before.
    ///
    /// The next attempt reads it with ``saved(as:)``. It is committed before this returns, and a process that has lost its lease saves nothing,
    /// so an attempt never reads what an older one says after it. It also shows that the handler is alive; see ``AsyncHandler/silence``.
    ///
    /// ```swift
    /// func run(_ call: AsyncCall<TimerFired>) async throws {
    ///     for page in (try call.saved(as: Int.self) ?? 0)..<100 {
    ///         let rate = try await exchangeRate(key: "\(call.idempotencyKey)-\(page)")
    ///         try call.save(page + 1, note: "\(page + 1) of 100 pages") { step in
    ///             try step.execute("INSERT INTO rate VALUES (?, ?)", page, rate)
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// Each call is a commit: save what is worth that, say once a second.
    ///
    /// - Parameters:
    ///   - value: Kept as JSON, at most 64 KiB, until the handler ends.
    ///   - note: What ``ReadableStore/progress(of:)`` and `pushwake inspect` show to people; at most 4096 bytes are kept.
    ///   - effects: What the handler writes together with it, exactly once; nothing where it is left out. What it writes in a step of the
    ///     store's own is not fenced: an older attempt may write it after a newer one.
    /// - Returns: What `effects` returns.
    /// - Throws: What `effects` throws, and then nothing is kept; ``HandlerError`` `leaseLost` when another process runs the handler now, or it
    ///   was ended meanwhile; `argumentNotEncodable` when the value cannot be stored; or with the codes of the store.
    @discardableResult
    public func save<R>(
        _ value: some Encodable, note: String? = nil, _ effects: (borrowing Step) throws -> R = { _ in }
    ) throws -> R {
        try lease.save(HandlerResult(value, of: "the progress of a handler").bytes, note: note, effects)
    }

    /// Returns what the handler saved last, in this attempt or an earlier one.
    ///
    /// - Parameter type: The type of the value; inferred where the context says it.
    /// - Returns: The value; nil when it has saved nothing.
    /// - Throws: ``HandlerError`` `wrongArgument` when the value has another type, or with the codes of the store.
    public func saved<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value? {
        let bytes = try lease.read { try $0.savedProgress(of: handlerID) }
        return try bytes.map { try HandlerResult.value(type, from: $0, of: lease.stored.name.string) }
    }

    /// Not there: an async handler runs outside of a step.
    @available(
        *, unavailable,
        message:
            "an async handler runs outside of a step: write in the step that ends it, call.end { step in … }"
    )
    public var step: Step { fatalError("unavailable") }

    /// Not there: an async handler returns its result when it ends.
    @available(
        *, unavailable, message: "an async handler returns its result when it ends: call.end(result: …)"
    )
    public func setResult(_ value: some Encodable) throws { fatalError("unavailable") }

    /// Reads a member of ``context``.
    ///
    /// - Parameter path: The member of the context.
    public subscript<Value>(dynamicMember path: KeyPath<Context, Value>) -> Value { context[keyPath: path] }
}
