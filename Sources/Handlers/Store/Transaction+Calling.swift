/// Calling handlers: take the row, run it, write its ending; or set the call aside.
extension Transaction {
    /// The source of the context of a call.
    enum ContextSource {
        /// The context that the caller supplied.
        case given(any Sendable)
        /// The context restored from the row.
        case kept((Definition) throws -> any Sendable)

        var given: (any Sendable)? { if case .given(let context) = self { context } else { nil } }

        func context(for definition: Definition) throws -> any Sendable {
            switch self {
            case .given(let context): context
            case .kept(let restore): try restore(definition)
            }
        }
    }

    // Made once: a statement is found by its text, soonest by its address.
    private static let selectOnceNotLeased =
        "SELECT name, version, arguments, or_else, attempts, deaths, NULL, trace, relations, NULL FROM handler WHERE id = ? AND kind = \(Kind.once.sql) AND state <> \(State.leased.sql)"
    static let selectOncePending =
        "SELECT name, version, arguments, NULL, attempts, deaths, NULL, trace, relations, NULL FROM handler WHERE id = ? AND kind = \(Kind.once.sql) AND state = \(State.pending.sql)"
    static let selectAny =
        "SELECT name, version, arguments, NULL, attempts, deaths, NULL, trace, relations, state FROM handler WHERE id = ?"
    private static let selectStanding =
        "SELECT name, version, arguments, NULL, attempts, deaths, culprit, trace, relations, NULL FROM handler WHERE id = ? AND kind = \(Kind.standing.sql)"

    /// - Parameters:
    ///   - isIsolated: Whether a row that cannot be removed is the failure of that handler alone, as in a step that ends the handlers
    ///     of others. In a program's own step it is that of the step, which may also remove what refers to the row.
    ///   - staysIf: Asked when the handler has run: whether it waits on and is called again, so that this call was not its end.
    func end(
        _ id: AnyHandlerID, _ outcome: Outcome, overrides: Record, context: ContextSource,
        isIsolated: Bool = false, staysIf: () throws -> Bool = { false }
    ) throws -> Disposition {
        try attempt(
            StoredCall(outcome, overrides: overrides), context.given, isolating: isIsolated ? id : nil,
            claim: { try claim(id, Self.selectOnceNotLeased) },
            run: { stored, input in
                let caller = try invoke(stored, overrides: overrides, context: context, input: &input)
                guard caller == nil else { return caller }
                if BuiltInFault.runBoth.isOn {
                    try invalidate(
                        stored.name, stored.arguments, orElseBytes: stored.orElseBytes,
                        Invalidation(reason: .cancelled, handler: stored.name.string, environment: nil),
                        overrides)
                }
                if try staysIf() {
                    try putBack(id, stored)
                } else {
                    try bury(id, stored, outcome, nil, result)
                }
                try Failpoint.afterHandler.hit()
                return nil
            },
            storeUnfinished: { stored, unfinished in try keep(id, unfinished, stored) })
    }

    /// Ends a handler that has run and waits on, without another call.
    func endWithoutCall(_ id: AnyHandlerID, _ outcome: Outcome) throws(HandlerError) {
        let stored = try claim(id, Self.selectOncePending)
        try bury(id, stored, outcome, nil)
    }

    func callStanding(_ id: AnyHandlerID, overrides: Record, context: ContextSource) throws -> Disposition {
        try attempt(
            StoredCall(.result, overrides: overrides), context.given,
            claim: { try read(id, Self.selectStanding, isStanding: true) },
            run: { stored, input in
                if stored.relations.contains(.ordered), try hasWaitingCalls(id) {
                    return registry.definition(named: stored.name).map(Caller.init) ?? .inStep
                }
                let caller = try invoke(stored, overrides: overrides, context: context, input: &input)
                if caller == nil { try Failpoint.afterHandler.hit() }
                return caller
            },
            storeUnfinished: { stored, unfinished in try storeCall(of: stored, &unfinished) })
    }

    /// Runs a handler inside the one that runs now, in its savepoint.
    func run<Context: Sendable>(
        _ handler: Durable<Context>, context: Context, overrides: Record = [:]
    ) throws {
        try notingFailure(of: handler.storedName) {
            try goingDeeper {
                let nested = StoredHandler(
                    name: handler.storedName, version: handler.version, arguments: handler.arguments,
                    orElseBytes: handler.orElseBytes, trace: running?.root)
                let definition = try definition(of: nested)
                guard case .inStep(let body) = definition.body, canRunHere(definition) else {
                    // It cannot run in this step, so it becomes a handler of its own, which a runner calls.
                    try bind(
                        nested, toBeCalledWith: context, StoredCall(.result, overrides: overrides),
                        caller: Caller(definition))
                    return
                }
                try body(Invocation(stored: nested, overrides: overrides, context: context), self)
            }
        }
    }

