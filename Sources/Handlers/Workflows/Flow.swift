/// The means of a ``Workflow`` to act and to wait.
///
/// Each operation has a place in the journal, in the order of the calls. An operation whose result is there returns it; another one is carried out,
/// and its result is kept in the same transaction. One that has to wait suspends its task until the result has come. Tasks may wait at the same
/// time: those of `async let` and of task groups.
///
/// A workflow that waits may be dropped from memory, by an error that goes through it; it runs again when the result has come. All operations
/// after that error throw, too, and write nothing, so that `catch`, `try?` and `defer` cannot act on it. A wait in a canceled task throws
/// `CancellationError`.
public struct Flow: Sendable {
    let run: FlowRun

    /// The workflow's row.
    public var handlerID: AnyHandlerID { run.workflow }

    /// Key that is equal in all runs of this workflow and unique among all stores. Pass it to external services, with the name of what is
    /// requested, so that they recognize a repeated request.
    public var idempotencyKey: String { run.idempotencyKey }

    // MARK: Acting

    /// Writes to the store, exactly once.
    ///
    /// ```swift
    /// let number = try await flow.step { step in
    ///     try step.execute("INSERT INTO bill(customer) VALUES (?)", customer)
    ///     return try step.lastInsertedRow
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - name: A name in the journal, so that a change of the code is recognized.
    ///   - body: What is written, in one transaction with its place in the journal.
    /// - Returns: What `body` returned when it ran.
    /// - Throws: ``HandlerError`` `operationFailed` with the sentence of what `body` threw, whose writes are undone; see ``Flow`` for others.
    @discardableResult
    public func step<Value: Codable & Sendable>(
        _ name: String = "", _ body: (borrowing Step) throws -> Value
    ) async throws -> Value {
        let value = try await run.perform("step", name) { try HandlerResult(body($0)).bytes }
        return try run.ownValue(Value.self, from: value, of: name)
    }

    /// Writes to the store, exactly once.
    ///
    /// - Parameters:
    ///   - name: A name in the journal, so that a change of the code is recognized.
    ///   - body: What is written, in one transaction with its place in the journal.
    /// - Throws: ``HandlerError`` `operationFailed` with the sentence of what `body` threw, whose writes are undone; see ``Flow`` for others.
    public func step(_ name: String = "", _ body: (borrowing Step) throws -> Void) async throws {
        _ = try await run.perform("step", name) { step in
            try body(step)
            return []
        }
    }

    /// Has a handler called by a runner, and waits for its result: an async handler that asks another service, or another workflow.
    ///
    /// ```swift
    /// let receipt = try await flow.run(Charge(order: "17", cents: 1999).durable, as: Payment.self)
    /// ```
    ///
    /// It is tried again as its ``DurableHandler/retry`` says. It is canceled when the workflow ends.
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - type: The type of its result; inferred where the context says it.
    ///   - place: The lane in which it waits for its turn; nil for none. It leaves the lane when the workflow is canceled, before the
    ///     compensations run.
    /// - Returns: Its result.
    /// - Throws: ``CallError`` by its code when it failed; ``HandlerError`` `noResult` when it ended otherwise or returned nothing,
    ///   `wrongArgument` when the result has another type; see ``Flow`` for others.
    public func run<Value: Decodable>(
        _ handler: Durable<TimerFired>, as type: Value.Type = Value.self, lane place: LanePlace? = nil
    ) async throws -> Value {
        try await run.run(handler, lane: place).result(as: type)
    }

    /// Has a handler called by a runner, and waits until it has ended.
    ///
    /// One that is quarantined has not ended: the workflow waits until it is requeued or invalidated. Give it `finally: .orElse` in its
    /// ``RetryPolicy``, and the workflow goes on with the error.
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - place: The lane in which it waits for its turn; nil for none.
    /// - Throws: ``CallError`` by its code when it failed; ``HandlerError`` `noResult` when it ended otherwise than with the outcome `result`;
    ///   see ``Flow`` for others.
    public func run(_ handler: Durable<TimerFired>, lane place: LanePlace? = nil) async throws {
        try await run.run(handler, lane: place).check()
    }

