/// Workflows and their journals.
struct Journals: HandlerFeature {
    static let relations: Relations = [.workflow, .awaitedByFlow]
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
                guard case .workflow(let start) = definition.body, calls.canRunHere(definition) else {
                    return Caller(definition)
                }
                try Failpoint.beforeHandler.hit()
                try calls.marking(stored, context) {
                    try transaction.timing(stored) {
                        let invocation = Invocation(
                            stored: stored, overrides: call.overrides ?? Record(), context: context)
                        let held =
                            try connection.keptRuns.take(row.id, afterCall: row.epoch) as? HeldRun
                            ?? HeldRun(start(invocation, transaction))
                        try withExtendedLifetime(held) {
                            let end = try held.run.drive(in: transaction)
                            if case .again(let next) = end {
                                let last = held.run.state.withLock { $0.position }
                                try startAgain(row, as: next, at: last)
                            } else if try settle(stored, row, call, context, environment, end),
                                held.run.suspends
                            {
                                keep(held, afterCall: row.epoch + 1)
                            }
                        }
                    }
                }
                try Failpoint.afterHandler.hit()
                return nil
            })
    }

    /// Keeps a run, from the commit on. Where this is undone, or the step does not commit, nothing keeps it, and it is dropped.
    private func keep(_ held: HeldRun, afterCall call: Int64) {
        transaction.afterCommit.append { [runs = connection.keptRuns] in
            runs.keep(held, ofSize: held.run.size, of: held.run.workflow, afterCall: call)
        }
    }

    /// Stores what becomes of the workflow.
    ///
    /// - Returns: Whether its function goes on later.
    private func settle(
        _ stored: StoredHandler, _ row: DueRow, _ call: StoredCall, _ context: any Sendable,
        _ environment: (any HandlerEnvironment)?, _ end: FlowRun.End
    ) throws -> Bool {
        // It has ended or replaced itself.
        guard try handlers.relations(of: row.id) != nil else {
            try dropJournal(of: row.id)
            return false
        }
        switch end {
        case .waits, .goesOn:
            var due: Timestamp?
            if case .goesOn = end { due = now }
            // What it was started with stays the same in all runs. What failed before this does not count.
            let input = row.input == nil ? try (context as? any RestorableContext)?.storedBytes() : nil
            // Not one that something in this run has canceled: a runner invalidates it.
            return try connection.execute(
                """
                UPDATE handler SET due = ?, input = coalesce(input, ?), attempts = 0, deaths = 0, reason = NULL,
                    epoch = epoch + 1
                WHERE id = ? AND call = ?
                """, [due, input, row.id, row.call]) == 1
        case .ended(let result):
            let claimed = try handlers.claim(row.id, .oncePending)
            try handlers.bury(row.id, claimed, call.outcome, nil, result)
        case .again: break
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
        return false
    }

    // MARK: The journal

    func write(
        _ entry: FlowEntry, at place: FlowPlace, waiter: AnyHandlerID?
    ) throws(HandlerError) {
        try connection.write(
            """
            INSERT INTO journal(handler, position, operation, waiter, value, error, at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [
                place.workflow, place.position, entry.operation, waiter, entry.value, entry.error, entry.at,
            ])
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
            UPDATE journal SET value = ?1, error = ?2, at = ?3,
                delivery = (SELECT coalesce(max(delivery), 0) + 1 FROM journal WHERE handler = ?4 AND delivery >= 0)
            WHERE handler = ?4 AND position = ?5 AND value IS NULL AND error IS NULL
            """, [value, error, now, place.workflow, place.position])
        guard changed == 1 else { return }
        transaction.features.filled.insert(place.workflow)
        try wake(place.workflow)
    }

    /// Takes a place that was filled where the workflow came to it out of the order of results.
    func passAtOnce(_ place: FlowPlace) throws(HandlerError) {
        try connection.write(
            "UPDATE journal SET delivery = NULL WHERE handler = ? AND position = ?",
            [place.workflow, place.position])
    }

    /// Ends the wait for a place whose task was canceled, and cancels what it waits for.
    ///
    /// - Returns: False when the place is filled.
    func cancel(_ place: FlowPlace) throws(HandlerError) -> Bool {
        let values: [any SQLConvertible] = [place.workflow, place.position]
        let changed = try connection.execute(
            """
            UPDATE journal SET error = 'canceled', at = ?, delivery = 0
            WHERE handler = ? AND position = ? AND value IS NULL AND error IS NULL
            """, [now] + values)
        guard changed == 1 else { return false }
        guard let waiter = try waiter(of: place) else { return true }
        try connection.write("DELETE FROM handler_key WHERE handler = ?", [waiter])
        try chains.cancelLater("SELECT CAST(? AS BIGINT)", waiter)
        return true
    }

    private func wake(_ workflow: AnyHandlerID) throws(HandlerError) {
        let changed = try connection.execute(
            "UPDATE handler SET due = ? WHERE id = ? AND state = \(State.pending.sql) AND due IS NULL",
            [now, workflow])
        guard changed == 1 else { return }
        transaction.newDue.woken += 1
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
        if unfinished.isInvalidation, stored.relations.contains(.workflow) { try cancelWaits(of: id) }
    }

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        if stored.relations.contains(.workflow) { try dropJournal(of: id) }
        if stored.relations.contains(.awaitedByFlow) { try childEnded(id) }
    }

    /// Fills the place of the workflow that has run a handler; one that does not wait any more has none.
    private func childEnded(_ child: AnyHandlerID) throws(HandlerError) {
        let place = try connection.first(
            "SELECT handler, position FROM journal WHERE waiter = ? AND value IS NULL AND error IS NULL",
            [child]
        ) { FlowPlace(workflow: AnyHandlerID(rawValue: $0.integer(0)), position: Int($0.integer(1))) }
        guard let place, let ended = try Step(transaction).endedChild(child) else { return }
        try resolve(place, ArgumentCoding.encode(ended, named: "the handler that a workflow has run"))
    }

    func canceling(_ rows: String, _ values: [any SQLConvertible]) throws(HandlerError) {
        try freeKeys(ofWaitsOf: rows, values)
    }

    /// Removes the journal of a workflow that has ended, and cancels what it waits for.
    private func dropJournal(of workflow: AnyHandlerID) throws(HandlerError) {
        transaction.afterCommit.append { [runs = connection.keptRuns] in runs.drop(workflow) }
        try cancelWaits(of: workflow)
        try connection.write("DELETE FROM journal WHERE handler = ?", [workflow])
    }

    /// Cancels what a workflow waits for that will never go on: it has ended, or its compensations are tried again.
    func cancelWaits(of workflow: AnyHandlerID) throws(HandlerError) {
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
    /// The number of the result in the order in which results came; nil while it waits, and for one that was there at once. 0 for a wait
    /// that the workflow has canceled.
    var delivery: Int64?

    var isOpen: Bool { value == nil && error == nil }
}