    /// Runs a handler that was taken.
    ///
    /// - Returns: The caller that must call it instead, where it cannot run in this step.
    private func invoke(
        _ stored: StoredHandler, overrides: Record, context source: ContextSource,
        input: inout (any Sendable)?
    ) throws -> Caller? {
        let definition = try definition(of: stored)
        let context = try source.context(for: definition)
        input = context
        try refuseCulprit(stored, definition, context)
        guard case .inStep(let body) = definition.body, canRunHere(definition) else {
            return Caller(definition)
        }
        try Failpoint.beforeHandler.hit()
        try marking(stored, context) {
            try timing(stored) {
                try body(Invocation(stored: stored, overrides: overrides, context: context), self)
            }
        }
        return nil
    }

    func canRunHere(_ definition: Definition) -> Bool {
        role == .main || definition.availability == .everywhere
    }

    /// Leaves word of who runs, for the process that comes after one which this handler kills.
    func marking(_ stored: StoredHandler, _ context: any Sendable, _ body: () throws -> Void) throws {
        let outer = (runningCall, chainRule)
        let runningCall = RunningCall(handler: stored.id?.rawValue ?? 0, digest: fingerprint(stored, context))
        (self.runningCall, chainRule) = (runningCall, .inherited)
        calls.append(stored)
        slot.record(runningCall)
        defer {
            calls.removeLast()
            (self.runningCall, chainRule) = outer
            if let runningCall = self.runningCall {
                slot.record(runningCall)
            } else {
                slot.clearRunningCall()
            }
        }
        try body()
    }

    /// Distinguishes the calls of a standing handler; a handler that is called once needs none.
    private func fingerprint(_ stored: StoredHandler, _ context: any Sendable) -> UInt64 {
        stored.isStanding ? (context as? any RestorableContext)?.callFingerprint ?? 0 : 0
    }

    /// Stops a handler that killed too many processes before it kills this one.
    func refuseCulprit(_ stored: StoredHandler, _ definition: Definition, _ context: any Sendable) throws {
        guard stored.deaths >= definition.retry.deaths else { return }
        if let culprit = stored.culprit {
            guard culprit == Int64(bitPattern: fingerprint(stored, context)) else { return }
        }
        throw HandlerError(
            .deadly,
            "\(stored.deaths) processes died while the handler '\(stored.name)' ran with what arrived here; find out why before it is called again"
        )
    }

    /// Claims a row and runs it. If the handler fails, undoes its writes and stores how it goes on.
    ///
    /// Throws errors that no handler caused: the row does not exist, or the store failed.
    ///
    /// - Parameters:
    ///   - given: What the handler is called with; nil where call and context are kept in the row.
    ///   - isolated: The row, where one that cannot be removed is the failure of its handler.
    ///   - run: Returns the caller that must call the handler instead; nil when it has run.
    func attempt(
        _ call: StoredCall, _ given: (any Sendable)?, isolating isolated: AnyHandlerID? = nil,
        claim: () throws -> StoredHandler,
        run: (StoredHandler, inout (any Sendable)?) throws -> Caller?,
        storeUnfinished: (StoredHandler, inout UnfinishedCall) throws -> Void
    ) throws -> Disposition {
        let outer = result
        result = nil
        defer { result = outer }
        var claimed: StoredHandler?
        var context = given
        var caller: Caller?
        let cause: UnfinishedCall.Cause
        let hadDangling = isolated != nil && connection.hasUnresolvedForeignKeys
        do {
            let hasRun = try undoing {
                let stored = try claim()
                claimed = stored
                try goingDeeper { try checkingForeignKeys { caller = try run(stored, &context) } }
                if isolated != nil, !hadDangling, connection.hasUnresolvedForeignKeys {
                    throw HandlerError.referredTo
                }
                return caller == nil
            }
            if hasRun { return .ended }
            cause = .queued(caller ?? .inStep)
        } catch {
            guard connection.isUsable else { throw error }
            let stayed = claimed == nil ? try isolated.flatMap { try unremovable($0, error) } : nil
            claimed = claimed ?? stayed
            guard claimed != nil else { throw error }
            let refers = stayed != nil && (error as? HandlerError)?.cause is ForeignKeyViolation
            cause = .failed(refers ? HandlerError.referredTo : error)
        }
        guard let claimed else { return .ended }
        let own = registry.definition(named: claimed.name)?.retry
        var retry = failedRetry ?? own
        // A nested handler says when to try again, and not what its holder's failure leads to.
        retry?.finally = own?.finally ?? .quarantine
        var unfinished = UnfinishedCall(
            cause, claimed, call, context: context, isStored: given == nil, retry: retry, now: now)
        try Failpoint.beforeQuarantine.hit()
        do {
            try store(&unfinished, of: claimed) { try storeUnfinished(claimed, &$0) }
        } catch  where isolated != nil && connection.isUsable {
            // It stays as it is: nobody calls it any more.
            unfinished.quarantine(error)
        }
        log(unfinished, claimed)
        return unfinished.disposition
    }