    /// Not there: a workflow runs handlers that a runner calls.
    @available(
        *, unavailable,
        message:
            "a workflow runs handlers whose call has the context TimerFired; let the handler take Call<TimerFired> or AsyncCall<TimerFired>, and its values as arguments"
    )
    public func run<Context>(_ handler: Durable<Context>, lane place: LanePlace? = nil) async throws {
        fatalError("unavailable")
    }

    // MARK: Waiting

    /// Has handlers called by a runner, and waits until all of them have ended.
    ///
    /// ```swift
    /// let offers = try await flow.all(suppliers.map { try Ask(supplier: $0).durable }, within: .seconds(60))
    /// ```
    ///
    /// - Parameters:
    ///   - handlers: The handlers with their arguments, at most 10 000.
    ///   - place: The lane in which each of them waits for its turn; nil for none.
    ///   - time: How long it waits, by the wall clock; nil for any time.
    /// - Returns: The handlers in their order. Those that had not ended in time have no outcome, and are canceled.
    /// - Throws: ``HandlerError`` `operationFailed`; see ``Flow`` for others.
    public func all(
        _ handlers: [Durable<TimerFired>], lane place: LanePlace? = nil, within time: Duration? = nil
    ) async throws -> [JoinedChild] { try await run.join(handlers, .all, lane: place, within: time) }

    /// Has handlers called by a runner, and waits until one of them has ended with a result, or all have ended.
    ///
    /// - Parameters:
    ///   - handlers: The handlers with their arguments, at most 10 000.
    ///   - time: How long it waits, by the wall clock; nil for any time.
    /// - Returns: The handlers in their order. Those that had not ended have no outcome, and are canceled.
    /// - Throws: ``HandlerError`` `operationFailed`; see ``Flow`` for others.
    public func any(
        _ handlers: [Durable<TimerFired>], within time: Duration? = nil
    ) async throws -> [JoinedChild] { try await run.join(handlers, .any, within: time) }

    /// Has handlers called by a runner, and waits until so many have ended with a result, or too many otherwise.
    ///
    /// - Parameters:
    ///   - number: How many, from 1.
    ///   - handlers: The handlers with their arguments, at most 10 000.
    ///   - time: How long it waits, by the wall clock; nil for any time.
    /// - Returns: The handlers in their order. Those that had not ended have no outcome, and are canceled.
    /// - Throws: ``HandlerError`` `operationFailed`; see ``Flow`` for others.
    public func quorum(
        _ number: Int, of handlers: [Durable<TimerFired>], within time: Duration? = nil
    ) async throws -> [JoinedChild] { try await run.join(handlers, .quorum(number), within: time) }

    /// Waits for a signal to a key; see ``Step/signal(_:_:keptFor:)``. One that came before counts.
    ///
    /// - Parameters:
    ///   - key: The key, 1 to 512 bytes of UTF-8, without U+0000.
    ///   - type: The type of its value; inferred where the context says it.
    ///   - time: How long it waits, by the wall clock; nil for any time.
    /// - Returns: The value of the signal; nil when none came in time. For an optional `Value` a signal without a value is `.some(nil)`.
    /// - Throws: ``HandlerError`` `wrongArgument` when the value has another type, `operationFailed` when another handler has the key; see
    ///   ``Flow`` for others.
    public func signal<Value: Codable & Sendable>(
        _ key: String, as type: Value.Type = Value.self, within time: Duration? = nil
    ) async throws -> Value? {
        let value = try await run.wait("signal", key) { step, place in
            let signaled = try FlowSignaled(flow: place).durable.orElse(FlowGivenUp(flow: place).durable)
            return AnyHandlerID(
                try step.bind(signaled, key: key, ifTaken: .refuse, deadline: time.map { step.now + $0 }))
        }
        return value.isEmpty ? nil : try HandlerResult.value(Value.self, from: value, of: key)
    }