/// A place that was filled, as the workflow learns of it.
struct FlowResult {
    /// The maximum number that is read at once.
    static let limit = 500

    let delivery: Int64
    let position: Int
    let entry: FlowEntry
}

extension ReadableStore where Self: ~Copyable {
    /// The journal of a workflow since it has started again, and its first place.
    func journal(of workflow: AnyHandlerID) throws(HandlerError) -> (base: Int, entries: [FlowEntry]) {
        var base = 0
        var entries: [FlowEntry] = []
        _ = try all(
            """
            SELECT operation, value, error, at, delivery, position FROM journal WHERE handler = ?
            ORDER BY position
            """, workflow
        ) { row in
            let entry = FlowEntry(row)
            if entry.operation == Journals.again {
                (base, entries) = (Int(row.integer(5)) + 1, [])
            } else {
                entries.append(entry)
            }
        }
        return (base, entries)
    }

    func entry(at place: FlowPlace) throws(HandlerError) -> FlowEntry? {
        try first(
            "SELECT operation, value, error, at, delivery FROM journal WHERE handler = ? AND position = ?",
            place.workflow, place.position, read: FlowEntry.init)
    }

    /// The next results of a workflow, in the order in which they came.
    func results(of workflow: AnyHandlerID, after delivery: Int64) throws(HandlerError) -> [FlowResult] {
        try all(
            """
            SELECT operation, value, error, at, delivery, position FROM journal WHERE handler = ? AND delivery > ?
            ORDER BY delivery LIMIT ?
            """, workflow, delivery, FlowResult.limit
        ) { row in
            FlowResult(delivery: row.integer(4), position: Int(row.integer(5)), entry: FlowEntry(row))
        }
    }
}

extension FlowEntry {
    fileprivate init(_ row: borrowing Row) {
        self.init(
            operation: row.foreignText(0), value: row.isNull(1) ? nil : row.blob(1),
            error: row.optionalText(2).map { StoredReason($0) },
            at: row.timestamp(3), delivery: row.optionalInteger(4))
    }
}
