/// Invalidating handlers, and those bound as their arguments.
struct Invalidations: TransactionTable {
    let transaction: Transaction

    /// - Parameters:
    ///   - error: Why it failed; nil where it has not, and for a quarantined one, whose row has the error.
    ///   - isIsolated: As for ``HandlerCalls/end(_:_:overrides:context:isIsolated:staysIf:)``.
    func invalidate(
        _ id: AnyHandlerID, _ outcome: Outcome = .invalidated, reason: InvalidationReason,
        error: CallError? = nil, overrides: Record, environment: (any HandlerEnvironment)?,
        isIsolated: Bool = false
    ) throws -> Disposition {
        let invalidated = { (name: Name, error: CallError?) in
            Invalidation(reason: reason, handler: name.string, error: error, environment: environment)
        }
        return try calls.attempt(
            StoredCall(outcome, reason: reason, error: error, overrides: overrides), invalidated("", error),
            isolating: isIsolated ? id : nil, claim: { try handlers.claim(id, .toInvalidate) },
            run: { stored, _ in
                let error = error ?? stored.quarantineError
                let invalidation = invalidated(stored.name, error)
                try Failpoint.beforeInvalidation.hit()
                try refuseDeadlyInvalidation(stored)
                try calls.marking(stored, invalidation) {
                    try forEachFeature(of: stored.relations) { feature in
                        try feature.invalidating(id, invalidation)
                    }
                    try invalidate(
                        stored.name, stored.arguments, orElseBytes: stored.orElseBytes, invalidation,
                        overrides)
                }
                try handlers.bury(id, stored, outcome, reason, transaction.result, error)
                return nil
            })
    }

    /// Invalidates a handler inside the one that runs now, in its savepoint.
    func invalidate<Context: Sendable>(
        _ held: Durable<Context>, reason: InvalidationReason, overrides: Record,
        environment: (any HandlerEnvironment)?
    ) throws {
        try transaction.notingFailure(of: held.storedName) {
            try transaction.goingDeeper {
                try invalidate(
                    held.storedName, held.arguments, orElseBytes: held.orElseBytes,
                    Invalidation(reason: reason, handler: held.name, environment: environment), overrides)
            }
        }
    }

    /// Runs the invalidation handler of a handler that can never be called, then those of the handlers in its arguments.
    ///
    /// One that was handed on to the invalidation as an argument is that one's to deal with: it may still be called.
    func invalidate(
        _ name: Name, _ arguments: [UInt8], orElseBytes: [UInt8]?, _ invalidation: Invalidation,
        _ overrides: Record
    ) throws {
        var handedOn: [NestedHandler] = []
        if let orElseBytes {
            let orElse = try ArgumentCoding.orElse(orElseBytes, of: name.string)
            handedOn = try NestedHandler.all(in: orElse.arguments, of: orElse.storedName)
            // A compensation has as much time as it needs.
            try transaction.binding(.outsideOfChains) {
                try calls.run(
                    orElse,
                    context: Invalidation(
                        reason: invalidation.reason, handler: name.string, error: invalidation.error,
                        environment: invalidation.environment),
                    overrides: overrides)
            }
        }
        if BuiltInFault.forgetInvalidation.isOn { return }
        for inner in try NestedHandler.all(in: arguments, of: name) {
            if let index = handedOn.firstIndex(of: inner) {
                handedOn.remove(at: index)
                continue
            }
            try transaction.goingDeeper {
                try invalidate(
                    inner.name, inner.arguments, orElseBytes: inner.orElseBytes, invalidation, Record())
            }
        }
    }

    private func refuseDeadlyInvalidation(_ stored: StoredHandler) throws(HandlerError) {
        guard stored.deaths >= RetryPolicy.standard.deaths else { return }
        throw HandlerError(
            .deadly,
            "\(stored.deaths) processes died while the handler '\(stored.name)' or its invalidation ran; find out why before it is invalidated again"
        )
    }

    // MARK: By a runner

