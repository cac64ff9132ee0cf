/// A transaction: all writes through a step commit together or not at all.
///
/// A step is lent to a closure or to a handler; it cannot be copied or kept.
///
/// ```swift
/// try store.step { step in
///     try step.execute("INSERT INTO note(text) VALUES (?)", "hello")
///     try step.bind(Greet(name: "Juliet").durable)
/// }
/// ```
public struct Step: Readable {
    package let transaction: Transaction

    init(_ transaction: Transaction) { self.transaction = transaction }

    /// The connection for a statement, which sees all that the step has changed.
    private func statements() throws(HandlerError) -> Connection {
        if transaction.features.hasChanges { try transaction.storeChanges() }
        return transaction.connection
    }

    // MARK: The application's own tables

    /// Runs one statement.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It is prepared once and kept, so do not build it from values.
    ///   - values: The values for the `?`, in order.
    /// - Returns: The number of rows changed.
    /// - Throws: ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    @discardableResult
    public func execute(_ sql: String, _ values: any SQLConvertible...) throws(HandlerError) -> Int {
        try statements().execute(sql, values)
    }

    /// Runs one statement whose count nobody needs.
    ///
    /// With a database on another machine it travels with the statements that follow, so a step that writes a lot ends sooner. With
    /// SQLite it is ``execute(_:_:)``.
    ///
    /// ```swift
    /// for line in ["one", "two"] { try step.write("INSERT INTO line(text) VALUES (?)", line) }
    /// ```
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It is prepared once and kept, so do not build it from values.
    ///   - values: The values for the `?`, in order.
    /// - Throws: ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    public func write(_ sql: String, _ values: any SQLConvertible...) throws(HandlerError) {
        try statements().write(sql, values)
    }

    /// Returns the first row of a result, or nil.
    ///
    /// ```swift
    /// let text = try step.first("SELECT text FROM note WHERE id = ?", 1) { $0.text(0) }
    /// ```
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It is prepared once and kept, so do not build it from values.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads the row that it is lent.
    /// - Returns: What `read` returns; nil when there is no row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    public func first<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        try statements().first(sql, values, read)
    }

    /// Returns whether a query has a row.
    package func exists(_ sql: String, _ values: any SQLConvertible...) throws(HandlerError) -> Bool {
        try statements().first(sql, values) { _ in true } ?? false
    }

    /// Returns the newest id that a table has given to a row; 0 before the first.
    package func newestID(in table: String) throws(HandlerError) -> Int64 {
        try transaction.connection.engine.newestID(in: table)
    }

    /// Returns whether there is a table of that name.
    package func hasTable(_ name: String) throws(HandlerError) -> Bool {
        try transaction.connection.engine.hasTable(name)
    }

    /// Returns all rows of a result.
    ///
    /// - Parameters:
    ///   - sql: One SQL statement with `?` for values. It is prepared once and kept, so do not build it from values.
    ///   - values: The values for the `?`, in order.
    ///   - read: Reads each row in turn.
    /// - Returns: What `read` returned for each row.
    /// - Throws: What `read` throws; ``HandlerError`` with the codes of the store, or `sql` for a faulty statement.
    public func all<T>(
        _ sql: String, _ values: any SQLConvertible..., read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        try statements().all(sql, values, read)
    }

    /// The row id of the last row inserted.
    public var lastInsertedRow: Int64 {
        get throws(HandlerError) { try transaction.connection.lastInsertedRow }
    }

    /// The wall clock of this step, the same for the whole step.
    public var now: Timestamp { transaction.now }

    /// Runs `action` once the step has committed; never when it is given up.
    ///
    /// A process may be killed between the commit and the action, so it may only do what can be done again from the
    /// committed rows, such as waking the thread that writes them to a socket.
    package func afterCommit(_ action: @escaping () -> Void) { transaction.afterCommit.append(action) }

    /// Returns an object of that type that lasts as long as this step, the same for all callers.
    ///
    /// It is not undone when a part of the step is, so it may only repeat what rows say, and must be compared with them.
    ///
    /// - Parameter account: Whose object it is; accounts can share a step.
    package func keeping<T: AnyObject>(of account: Int64 = 0, _ make: () -> T) -> T {
        let key = Transaction.KeptKey(type: ObjectIdentifier(T.self), account: account)
        // The type is part of the key, so the object has it.
        if let kept = transaction.kept[key] { return unsafeDowncast(kept, to: T.self) }
        let made = make()
        transaction.kept[key] = made
        return made
    }

    /// Returns the object of that type if this step keeps one.
    package func kept<T: AnyObject>(_ type: T.Type) -> T? {
        transaction.kept[.init(type: ObjectIdentifier(type), account: 0)].map {
            unsafeDowncast($0, to: T.self)
        }
    }

    /// Runs `body` so that its writes are undone when it throws, while the rest of the step goes on.
    ///
    /// - Throws: What `body` throws. When the store itself failed, the step cannot commit any more and must be given
    ///   up; ``isUsable`` says so.
    package func undoingOnError(_ body: () throws -> Void) throws { try transaction.undoingCommand(body) }

    /// Whether the step can still commit: the store has not failed in it. An error of another store says nothing about this one.
    package var isUsable: Bool { transaction.connection.isUsable }

    // MARK: Handlers

    /// Stores a handler that will be called exactly once.
    ///
    /// - Parameter handler: The handler with its arguments, and with what runs instead when it can never be called;
    ///   see ``Durable/orElse(_:)``.
    /// - Returns: The handler's row, to be kept beside what it waits for.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func bind<Context>(_ handler: Durable<Context>) throws(HandlerError) -> HandlerID<Context> {
        HandlerID(of: try transaction.handlers.bind(handler, kind: .once))
    }

    /// Stores a handler that will be called many times, until it is invalidated.
    ///
    /// - Parameter handler: The handler with its arguments, and with what runs when it is invalidated.
    /// - Returns: The handler's row, for ``call(_:with:overriding:)``.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func bindStanding<Context>(_ handler: Durable<Context>) throws(HandlerError) -> HandlerID<Context>
    {
        HandlerID(of: try transaction.handlers.bind(handler, kind: .standing))
    }

    /// Orders the later calls of a standing handler, or orders them no longer; see ``bindStanding(_:key:ifTaken:ordered:)``.
    package func setOrdered(_ isOrdered: Bool, of id: AnyHandlerID) throws(HandlerError) {
        try transaction.handlers.setOrdered(isOrdered, of: id)
    }

    /// Calls a handler and ends it.
    ///
    /// The row is removed, the handler runs, and its ending is written, all in this step. A handler therefore cannot run twice: before
    /// COMMIT nothing has happened, and after it there is no row.
    ///
    /// A handler that throws is undone and, as its ``DurableHandler/retry`` says, called again later by a
    /// ``HandlerRunner`` or quarantined; one that this program does not know is parked; an
    /// ``AsyncHandler`` and one that must not run in this process are left to a runner. The rest of the step goes on.
    ///
    /// - Parameters:
    ///   - id: The handler's row.
    ///   - outcome: How it ends; `invalidated` belongs to `invalidate`.
    ///   - context: What the handler is called with; its type must be the handler's `Context`. To be called again
    ///     later it must be a ``RestorableContext``; else a failure leads to quarantine at once.
    ///   - overrides: Call-time arguments, which win over bound ones by name.
    /// - Returns: What became of it.
    /// - Throws: ``HandlerError`` when the store fails or the row has ended (`noSuchHandler`).
    @discardableResult
    public func end<Context: Sendable>(
        _ id: HandlerID<Context>, _ outcome: Outcome, with context: Context,
        overriding overrides: Record = [:]
    ) throws -> Disposition {
        precondition(
            outcome != .invalidated,
            "a handler is not called when it is invalidated; use invalidate(_:reason:)")
        return try transaction.calls.end(
            AnyHandlerID(id), outcome, overrides: overrides, context: .given(context))
    }

    /// Calls a handler and ends it, unless it waits on, in a step that ends those of others, too: one that cannot end is quarantined
    /// or tried again alone.
    ///
    /// - Parameter staysIf: Asked when the handler has run without an error: whether it is called again later, so that this
    ///   call was not its end. What it did commits all the same.
    @discardableResult
    package func endAlone<Context: Sendable>(
        _ id: HandlerID<Context>, _ outcome: Outcome, with context: Context,
        staysIf: () throws -> Bool = { false }
    ) throws -> Disposition {
        try transaction.calls.end(
            AnyHandlerID(id), outcome, overrides: Record(), context: .given(context), isIsolated: true,
            staysIf: staysIf)
    }

    /// Invalidates a handler in a step that ends those of others, too: one that cannot end is quarantined or tried again alone.
    @discardableResult
    package func invalidateAlone<Context>(
        _ id: HandlerID<Context>, reason: InvalidationReason, environment: any HandlerEnvironment
    ) throws -> Disposition {
        try transaction.invalidations.invalidate(
            AnyHandlerID(id), reason: reason, overrides: Record(), environment: environment, isIsolated: true)
    }

    /// Ends a handler that has run and waits on, without another call.
    ///
    /// - Throws: ``HandlerError`` when the store fails or the row has ended (`noSuchHandler`).
    package func endWithoutCall<Context>(_ id: HandlerID<Context>, _ outcome: Outcome) throws(HandlerError) {
        try transaction.calls.endWithoutCall(AnyHandlerID(id), outcome)
    }

    /// Calls a standing handler, which stays.
    ///
    /// When the handler cannot run now, the call (not the handler) waits or is quarantined in a row of its own.
    ///
    /// - Parameters:
    ///   - id: The row of a handler that was bound with ``bindStanding(_:)``.
    ///   - context: What the handler is called with; its type must be the handler's `Context`.
    ///   - overrides: Call-time arguments, which win over bound ones by name.
    /// - Returns: What became of the call.
    /// - Throws: ``HandlerError`` when the store fails or there is no such standing handler (`noSuchHandler`).
    @discardableResult
    public func call<Context: Sendable>(
        _ id: HandlerID<Context>, with context: Context, overriding overrides: Record = [:]
    ) throws -> Disposition {
        try transaction.calls.callStanding(AnyHandlerID(id), overrides: overrides, context: .given(context))
    }

    /// Ends a handler that can never be called any more: what was bound with ``Durable/orElse(_:)`` runs instead.
    ///
    /// Handlers that are bound as its arguments, to any depth, are invalidated with it, each exactly once, except
    /// those that were handed on as arguments of what runs instead. One that an async handler's process runs at this
    /// moment is invalidated too, and that process cannot end it any more.
    ///
    /// - Parameters:
    ///   - id: The handler's row.
    ///   - reason: Why; passed on and kept in the ending.
    ///   - overrides: Call-time arguments of what runs instead, which win over bound ones by name.
    ///   - environment: The environment in which the handler was bound, passed on in ``Invalidation``.
    /// - Returns: What became of what runs instead; ``Disposition/ended`` when nothing does.
    /// - Throws: ``HandlerError`` when the store fails or the row has ended (`noSuchHandler`).
    @discardableResult
    public func invalidate<Context>(
        _ id: HandlerID<Context>, reason: InvalidationReason, overriding overrides: Record = [:],
        environment: (any HandlerEnvironment)? = nil
    ) throws -> Disposition {
        try transaction.invalidations.invalidate(
            AnyHandlerID(id), reason: reason, overrides: overrides, environment: environment)
    }

    /// Runs a handler that was bound as an argument of the handler that runs now.
    ///
    /// This is how a module turns one call into another: its own handler waits for an answer, holds the program's
    /// handler as an argument, and runs it with a context of its own when the answer comes.
    ///
    /// ```swift
    /// struct Answered: Handler {
    ///     static let id = "weather.answered"
    ///     var then: Durable<Forecast>
    ///     func run(_ call: borrowing Call<IQReply>) throws {
    ///         try call.step.run(then, with: Forecast(text: call.iq.payload?.text))
    ///     }
    /// }
    /// ```
    ///
    /// It runs at once and belongs to the handler around it: nothing is recorded for it apart, the ending of the outer
    /// one covers both, and they are done together or not at all. When it fails, the outer one fails with the same
    /// error: it is parked when this program does not know the inner one, else tried again or quarantined, with its
    /// own input. Catching the error changes nothing about that, for an inner handler that silently never ran would be
    /// lost. An ``AsyncHandler``, or one that must not run in this process, becomes a row of its own, which a
    /// ``HandlerRunner`` calls.
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - context: What it is called with.
    ///   - overrides: Call-time arguments, which win over bound ones by name.
    /// - Throws: What the handler throws; ``HandlerError`` `unknownHandler`, `newerVersion`, `wrongContext`,
    ///   `missingArgument`, `wrongArgument` or `contextNotRestorable` when it cannot be called.
    public func run<Context>(
        _ handler: Durable<Context>, with context: Context, overriding overrides: Record = [:]
    ) throws {
        try transaction.calls.run(handler, context: context, overrides: overrides)
    }

    /// Invalidates a handler that is an argument of the running handler.
    ///
    /// For an outer handler that knows that the inner one will never be called. The handler bound with ``Durable/orElse(_:)``
    /// runs instead, and the handlers that it holds are invalidated with it.
    ///
    /// ```swift
    /// func run(_ call: borrowing Call<IQReply>) throws {
    ///     guard let payload = call.iq.payload else {
    ///         return try call.step.invalidate(then, reason: .failed)
    ///     }
    ///     try call.step.run(then, with: Forecast(text: payload.text))
    /// }
    /// ```
    ///
    /// Like ``run(_:with:overriding:)`` it belongs to the handler around it: nothing is recorded apart, both are done
    /// together or not at all, and a failure is the outer one's. A stored handler is invalidated by its row.
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - reason: Why; passed on in ``Invalidation``.
    ///   - overrides: Call-time arguments of what runs instead, which win over bound ones by name.
    ///   - environment: The environment in which the handler was bound, passed on in ``Invalidation``.
    /// - Throws: What runs instead throws; ``HandlerError`` as ``run(_:with:overriding:)``.
    public func invalidate<Context>(
        _ handler: Durable<Context>, reason: InvalidationReason, overriding overrides: Record = [:],
        environment: (any HandlerEnvironment)? = nil
    ) throws {
        try transaction.invalidations.invalidate(
            handler, reason: reason, overrides: overrides, environment: environment)
    }
}

