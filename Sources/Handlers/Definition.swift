/// A handler's type without its generic parameters: decodes the stored arguments and runs it.
///
/// A class, because each call passes it on several times: a copy of a structure with so many references costs more than the call's own code.
final class Definition: Sendable {
    /// The function of the handler.
    enum Body: Sendable {
        /// Inside the step.
        case inStep(@Sendable (Invocation, Transaction) throws -> Void)
        /// Under a lease.
        case leased(@Sendable (Invocation, Lease) async throws -> Void)
        /// Inside the step, up to where it waits.
        case workflow(@Sendable (Invocation, Transaction) throws -> FlowRun)
    }

    let handler: any DurableHandler.Type
    let id: Name
    let version: Int
    let retry: RetryPolicy
    let availability: Availability
    /// How long one attempt of an async handler may take, and go on without saving its progress.
    let limit: Duration?
    let silence: Duration?
    let place: String
    let signature: @Sendable () throws(HandlerError) -> HandlerSignature
    let body: Body
    private let context: any Sendable.Type

    /// Whether it can be called by a signal.
    var takesSignals: Bool { context is any SignalContext.Type }

    init<H: DurableHandler>(_ handler: H.Type, place: String, _ unknown: UnknownArguments) {
        self.handler = handler
        id = Name(H.id)
        version = H.version
        retry = H.retry
        availability = H.availability
        context = H.Context.self
        self.place = place
        signature = { () throws(HandlerError) in try HandlerSignature(handler) }
        // Each of these questions searches all conformances of the program, so none is asked twice.
        if let handler = handler as? any Handler.Type {
            (body, limit, silence) = (Self.inStep(handler, unknown), nil, nil)
        } else if let handler = handler as? any AsyncHandler.Type {
            (body, limit, silence) = (Self.leased(handler, unknown), handler.limit, handler.silence)
        } else if let handler = handler as? any Workflow.Type {
            (body, limit, silence) = (Self.workflow(handler, unknown), nil, nil)
        } else {
            // A programming error that would leave its rows waiting for ever: stop at the first start.
            fatalError(
                "the handler '\(H.id)' cannot run; let \(H.self) conform to Handler, AsyncHandler or Workflow"
            )
        }
    }

    /// The identity of the handler's type.
    var type: ObjectIdentifier { ObjectIdentifier(handler) }

    /// Whether it runs under a lease, outside the step that calls it.
    var isAsync: Bool { if case .leased = body { true } else { false } }

    /// Makes the context of a stored call again.
    ///
    /// - Throws: What the context throws; ``HandlerError`` `contextNotRestorable` when its type cannot be kept.
    func restore(_ bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws -> any Sendable {
        guard let context = context as? any RestorableContext.Type else {
            throw HandlerError(
                .contextNotRestorable,
                "what the handler '\(id)' was called with, \(context), cannot be made again; let that type conform to RestorableContext"
            )
        }
        return try context.restored(from: bytes, in: environment)
    }

    private static func inStep<H: Handler>(_ handler: H.Type, _ unknown: UnknownArguments) -> Body {
        .inStep { invocation, transaction in
            let context = try invocation.context(of: handler)
            let instance = try invocation.instance(of: handler, unknown)
            try instance.run(
                Call(
                    context: context, transaction: transaction, handlerID: invocation.stored.id,
                    attempt: invocation.stored.attempts + 1))
        }
    }

    private static func workflow<H: Workflow>(_ handler: H.Type, _ unknown: UnknownArguments) -> Body {
        .workflow { invocation, transaction in
            let context = try invocation.context(of: handler)
            let instance = try invocation.instance(of: handler, unknown)
            return try FlowRun(invocation.stored, context, transaction) { flow in
                let value = try await instance.run(flow)
                // One that cannot be stored fails the workflow, as an error of its function does.
                return value is Nothing ? nil : try HandlerResult(value).bytes
            }
        }
    }

    private static func leased<H: AsyncHandler>(_ handler: H.Type, _ unknown: UnknownArguments) -> Body {
        .leased { invocation, lease in
            let context = try invocation.context(of: handler)
            let instance = try invocation.instance(of: handler, unknown)
            try await instance.run(
                AsyncCall(
                    context: context, handlerID: lease.handler, attempt: lease.attempt,
                    idempotencyKey: lease.idempotencyKey, lease: lease))
        }
    }
}

/// One call of a stored handler, before its types are known.
struct Invocation: Sendable {
    let stored: StoredHandler
    let overrides: Record
    let context: any Sendable

