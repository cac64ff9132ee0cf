/// Rows that this process runs under a lease.
struct Leases: TransactionTable {
    let transaction: Transaction

    /// Takes a row for this process: the attempt is counted and committed before the handler runs.
    ///
    /// - Returns: Nil when the row was quarantined or parked instead.
    func claim(
        _ row: DueRow, _ call: StoredCall, for store: HandlerStore, environment: (any HandlerEnvironment)?
    ) throws -> Lease? {
        var lease: Lease?
        _ = try calls.attempt(
            call, nil,
            claim: { try handlers.read(row.id, .any) },
            run: { stored, input in
                let definition = try calls.definition(of: stored)
                let context = try dueRows.context(of: row, definition, environment)
                input = context
                try calls.refuseCulprit(stored, definition, context)
                let epoch = try lend(row, context)
                lease = Lease(
                    handler: row.id, attempt: stored.attempts + 1, epoch: epoch, startedAt: now,
                    idempotencyKey: try idempotencyKey(of: row.id), stored: stored, call: call,
                    context: context, store: store)
                return nil
            })
        return lease
    }

    // Made once: a statement is found by its text, soonest by its address.
    private static let lendRow = """
        UPDATE handler SET state = \(State.leased.sql), due = NULL, lease = ?, epoch = epoch + 1,
            attempts = attempts + 1, input = coalesce(input, ?), leased_at = ?
        WHERE id = ?
        """
    static let selectLeased =
        "SELECT relations FROM handler WHERE id = ? AND state = \(State.leased.sql) AND epoch = ?"

    /// Marks a row as run by this process and returns its new epoch.
    private func lend(_ row: DueRow, _ context: any Sendable) throws -> Int64 {
        // What a timer is called with is not kept while it waits; from here on its due time is gone.
        let input = row.input == nil ? try (context as? any RestorableContext)?.storedBytes() : nil
        try connection.execute(Self.lendRow, [transaction.slot.number, input, now, row.id])
        if BuiltInFault.shareLease.isOn {
            try handlers.setDue(row.id, now)
        }
        return try connection.first("SELECT epoch FROM handler WHERE id = ?", [row.id]) { $0.integer(0) } ?? 0
    }

    /// What the store was called when the handler was bound, for the ids of a copy go on where those of the original did; and
    /// when that was, for a backup that is written over the database lies in the same file, which does not show it.
    func idempotencyKey(of id: AnyHandlerID) throws(HandlerError) -> String {
        try connection.first(
            """
            SELECT identity.name || '-' || handler.id || '-' || handler.bound_at FROM handler, identity
            WHERE handler.id = ?1 AND identity.newest < ?1 ORDER BY identity.newest DESC LIMIT 1
            """, [id]
        ) { $0.text(0) } ?? ""
    }

    /// Ends a leased handler together with its effects.
    func close<R>(
        _ lease: Lease, returning result: [UInt8]?, _ effects: (borrowing Step) throws -> R
    ) throws -> R {
        let relations = try connection.first(Self.selectLeased, [lease.handler, lease.epoch]) {
            Relations(rawValue: $0.integer(0))
        }
        guard let relations else { throw lease.lost() }
        count(.ran(now - lease.startedAt), lease.stored.name)
        try handlers.delete(lease.handler)
        let key = relations.contains(.keyed) ? try handlers.takeKey(of: lease.handler) : nil
        let stored = lease.stored.with(relations, key: key)
        // A handler that ran inside it left word of this one; the lease says the same.
        defer { transaction.slot.clearRunningCall() }
        return try transaction.calling(stored) {
            let value = try effects(Step(transaction))
            try handlers.bury(lease.handler, stored, lease.call.outcome, nil, result)
            return value
        }
    }

    /// Sets a leased handler aside that threw.
    func fail(_ lease: Lease, _ error: any Error) throws {
        guard try holds(lease) else { return }
        // Its relations may be others than when it was taken.
        let stored = lease.stored.with(
            try handlers.relations(of: lease.handler) ?? lease.stored.relations, key: lease.stored.key)
        var unfinished = UnfinishedCall(
            .failed(error), stored, lease.call, context: lease.context, isStored: true,
            retry: registry.definition(named: lease.stored.name)?.retry, now: now)
        unfinished.run = now - lease.startedAt
        count(.ran(now - lease.startedAt), lease.stored.name)
        try Failpoint.beforeQuarantine.hit()
        try calls.store(&unfinished, of: stored)
        calls.count(unfinished, stored)
    }

    /// Gives a leased handler back uncalled: this process is about to leave.
    func giveBack(_ lease: Lease) throws(HandlerError) {
        guard try holds(lease) else { return }
        try connection.execute(
            "UPDATE handler SET state = \(State.pending.sql), due = ?, lease = NULL, attempts = ? WHERE id = ?",
            [now, lease.stored.attempts, lease.handler])
        transaction.newDue.isAnywhere = true
    }

    /// The epochs of the leases of this process.
    func held() throws(HandlerError) -> [AnyHandlerID: Int64] {
        let held = try connection.all(
            "SELECT id, epoch FROM handler WHERE \(State.leased.condition) AND lease = ?",
            [transaction.slot.number]
        ) { (id: AnyHandlerID(rawValue: $0.integer(0)), epoch: $0.integer(1)) }
        return Dictionary(uniqueKeysWithValues: held.map { ($0.id, $0.epoch) })
    }

    private func holds(_ lease: Lease) throws(HandlerError) -> Bool {
        try connection.first(
            "SELECT 1 FROM handler WHERE id = ? AND state = \(State.leased.sql) AND epoch = ?",
            [lease.handler, lease.epoch]
        ) { _ in true } ?? false
    }
}
