/// A handler whose body is plain async code that goes on in another process where one has stopped.
///
/// What it does through its ``Flow`` is kept in a journal. While it waits it is suspended and holds no thread and no lease. After a death, and
/// where it was dropped from memory (``HandlerRunner/Configuration/workflowMemory``), the function runs again from the start and reads its
/// journal, so nothing is done twice.
///
/// ```swift
/// struct Order: Workflow {
///     static let id = "shop.order"
///     var number: String
///     func run(_ flow: Flow) async throws -> Payment? {
///         try await flow.step { try $0.execute("INSERT INTO letter VALUES (?)", "pay order \(number)") }
///         return try await flow.signal("payment-\(number)", as: Payment.self, within: .seconds(3 * 24 * 3600))
///     }
/// }
/// try store.step { try $0.start(Order(number: "17").durable, key: "order-17") }
/// ```
///
/// A run of the function, up to where it waits or ends, is one part of a step, like the call of a ``Handler``: all that it did commits together,
/// or nothing of it has happened and it runs again. So it must be as quick: what takes long belongs into an async handler, see ``Flow/run(_:as:)``.
///
/// - Important: The function must take the same way again when it reads the same journal: take times from ``Flow/now``, random numbers from
///   ``Flow/random(in:)``, and everything from outside through ``Flow/step(_:_:)->_`` or ``Flow/run(_:as:)``. Where its code changes under
///   waiting workflows, ask ``Flow/version(_:in:)``. A journal that does not fit the code, or an await of something else, parks the workflow.
///
/// An error that the function throws ends it with the outcome `invalidated` and the reason `failed`: what was given to
/// ``Flow/compensate(with:)`` runs, the newest first, and then what was bound with ``Durable/orElse(_:)``.
public protocol Workflow: DurableHandler where Context == TimerFired {
    /// The result, kept with the ending. ``Nothing`` for none.
    associatedtype Output: Encodable & Sendable

    /// Runs the workflow, or what is left of it.
    ///
    /// - Parameter flow: The means to act and to wait.
    /// - Returns: The result; see ``HandlerStore/value(of:as:)``.
    /// - Throws: Any error; the workflow then ends. Rethrow what ``Flow`` throws, or handle it; either is right.
    func run(_ flow: Flow) async throws -> Output
}

/// The result of a workflow that has none.
public struct Nothing: Codable, Hashable, Sendable {
    public init() {}
}

extension Step {
    /// Stores a workflow that a ``HandlerRunner`` starts at once.
    ///
    /// - Parameters:
    ///   - workflow: The workflow with its arguments.
    ///   - key: A key, 1 to 512 bytes of UTF-8, without U+0000; nil for none. See ``bind(_:key:ifTaken:timeout:deadline:in:)``.
    ///   - rule: What happens when another handler has the key.
    /// - Returns: The workflow's row; `invalidate` cancels it, with what it waits for.
    /// - Throws: ``HandlerError`` `keyTaken`, `invalidKey`, or with the codes of the store.
    @discardableResult
    public func start(
        _ workflow: Durable<TimerFired>, key: String? = nil, ifTaken rule: KeyRule = .keep
    ) throws -> HandlerID<TimerFired> {
        guard let key else { return try schedule(workflow, after: .zero) }
        return try schedule(workflow, key: key, ifTaken: rule, after: .zero)
    }
}
