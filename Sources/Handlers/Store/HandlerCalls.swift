/// Calling handlers: claim the row, run it, write its ending; or keep the call.
struct HandlerCalls: TransactionTable {
    let transaction: Transaction

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
            claim: { try handlers.claim(id, .onceNotLeased) },
            run: { stored, input in
                let caller = try invoke(stored, overrides: overrides, context: context, input: &input)
                guard caller == nil else { return caller }
                if BuiltInFault.runBoth.isOn {
                    try invalidations.invalidate(
                        stored.name, stored.arguments, orElseBytes: stored.orElseBytes,
                        Invalidation(reason: .cancelled, handler: stored.name.string, environment: nil),
                        overrides)
                }
                if try staysIf() {
                    try handlers.putBack(id, stored)
                } else {
                    try handlers.bury(id, stored, outcome, nil, transaction.result)
                }
                try Failpoint.afterHandler.hit()
                return nil
            })
    }

    /// Ends a handler that has run and waits on, without another call.
    func endWithoutCall(_ id: AnyHandlerID, _ outcome: Outcome) throws(HandlerError) {
        let stored = try handlers.claim(id, .oncePending)
        try handlers.bury(id, stored, outcome, nil)
    }

    func callStanding(_ id: AnyHandlerID, overrides: Record, context: ContextSource) throws -> Disposition {
        try attempt(
            StoredCall(.result, overrides: overrides), context.given,
            claim: { try handlers.read(id, .standing, isStanding: true) },
            run: { stored, input in
                if try mustQueue(id, stored.relations) {
                    return handlers.caller(of: stored.name)
                }
                let caller = try invoke(stored, overrides: overrides, context: context, input: &input)
                if caller == nil { try Failpoint.afterHandler.hit() }
                return caller
            })
    }

    /// Runs a handler inside the one that runs now, in its savepoint.
    func run<Context: Sendable>(
        _ handler: Durable<Context>, context: Context, overrides: Record = [:]
    ) throws {
        try transaction.notingFailure(of: handler.storedName) {
            try transaction.goingDeeper {
                let nested = StoredHandler(
                    name: handler.storedName, version: handler.version, arguments: handler.arguments,
                    orElseBytes: handler.orElseBytes, trace: transaction.root)
                let definition = try definition(of: nested)
                guard case .inStep(let body) = definition.body, canRunHere(definition) else {
                    // It cannot run in this step, so it becomes a handler of its own, which a runner calls.
                    var row = try handlers.row(
                        of: nested, toBeCalledWith: context, StoredCall(.result, overrides: overrides),
                        caller: Caller(definition))
                    _ = try handlers.bind(&row)
                    return
                }
                try body(Invocation(stored: nested, overrides: overrides, context: context), transaction)
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
            try transaction.timing(stored) {
                try body(Invocation(stored: stored, overrides: overrides, context: context), transaction)
            }
        }
        return nil
    }

    func canRunHere(_ definition: Definition) -> Bool {
        transaction.role == .main || definition.availability == .everywhere
    }

    /// Leaves word of who runs, for the process that comes after one which this handler kills.
    func marking(_ stored: StoredHandler, _ context: any Sendable, _ body: () throws -> Void) throws {
        let outer = transaction.runningCall
        let runningCall = RunningCall(handler: stored.id?.rawValue ?? 0, digest: fingerprint(stored, context))
        transaction.runningCall = runningCall
        transaction.slot.record(runningCall)
        defer {
            transaction.runningCall = outer
            if let outer {
                transaction.slot.record(outer)
            } else {
                transaction.slot.clearRunningCall()
            }
        }
        try transaction.calling(stored) { try transaction.binding(.inherited, body) }
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
        claim: () throws -> StoredHandler, run: (StoredHandler, inout (any Sendable)?) throws -> Caller?
    ) throws -> Disposition {
        let outer = transaction.result
        transaction.result = nil
        defer { transaction.result = outer }
        var claimed: StoredHandler?
        var context = given
        var caller: Caller?
        let cause: UnfinishedCall.Cause
        let hadDangling = isolated != nil && connection.hasUnresolvedForeignKeys
        do {
            let hasRun = try transaction.undoing {
                let stored = try claim()
                claimed = stored
                try transaction.goingDeeper {
                    try transaction.checkingForeignKeys { caller = try run(stored, &context) }
                }
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
        var retry = transaction.failedRetry ?? own
        // A nested handler says when to try again, and not what its holder's failure leads to.
        retry?.finally = own?.finally ?? .quarantine
        var unfinished = UnfinishedCall(
            cause, claimed, call, context: context, isStored: given == nil, retry: retry, now: now)
        try Failpoint.beforeQuarantine.hit()
        do {
            try store(&unfinished, of: claimed)
        } catch  where isolated != nil && connection.isUsable {
            // It stays as it is: nobody calls it any more.
            unfinished.quarantine(error)
        }
        count(unfinished, claimed)
        log(unfinished, claimed)
        return unfinished.disposition
    }

    /// Counts how a call went on that did not finish.
    func count(_ unfinished: UnfinishedCall, _ stored: StoredHandler) {
        switch unfinished.disposition {
        case .retrying: count(.retried, stored.name)
        case .parked: count(.parked, stored.name)
        case .quarantined: count(.quarantined, stored.name)
        case .failed: count(.failed, stored.name)
        case .ended, .queued: break
        }
    }

    /// A row that an error has kept from being removed; nil where there is none to be called.
    private func unremovable(_ id: AnyHandlerID, _ error: any Error) throws -> StoredHandler? {
        (error as? HandlerError)?.code == .noSuchHandler ? nil : try handlers.read(id, .any)
    }

    /// Stores how a handler goes on, or quarantines it where that cannot be stored: nothing but the store itself may fail the step, of
    /// which others have their part.
    func store(_ unfinished: inout UnfinishedCall, of stored: StoredHandler) throws {
        do {
            try transaction.undoingOnError {
                if stored.isStanding {
                    try storeCall(of: stored, &unfinished)
                } else if let id = stored.id {
                    try keep(id, unfinished, stored)
                }
            }
        } catch {
            // The call of a standing handler has no row yet; who called it learns that.
            guard connection.isUsable, !stored.isStanding, let id = stored.id else { throw error }
            unfinished.quarantine(error)
            try quarantine(id, unfinished.reason)
        }
    }

    /// Returns whether a call of a standing handler must wait for an earlier one.
    private func mustQueue(_ id: AnyHandlerID, _ relations: Relations) throws(HandlerError) -> Bool {
        var mustQueue = false
        try forEachFeature(of: relations) { (feature) throws(HandlerError) in
            if try feature.mustQueue(id) { mustQueue = true }
        }
        return mustQueue
    }

    func definition(of stored: StoredHandler) throws(HandlerError) -> Definition {
        let (name, version) = (stored.name, stored.version)
        guard let definition = registry.definition(named: name) else {
            throw Lack.handler(name).error()
        }
        guard version <= definition.version else {
            throw Lack.version(name, version).error(known: definition.version)
        }
        return definition
    }
}