    /// A row that an error has kept from being removed; nil where there is none to be called.
    private func unremovable(_ id: AnyHandlerID, _ error: any Error) throws -> StoredHandler? {
        (error as? HandlerError)?.code == .noSuchHandler ? nil : try read(id, Self.selectAny)
    }

    /// Stores how a handler goes on, or quarantines it where that cannot be stored: nothing but the store itself may fail the step, of
    /// which others have their part.
    func store(
        _ unfinished: inout UnfinishedCall, of stored: StoredHandler,
        _ body: (inout UnfinishedCall) throws -> Void
    ) throws {
        do {
            try undoingOnError { try body(&unfinished) }
        } catch {
            // The call of a standing handler has no row yet; who called it learns that.
            guard connection.isUsable, !stored.isStanding, let id = stored.id else { throw error }
            unfinished.quarantine(error)
            try quarantine(id, unfinished.reason)
        }
    }

    func definition(of stored: StoredHandler) throws(HandlerError) -> Definition {
        let (name, version) = (stored.name, stored.version)
        guard let definition = registry.definition(named: name) else {
            throw HandlerError(.unknownHandler, ParkedReason.unknown(name))
        }
        guard version <= definition.version else {
            throw HandlerError(
                .newerVersion, ParkedReason.newer(name, version, than: definition.version))
        }
        return definition
    }

    // MARK: Rows

    /// Removes a row and returns it. The step holds the write lock, so no other process claims it in between.
    func claim(_ id: AnyHandlerID, _ query: String) throws(HandlerError) -> StoredHandler {
        let stored = try read(id, query)
        // Two plain statements cost half of one DELETE … RETURNING, which builds a table for its result.
        guard try connection.changeRow("DELETE FROM handler WHERE id = ?", [id]) else {
            throw try noSuchHandler(id)
        }
        // The process that runs it is told.
        if stored.isLeased { newDue.isLeaseLost = true }
        guard stored.relations.contains(.keyed) else { return stored }
        return stored.with(stored.relations, key: try takeKey(of: id))
    }

    func read(
        _ id: AnyHandlerID, _ query: String, isStanding: Bool = false
    ) throws(HandlerError) -> StoredHandler {
        let stored = try connection.first(query, [id]) { row in
            StoredHandler(
                id: id, name: row.foreignText(0), version: Int(row.quantity(1)), arguments: row.blob(2),
                orElseBytes: row.isNull(3) ? nil : row.blob(3), attempts: Int(row.quantity(4)),
                deaths: Int(row.quantity(5)), culprit: row.optionalInteger(6),
                trace: row.optionalInteger(7).map(AnyHandlerID.init(rawValue:)),
                isLeased: row.optionalInteger(9) == State.leased.rawValue,
                relations: Relations(rawValue: row.integer(8)), isStanding: isStanding)
        }
        guard let stored else { throw try noSuchHandler(id) }
        return stored
    }

    /// The row of a handler that was taken, as it was when it was bound.
    private func putBack(_ id: AnyHandlerID, _ stored: StoredHandler) throws(HandlerError) {
        try connection.write(
            "INSERT INTO handler(id, name, version, arguments, or_else, kind, bound_at, trace, relations) VALUES (?, ?, ?, ?, ?, \(Kind.once.sql), ?, ?, ?)",
            [
                id, stored.name, stored.version, stored.arguments, stored.orElseBytes, now, stored.trace,
                stored.relations.rawValue,
            ])
        if let key = stored.key { try give(key, to: id) }
    }

    func bury(
        _ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome, _ reason: InvalidationReason?,
        _ result: [UInt8]? = nil
    ) throws(HandlerError) {
        // The primary key refuses a second ending of one handler.
        try connection.write(
            "INSERT INTO ending(handler, name, outcome, reason, ended_at, trace) VALUES (?, ?, ?, ?, ?, ?)",
            [
                id, stored.name, outcome.rawValue, reason.map { StoredReason($0.rawValue) }, now,
                stored.trace,
            ])
        if stored.key != nil || result != nil {
            try connection.write(
                "INSERT INTO ending_detail(handler, key, result) VALUES (?, ?, ?)", [id, stored.key, result])
        }
        if !stored.relations.isEmpty { try dropRelations(stored.relations, of: id, outcome) }
    }

    func noSuchHandler(_ id: AnyHandlerID) throws(HandlerError) -> HandlerError {
        let found = try connection.first("SELECT kind, state FROM handler WHERE id = ?", [id]) {
            ($0.integer(0), $0.integer(1))
        }
        let sentence =
            switch found {
            case nil: "the handler \(id) has ended or never existed; it cannot be called again"
            case (_, State.leased.rawValue)?:
                "the handler \(id) is running; it ends by itself, or invalidate it"
            case (Kind.standing.rawValue, _)?:
                "the handler \(id) is a standing one; call it, or invalidate it to remove it"
            default: "the handler \(id) is not a standing one; end it"
            }
        return HandlerError(.noSuchHandler, sentence)
    }
}
