/// Workflows and their journals.
struct Journals: HandlerFeature {
    static let relations = Relations.workflow
    let transaction: Transaction

    // MARK: Running

    func deliver(
        _ row: DueRow, _ definition: Definition?, _ call: StoredCall,
        _ environment: (any HandlerEnvironment)?
    ) throws -> Bool {
        // The calls of a periodic one are workflows of their own.
        guard row.period == nil, case .workflow? = definition?.body else { return false }
        try run(row, call, environment)
        return true
    }

    /// Runs a workflow up to where it waits or ends.
    private func run(
        _ row: DueRow, _ call: StoredCall, _ environment: (any HandlerEnvironment)?
    ) throws {
        _ = try calls.attempt(
            call, nil,
            claim: { try handlers.read(row.id, .oncePending) },
            run: { stored, input in
                let definition = try calls.definition(of: stored)
                let context = try dueRows.context(of: row, definition, environment)
                input = context
                try calls.refuseCulprit(stored, definition, context)
                guard case .workflow(let body) = definition.body, calls.canRunHere(definition) else {
                    return Caller(definition)
                }
                try Failpoint.beforeHandler.hit()
                try calls.marking(stored, context) {
                    try transaction.timing(stored) {
                        let invocation = Invocation(
                            stored: stored, overrides: call.overrides ?? Record(), context: context)
                        try settle(stored, row, call, context, environment, body(invocation, transaction))
                    }
                }
                try Failpoint.afterHandler.hit()
                return nil
            })
    }

    private func settle(
        _ stored: StoredHandler, _ row: DueRow, _ call: StoredCall, _ context: any Sendable,
        _ environment: (any HandlerEnvironment)?, _ end: FlowRun.End
    ) throws {
        // It has ended or replaced itself.
        guard try handlers.relations(of: row.id) != nil else { return try dropJournal(of: row.id) }
        switch end {
        case .waits, .goesOn:
            var due: Timestamp?
            if case .goesOn = end { due = now }
            // What it was started with stays the same in all runs. What failed before this does not count.
            let input = row.input == nil ? try (context as? any RestorableContext)?.storedBytes() : nil
            // Not one that something in this run has canceled: a runner invalidates it.
            try connection.write(
                """
                UPDATE handler SET due = ?, input = coalesce(input, ?), attempts = 0, deaths = 0, reason = NULL
                WHERE id = ? AND call = ?
                """, [due, input, row.id, row.call])
        case .ended(let result):
            let claimed = try handlers.claim(row.id, .oncePending)
            try handlers.bury(row.id, claimed, call.outcome, nil, result)
        case .failed(let error):
            transaction.log?.write(.warning, .handlers) {
                "the workflow \(row.id) ('\(stored.name)') fails: \(plainReason(error))"
            }
            let failure = CallError(storing: error)
            try calls.report(
                row.id, failure, counts: (stored.attempts + 1, stored.deaths), isInvalidated: true)
            _ = try invalidations.invalidate(
                row.id, reason: .failed, error: failure, overrides: [:], environment: environment)
        }
    }

    // MARK: The journal

    func write(_ entry: FlowEntry, at place: FlowPlace) throws(HandlerError) {
        try connection.write(
            "INSERT INTO journal(handler, position, operation, value, error, at) VALUES (?, ?, ?, ?, ?, ?)",
            [place.workflow, place.position, entry.operation, entry.value, entry.error, entry.at])
    }

    func set(waiter: AnyHandlerID, at place: FlowPlace) throws(HandlerError) {
        try connection.write(
            "UPDATE journal SET waiter = ? WHERE handler = ? AND position = ?",
            [waiter, place.workflow, place.position])
    }

    func waiter(of place: FlowPlace) throws(HandlerError) -> AnyHandlerID? {
        try connection.first(
            "SELECT waiter FROM journal WHERE handler = ? AND position = ?", [place.workflow, place.position]
        ) { $0.optionalInteger(0).map(AnyHandlerID.init(rawValue:)) } ?? nil
    }

    /// Fills a place, and has the workflow run if it waits. What comes late changes nothing.
    func resolve(_ place: FlowPlace, _ value: [UInt8]? = nil, error: StoredReason? = nil) throws(HandlerError)
    {
        let changed = try connection.execute(
            """
            UPDATE journal SET value = ?, error = ?, at = ?
            WHERE handler = ? AND position = ? AND value IS NULL AND error IS NULL
            """, [value, error, now, place.workflow, place.position])
        if changed == 1 { try wake(place.workflow) }
    }

    private func wake(_ workflow: AnyHandlerID) throws(HandlerError) {
        let changed = try connection.execute(
            "UPDATE handler SET due = ? WHERE id = ? AND state = \(State.pending.sql) AND due IS NULL",
            [now, workflow])
        guard changed == 1 else { return }
        transaction.newDue.add(try handlers.scope(of: workflow), wall: now)
    }

    /// Ends what a workflow waits for that will not end as it should, and runs its compensations, the newest first.
    func invalidating(_ workflow: AnyHandlerID, _ invalidation: Invalidation) throws {
        // Before that: what waits in a lane must not be done after it was undone.
        try endWaits(of: workflow, invalidation)
        let stored = try connection.all(
            "SELECT value FROM journal WHERE handler = ? AND operation LIKE 'compensate %' ORDER BY position DESC",
            [workflow]
        ) { $0.blob(0) }
        for value in stored where !value.isEmpty {
            let handler = try ArgumentCoding.value(Durable<Invalidation>.self, from: value)
            try transaction.binding(.outsideOfChains) { try calls.run(handler, context: invalidation) }
        }
    }

