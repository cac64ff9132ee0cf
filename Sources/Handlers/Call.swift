/// What a handler receives when it runs: the context that the caller supplies and the step it runs in.
///
/// A call is lent to ``Handler/run(_:)``; it cannot be copied, so keeping it beyond the step does not compile.
/// Members of the context can be read directly: `call.iq` is `call.context.iq`.
@dynamicMemberLookup
public struct Call<Context: Sendable>: ~Copyable {
    /// What the caller supplies: the reply, the live account.
    public let context: Context
    /// The transaction in which the handler runs.
    public let step: Step

    package init(context: Context, transaction: Transaction) {
        self.context = context
        step = Step(transaction)
    }

    /// Reads a member of ``context``.
    public subscript<Value>(dynamicMember path: KeyPath<Context, Value>) -> Value { context[keyPath: path] }
}
