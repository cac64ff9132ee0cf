/// Argument of a handler: the caller's context and the step in which it runs.
///
/// A call is lent to ``Handler/run(_:)``; it cannot be copied, so keeping it beyond the step does not compile.
/// Members of the context can be read directly: `call.iq` is `call.context.iq`.
///
/// ```swift
/// func run(_ call: borrowing Call<TimerFired>) throws {
///     guard call.attempt < 3 else { return }  // the end of it
///     try call.step.execute("INSERT INTO tick VALUES (?)", call.dueAt)
/// }
/// ```
@dynamicMemberLookup
public struct Call<Context: Sendable>: ~Copyable {
    /// Context that the caller supplies, such as the reply and the account.
    public let context: Context
    /// The transaction in which the handler runs.
    public let step: Step

    /// The row of the handler that runs. Nil for one that was run inside another with `Step.run`.
    public let handlerID: AnyHandlerID?
    /// Number of this attempt, from 1.
    public let attempt: Int

    package init(context: Context, transaction: Transaction, handlerID: AnyHandlerID? = nil, attempt: Int = 1)
    {
        self.context = context
        self.handlerID = handlerID
        self.attempt = attempt
        step = Step(transaction)
    }

    /// Keeps a result with the ending of this handler; a later one replaces it.
    ///
    /// A handler that was run inside another one sets the result of that one. One that stays after the call, such as a standing handler,
    /// has no ending, and so no result.
    ///
    /// ```swift
    /// func run(_ call: borrowing Call<TimerFired>) throws { try call.setResult(call.dueAt) }
    /// ```
    ///
    /// - Parameter value: Kept as JSON, at most 64 KiB; see ``Ending/result(as:)``.
    /// - Throws: ``HandlerError`` `argumentNotEncodable` when it cannot be stored.
    public func setResult(_ value: some Encodable) throws(HandlerError) {
        step.transaction.result = try HandlerResult(value).bytes
    }

    /// Reads a member of ``context``.
    ///
    /// - Parameter path: The member of the context.
    public subscript<Value>(dynamicMember path: KeyPath<Context, Value>) -> Value { context[keyPath: path] }
}