    func kept(_ id: AnyHandlerID, _ stored: StoredHandler, _ unfinished: UnfinishedCall) throws(HandlerError)
    {
        if unfinished.isInvalidation { try cancelWaits(of: id) }
    }

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        try dropJournal(of: id)
    }

    func canceling(_ rows: String, _ values: [any SQLConvertible]) throws(HandlerError) {
        try freeKeys(ofWaitsOf: rows, values)
    }

    /// Removes the journal of a workflow that has ended, and cancels what it waits for.
    private func dropJournal(of workflow: AnyHandlerID) throws(HandlerError) {
        try cancelWaits(of: workflow)
        try connection.write("DELETE FROM journal WHERE handler = ?", [workflow])
    }

    /// Cancels what a workflow waits for that will never go on: it has ended, or its compensations are tried again.
    private func cancelWaits(of workflow: AnyHandlerID) throws(HandlerError) {
        let isWaiting = try connection.first("\(Self.openWaits) LIMIT 1", [workflow]) { _ in true }
        guard isWaiting == true else { return }
        try freeKeys(ofWaitsOf: "?", [workflow])
        try chains.cancelLater(
            "SELECT handler FROM join_child WHERE parent IN (\(Self.openWaits))", workflow)
        try chains.cancelLater(Self.openWaits, workflow)
    }

    private static let openWaits =
        "SELECT waiter FROM journal WHERE handler = ? AND value IS NULL AND error IS NULL"

    /// The most handlers that are ended in the step in which a workflow is invalidated that waits for them.
    private static let mostEnded = 200

    /// Ends what a workflow waits for. No process calls any of it from here on, or can end it.
    ///
    /// At most ``mostEnded`` have ended after this. A runner invalidates the others, and those that need an environment that is not here.
    private func endWaits(of workflow: AnyHandlerID, _ invalidation: Invalidation) throws {
        let waiters = try connection.all("\(Self.openWaits) LIMIT ?", [workflow, Self.mostEnded]) {
            $0.optionalInteger(0).map(AnyHandlerID.init(rawValue:))
        }.compactMap(\.self)
        if waiters.isEmpty { return }
        var awaited: [AnyHandlerID] = []
        for waiter in waiters where awaited.count < Self.mostEnded {
            awaited += try connection.all(
                "SELECT handler FROM join_child WHERE parent = ? ORDER BY position LIMIT ?",
                [waiter, Self.mostEnded - awaited.count]
            ) { AnyHandlerID(rawValue: $0.integer(0)) }
        }
        try cancelWaits(of: workflow)
        // Deep in other handlers there is no room to run what is bound for their invalidation.
        if transaction.isDeep { return }
        for handler in waiters + awaited { try endWait(handler, invalidation.environment) }
    }

    /// Invalidates a handler that was canceled, as a runner would.
    private func endWait(_ id: AnyHandlerID, _ environment: (any HandlerEnvironment)?) throws {
        let canceled = try connection.first("SELECT call, scope FROM handler WHERE id = ?", [id]) {
            (call: $0.isNull(0) ? nil : $0.blob(0), scope: $0.optionalText(1).map { HandlerScope($0) })
        }
        let own = canceled?.scope == nil ? nil : environment
        guard let canceled, let bytes = canceled.call, canceled.scope == own?.scope,
            let call = try? StoredCall(bytes, of: id), let reason = call.reason
        else { return }
        _ = try invalidations.invalidate(
            id, call.outcome, reason: reason, overrides: call.overrides ?? Record(), environment: own)
    }

    /// Frees the keys for which workflows wait that will never go on, before a runner ends these waits: another workflow may wait for the
    /// same signal at once.
    ///
    /// - Parameter workflows: Selects their rows; handlers that are no workflows have no waits.
    private func freeKeys(ofWaitsOf workflows: String, _ values: [any SQLConvertible]) throws(HandlerError) {
        try connection.write(
            """
            DELETE FROM handler_key WHERE handler IN (SELECT waiter FROM journal WHERE value IS NULL AND error IS NULL
                AND handler IN (\(workflows)))
            """, values)
    }
}

extension TransactionTable {
    var journals: Journals { Journals(transaction: transaction) }
}

/// What the journal of a workflow holds at one place.
struct FlowEntry {
    let operation: Name
    /// The value, as JSON, empty for none; nil while it waits, and when it failed.
    var value: [UInt8]?
    var error: StoredReason?
    let at: Timestamp

    var isOpen: Bool { value == nil && error == nil }
}

extension ReadableStore where Self: ~Copyable {
    func journal(of workflow: AnyHandlerID) throws(HandlerError) -> [FlowEntry] {
        try all(
            "SELECT operation, value, error, at FROM journal WHERE handler = ? ORDER BY position", workflow,
            read: FlowEntry.init)
    }

    func entry(at place: FlowPlace) throws(HandlerError) -> FlowEntry? {
        try first(
            "SELECT operation, value, error, at FROM journal WHERE handler = ? AND position = ?",
            place.workflow, place.position, read: FlowEntry.init)
    }
}

extension FlowEntry {
    fileprivate init(_ row: borrowing Row) {
        self.init(
            operation: row.foreignText(0), value: row.isNull(1) ? nil : row.blob(1),
            error: row.optionalText(2).map { StoredReason($0) },
            at: row.timestamp(3))
    }
}
