/// Loops without end: a workflow that starts again with an empty journal.
extension FlowRun {
    /// The numbers of operations at which the log has a warning, long before there are too many.
    static let warnings: Set<Int> = [maximumEntries / 2, maximumEntries * 9 / 10]

    /// The number of operations in the journal, this run's included.
    var operations: Int { state.withLock { $0.position - $0.base } }

    func warn(ofEntries count: Int) {
        transaction.log(.warning, .handlers) { [name, workflow] in
            "the workflow \(workflow) ('\(name)') has \(count) operations in its journal, of \(Self.maximumEntries) at most; let it go on with flow.again"
        }
    }

    /// Ends this run; nothing that its function does after this counts.
    func again(_ next: Durable<TimerFired>) throws -> Never {
        // Not where an operation would throw, too.
        guard executor.isDriven, state.withLock({ $0.stop == nil }) else { throw Stopped() }
        let registry = transaction.registry
        let own = registry.definition(named: name)?.id ?? name
        guard registry.definition(named: next.storedName)?.id ?? next.storedName == own else {
            throw HandlerError(
                .wrongArgument,
                "the workflow \(workflow) ('\(name)') cannot go on as '\(next.name)'; give flow.again the same workflow with other arguments, or start the other one with step.start"
            )
        }
        throw stop(.success(.again(next)))
    }
}

extension Journals {
    /// The operation at the place before the first one of a workflow that has started again.
    static let again: Name = "again"

    /// Starts a workflow again in its row: it keeps its id, its key, and the compensations of its journal.
    ///
    /// - Parameter last: The place after the last one of the journal.
    func startAgain(_ row: DueRow, as next: Durable<TimerFired>, at last: Int) throws(HandlerError) {
        let changed = try connection.execute(
            """
            UPDATE handler SET arguments = ?, version = ?, input = NULL, due = ?, attempts = 0, deaths = 0,
                reason = NULL, epoch = epoch + 1, relations = relations | ?
            WHERE id = ? AND call = ?
            """,
            [
                next.arguments, next.version, now,
                Relations([.workflow, .suspends]).rawValue, row.id, row.call,
            ])
        // Something in its run has canceled it: a runner invalidates it.
        guard changed == 1 else { return }
        try cancelWaits(of: row.id)
        try connection.write(
            "DELETE FROM journal WHERE handler = ? AND operation NOT LIKE 'compensate %'", [row.id])
        try write(
            FlowEntry(operation: Self.again, value: [], at: now),
            at: FlowPlace(workflow: row.id, position: last), waiter: nil)
        transaction.newDue.add(row.scope, wall: now)
    }
}