    func context<H: DurableHandler>(of handler: H.Type) throws -> H.Context {
        if let context = context as? H.Context { return context }
        if let convertible = context as? any ConvertibleContext,
            let context = try convertible.converted(to: H.Context.self) as? H.Context
        {
            return context
        }
        throw HandlerError(
            .wrongContext,
            "the handler '\(H.id)' expects a call with \(H.Context.self), but was called with \(Swift.type(of: context)); call it with \(H.Context.self), its row is kept"
        )
    }

    func instance<H: DurableHandler>(of handler: H.Type, _ unknown: UnknownArguments) throws -> H {
        try unknown.look(for: handler, in: overrides)
        return try ArgumentCoding.decode(handler, from: arguments(for: handler), boundIn: stored.version)
    }

    /// The maximum number of versions between the program that bound a handler and this one.
    private static var mostUpcasts: Int { 10_000 }

    /// The stored arguments brought to this version, with the call's own arguments over them by name.
    private func arguments<H: DurableHandler>(for handler: H.Type) throws -> [UInt8] {
        if stored.version == H.version && overrides.isEmpty { return stored.arguments }
        guard stored.version >= 0, H.version - stored.version <= Self.mostUpcasts else {
            throw HandlerError(
                .upcastFailed,
                "the handler '\(stored.name)' is stored with version \(stored.version), which no program had; discard it, or put a backup back"
            )
        }
        var record = try ArgumentCoding.record(stored.arguments, handler: stored.name.string)
        for version in stored.version..<max(stored.version, H.version) {
            do {
                try H.upcast(&record, from: version)
            } catch { throw HandlerError(.upcastFailed, plainReason(error), cause: error) }
        }
        record.merge(overrides)
        return try ArgumentCoding.encode(record)
    }
}

/// A handler row as read. A class for the same reason as ``Definition``.
final class StoredHandler: Sendable {
    /// The row; nil for a handler that runs inside another one.
    let id: AnyHandlerID?
    let name: Name
    let version: Int
    let arguments: [UInt8]
    /// The stored invalidation, if there is one and it was asked for.
    let orElseBytes: [UInt8]?
    /// The number of failed calls.
    let attempts: Int
    /// Number of processes that died while it ran.
    let deaths: Int
    /// For a standing handler: the fingerprint of the call in which the process died.
    let culprit: Int64?
    /// The root of its chain; nil when it is that itself.
    let trace: AnyHandlerID?
    /// What the program calls it; read where the row is taken.
    let key: String?
    /// Whether a process runs it under a lease.
    let isLeased: Bool
    /// The error for which it was quarantined; nil for one that was not.
    let quarantineError: CallError?
    /// What other tables hold of it, and what its ending concerns.
    let relations: Relations
    /// Whether it stays after the call.
    let isStanding: Bool

    init(
        id: AnyHandlerID? = nil, name: Name, version: Int, arguments: [UInt8], orElseBytes: [UInt8]? = nil,
        attempts: Int = 0, deaths: Int = 0, culprit: Int64? = nil, trace: AnyHandlerID?, key: String? = nil,
        isLeased: Bool = false, quarantineReason: String? = nil, relations: Relations = [],
        isStanding: Bool = false
    ) {
        (self.id, self.name, self.version, self.arguments) = (id, name, version, arguments)
        (self.orElseBytes, self.attempts, self.deaths, self.culprit) = (
            orElseBytes, attempts, deaths, culprit
        )
        (self.trace, self.key, self.isLeased) = (trace, key, isLeased)
        quarantineError = CallError(storedCode: nil, message: quarantineReason)
        (self.relations, self.isStanding) = (relations, isStanding)
    }

    /// The same row, with what was read of it later.
    func with(_ relations: Relations, key: String?) -> StoredHandler {
        StoredHandler(
            id: id, name: name, version: version, arguments: arguments, orElseBytes: orElseBytes,
            attempts: attempts, deaths: deaths, culprit: culprit, trace: trace, key: key, isLeased: isLeased,
            quarantineReason: quarantineError?.message, relations: relations, isStanding: isStanding)
    }

    /// The root of its chain.
    var root: AnyHandlerID? { trace ?? id }
}