/// Result of calling a handler.
///
/// ```swift
/// switch try step.end(id, .result, with: payment) {
/// case .ended, .queued, .retrying: break
/// case .parked(let reason), .quarantined(let reason): print("waits for repair: \(reason)")
/// case .failed(let reason): print("its invalidation handler runs: \(reason)")
/// }
/// ```
public enum Disposition: Hashable, Sendable {
    /// It ran and, unless it is standing, ended.
    case ended
    /// A ``HandlerRunner`` calls it as soon as it can: it is async, or must not run in this process.
    case queued
    /// It failed. Its writes are undone and a ``HandlerRunner`` calls it again at that time of the wall clock.
    case retrying(at: Timestamp, reason: String)
    /// Unknown to this program, or known in an older version. It waits for a newer program.
    case parked(reason: String)
    /// It failed for good. Its writes are undone and it waits for repair.
    case quarantined(reason: String)
    /// It failed for good. Its writes are undone and a ``HandlerRunner`` invalidates it with the reason `failed`.
    case failed(reason: String)
}

extension Disposition {
    /// The reason why the handler did not end; nil if it ended, or if a runner will call it as planned.
    package var reason: String? {
        switch self {
        case .ended, .queued: nil
        case .retrying(_, let reason), .parked(let reason), .quarantined(let reason), .failed(let reason):
            reason
        }
    }
}

extension Step {
    /// Returns whether the handler has not ended; a handler that ran earlier in this step may have ended it.
    package func waits<Context>(_ handler: HandlerID<Context>) throws(HandlerError) -> Bool {
        try ending(of: handler) == nil
    }
}