    /// Returns whether a runner is to invalidate a handler, or has tried to.
    func isToBeInvalidated(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        let call = try connection.first("SELECT call FROM handler WHERE id = ?", [id]) {
            $0.isNull(0) ? nil : $0.blob(0)
        }
        guard let call = call ?? nil, let call = try? StoredCall(call, of: id) else { return false }
        return call.reason != nil
    }

    /// Has a runner invalidate a handler: only the one that serves its scope knows its environment.
    ///
    /// A handler that runs at this moment, around this step's work, has no row and is left alone.
    ///
    /// - Parameter reason: What its row says until then.
    func invalidateLater(
        _ id: AnyHandlerID, _ call: StoredCall, because reason: String? = nil
    ) throws(HandlerError) {
        let found = try connection.first("SELECT scope, state FROM handler WHERE id = ?", [id]) {
            (
                scope: $0.optionalText(0).map { HandlerScope($0) },
                isLeased: $0.integer(1) == State.leased.rawValue
            )
        }
        guard let found else { return }
        try makeDue(call, because: reason, where: "id = ?", [id])
        transaction.newDue.add(found.scope, wall: now)
        if found.isLeased { transaction.newDue.isLeaseLost = true }
    }

    /// Makes handlers due, to be invalidated.
    ///
    /// - Returns: Their number.
    @discardableResult
    func makeDue(
        _ call: StoredCall, because reason: String? = nil, where condition: String,
        _ values: [any SQLConvertible]
    ) throws(HandlerError) -> Int {
        for feature in HandlerFeatures.all {
            try feature.init(transaction: transaction).canceling(
                "SELECT id FROM handler WHERE \(condition)", values)
        }
        let set: [any SQLConvertible] = [now, Caller.inStep.rawValue, try call.bytes(), reason]
        return try connection.execute(
            """
            UPDATE handler SET state = \(State.pending.sql), due = ?, connected_due = NULL, lane = ?, call = ?,
                attempts = 0, deaths = 0, reason = ?, lease = NULL
            WHERE \(condition)
            """, set + values)
    }

    /// Ends a row without running anything.
    func discard(_ id: AnyHandlerID) throws(HandlerError) {
        let stored = try handlers.claim(id, .any)
        transaction.runsNothing = true
        defer { transaction.runsNothing = false }
        try handlers.bury(id, stored, .invalidated, .discarded, nil, stored.quarantineError)
        for feature in HandlerFeatures.all { try feature.init(transaction: transaction).discarded(stored) }
    }
}

/// A handler found among the arguments of another one, without its type.
struct NestedHandler: Hashable {
    let name: Name
    let arguments: [UInt8]
    let orElseBytes: [UInt8]?

    /// Nil for an object that only looks like a handler.
    private init?(_ members: [String: JSONValue]) throws {
        guard case .string(let name)? = members["$handler"], case .integer? = members["version"],
            let arguments = members["arguments"], case .object = arguments
        else { return nil }
        self.name = Name(name)
        self.arguments = try [UInt8](ArgumentCoding.encoder().encode(arguments))
        orElseBytes = try members["orElse"].map { try [UInt8](ArgumentCoding.encoder().encode($0)) }
    }

    /// The outermost handlers among stored arguments, in the order of their names.
    static func all(in arguments: [UInt8], of handler: Name) throws -> [NestedHandler] {
        guard ArgumentCoding.mayHold(mark: "handler", arguments) else { return [] }
        var found: [NestedHandler] = []
        try collect(.object(ArgumentCoding.record(arguments, handler: handler.string).values), into: &found)
        return found
    }

    private static func collect(_ value: JSONValue, into found: inout [NestedHandler]) throws {
        switch value {
        case .object(let members):
            if let handler = try NestedHandler(members) { return found.append(handler) }
            for (_, member) in members.sorted(by: { Name($0.key) < Name($1.key) }) {
                try collect(member, into: &found)
            }
        case .array(let items): for item in items { try collect(item, into: &found) }
        default: break
        }
    }
}