    /// Waits for a time.
    ///
    /// - Parameter duration: How long it waits, by the wall clock.
    /// - Throws: See ``Flow``.
    public func sleep(for duration: Duration) async throws {
        _ = try await run.wait("sleep") { step, place in try place.timer(at: step.now + duration, step) }
    }

    /// Waits for a time.
    ///
    /// - Parameter time: When it goes on, by the wall clock.
    /// - Throws: See ``Flow``.
    public func sleep(until time: Timestamp) async throws {
        _ = try await run.wait("sleep") { step, place in try place.timer(at: time, step) }
    }

    // MARK: Loops without end

    /// The number of operations in the journal so far. At 10 000 the workflow is quarantined; go on with ``again(_:)`` long before.
    public var operations: Int { run.operations }

    /// Ends this run, and starts the workflow again with other arguments and an empty journal.
    ///
    /// ```swift
    /// try await flow.sleep(for: .seconds(30 * 86_400))
    /// try flow.again(Subscription(customer: "Ada", month: 2).durable)
    /// ```
    ///
    /// It keeps its row, its key, those that wait for its end, and what ``compensate(with:)`` and ``Durable/orElse(_:)`` have promised. What it
    /// still waits for is canceled. Its ``idempotencyKey`` and its random numbers are others.
    ///
    /// - Parameter workflow: The same workflow with other arguments.
    /// - Throws: Always. Nothing that the function does after that counts, whatever it does with the error. ``HandlerError`` `wrongArgument`
    ///   for another workflow: then it goes on.
    public func again(_ workflow: Durable<TimerFired>) throws -> Never { try run.again(workflow) }

    // MARK: The same in each run

    /// The time of the last operation, by the wall clock; before the first one, when the workflow was due.
    public var now: Timestamp { run.now }

    /// Returns a random number that is the same in each run.
    ///
    /// - Parameter range: Where it lies; not empty.
    /// - Returns: The number; the next call returns another one.
    public func random<Number: FixedWidthInteger>(in range: ClosedRange<Number>) -> Number {
        run.random(in: range)
    }

    /// Says whether a workflow has passed this place before a change of the code.
    ///
    /// ```swift
    /// if try await flow.version("gift-wrap", in: 1...2) == 2 { try await flow.run(Wrap(order: "17").durable) }
    /// ```
    ///
    /// - Parameters:
    ///   - change: A name of the change, for ever.
    ///   - versions: The versions that this program can run: before the first change of that name, 1.
    /// - Returns: The newest version for a workflow that comes here for the first time, and what was returned then in each later run; the
    ///   oldest for one that was here before the change.
    /// - Throws: See ``Flow``; a version that this program cannot run any more parks the workflow.
    public func version(_ change: String, in versions: ClosedRange<Int>) async throws -> Int {
        try await run.version(change, versions)
    }

    /// Has a handler run if the workflow fails or is invalidated: it undoes what was done so far.
    ///
    /// ```swift
    /// try await flow.compensate(with: Release(order: "17").durable)
    /// try await flow.run(Reserve(order: "17").durable)
    /// ```
    ///
    /// It is kept in the journal, and so runs in whatever process the workflow ends. All of them run in the step in which it does, the newest
    /// first; an async one is called by a runner. If one of them throws, all are tried again. Discarding a workflow runs none.
    ///
    /// - Parameter handler: The handler with its arguments.
    /// - Throws: See ``Flow``.
    public func compensate(with handler: Durable<Invalidation>) async throws {
        _ = try await run.perform("compensate", handler.name) { _ in
            try ArgumentCoding.encode(handler, named: "the compensation")
        }
        // At once: a later operation may end the workflow itself.
        try run.writeNow()
    }
}
