import Synchronization

/// The right of one process to run an async handler and to end it: a row in the state "leased" with an epoch.
///
/// The process that takes the row raises its epoch, so an earlier process finds that its own epoch is out of date.
final class Lease: Sendable {
    let handler: AnyHandlerID
    let attempt: Int
    let epoch: Int64
    let idempotencyKey: String
    let stored: StoredHandler
    let call: StoredCall
    let context: any Sendable
    private let store: HandlerStore
    /// Set while a closing step runs and after it succeeded.
    private let isClosed = Mutex(false)

    init(
        handler: AnyHandlerID, attempt: Int, epoch: Int64, idempotencyKey: String, stored: StoredHandler,
        call: StoredCall, context: any Sendable, store: HandlerStore
    ) {
        self.handler = handler
        self.attempt = attempt
        self.epoch = epoch
        self.idempotencyKey = idempotencyKey
        self.stored = stored
        self.call = call
        self.context = context
        self.store = store
    }

    /// Whether a closing step runs, or has succeeded.
    var hasEnded: Bool { isClosed.withLock { $0 } }

    /// Runs the handler to its end, whichever it is.
    ///
    /// - Parameter cause: Returns the error with which the attempt fails, from the one that was thrown.
    /// - Returns: What is still to be stored, because the store failed as well; else nil.
    func run(
        _ body: @Sendable (Invocation, Lease) async throws -> Void,
        failingWith cause: (any Error) -> any Error
    ) async -> Unsettled? {
        do {
            try await body(
                Invocation(stored: stored, overrides: call.overrides ?? Record(), context: context), self)
            if !isClosed.withLock({ $0 }) {
                // Who returns because it was canceled has not done what it was to do.
                try Task.checkCancellation()
                try close { _ in }
            }
        } catch  where isClosed.withLock({ $0 }) {
            // It has ended; what came after that changes nothing.
        } catch {
            return fail(cause(error))
        }
        return nil
    }

    private func fail(_ error: any Error) -> Unsettled? {
        // Somebody else runs it, or ended it.
        if (error as? HandlerError)?.code == .leaseLost { return nil }
        do {
            try store.step { try $0.transaction.fail(self, error) }
            return nil
        } catch let failure { return Unsettled(lease: self, error: error, failure: failure) }
    }

    /// Reads the store of the handler.
    func read<R>(_ body: (borrowing Snapshot) throws -> R) throws -> R { try store.read(body) }

    /// The closing step.
    ///
    /// - Parameter result: What the handler returns, as JSON; nil for nothing.
    func close<R>(returning result: [UInt8]? = nil, _ effects: (borrowing Step) throws -> R) throws -> R {
        guard
            isClosed.withLock({ isClosed in
                defer { isClosed = true }
                return !isClosed
            })
        else { throw lost("it has ended") }
        do {
            try Failpoint.beforeClosing.hit()
            return try store.step { try $0.transaction.close(self, returning: result, effects) }
        } catch {
            isClosed.withLock { $0 = false }
            throw error
        }
    }

    func lost(_ reason: String) -> HandlerError {
        HandlerError(
            .leaseLost,
            "the handler \(handler) ('\(stored.name)') cannot be ended here: \(reason); nothing was written")
    }
}

extension Transaction {
    /// Takes a row for this process: the attempt is counted and committed before the handler runs.
    ///
    /// - Returns: Nil when the row was quarantined or parked instead.
    func claim(
        _ row: DueRow, _ call: StoredCall, for store: HandlerStore, environment: (any HandlerEnvironment)?
    ) throws -> Lease? {
        var lease: Lease?
        _ = try attempt(
            call, nil,
            claim: { try handlers.read(row.id, .any) },
            run: { stored, input in
                let definition = try definition(of: stored)
                let context = try context(of: row, definition, environment)
                input = context
                try refuseCulprit(stored, definition, context)
                let epoch = try lend(row, context)
                lease = Lease(
                    handler: row.id, attempt: stored.attempts + 1, epoch: epoch,
                    idempotencyKey: try idempotencyKey(of: row.id), stored: stored, call: call,
                    context: context, store: store)
                return nil
            },
            storeUnfinished: { stored, unfinished in try keep(row.id, unfinished, stored) })
        return lease
    }

    // Made once: a statement is found by its text, soonest by its address.
    private static let lendRow = """
        UPDATE handler SET state = \(State.leased.sql), due = NULL, lease = ?, epoch = epoch + 1,
            attempts = attempts + 1, input = coalesce(input, ?)
        WHERE id = ?
        """
    private static let selectLeased =
        "SELECT relations FROM handler WHERE id = ? AND state = \(State.leased.sql) AND epoch = ?"

    /// Marks a row as run by this process and returns its new epoch.
    private func lend(_ row: DueRow, _ context: any Sendable) throws -> Int64 {
        // What a timer is called with is not kept while it waits; from here on its due time is gone.
        let input = row.input == nil ? try (context as? any RestorableContext)?.storedBytes() : nil
        try connection.execute(Self.lendRow, [slot.number, input, row.id])
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
        guard let relations else { throw lease.lost("another process runs it, or it was ended meanwhile") }
        try handlers.delete(lease.handler)
        let key = relations.contains(.keyed) ? try handlers.takeKey(of: lease.handler) : nil
        let stored = lease.stored.with(relations, key: key)
        calls.append(stored)
        defer {
            calls.removeLast()
            // A handler that ran inside it left word of this one; the lease says the same.
            slot.clearRunningCall()
        }
        let value = try effects(Step(self))
        try handlers.bury(lease.handler, stored, lease.call.outcome, nil, result)
        return value
    }

    /// Sets a leased handler aside that threw.
    func fail(_ lease: Lease, _ error: any Error) throws {
        guard try holds(lease) else { return }
        var unfinished = UnfinishedCall(
            .failed(error), lease.stored, lease.call, context: lease.context, isStored: true,
            retry: registry.definition(named: lease.stored.name)?.retry, now: now)
        try Failpoint.beforeQuarantine.hit()
        try store(&unfinished, of: lease.stored) { try keep(lease.handler, $0, lease.stored) }
    }

    /// Gives a leased handler back uncalled: this process is about to leave.
    func giveBack(_ lease: Lease) throws(HandlerError) {
        guard try holds(lease) else { return }
        try connection.execute(
            "UPDATE handler SET state = \(State.pending.sql), due = ?, lease = NULL, attempts = ? WHERE id = ?",
            [now, lease.stored.attempts, lease.handler])
        newDue.isAnywhere = true
    }

    /// The epochs of the leases of this process.
    func leases() throws(HandlerError) -> [AnyHandlerID: Int64] {
        let held = try connection.all(
            "SELECT id, epoch FROM handler WHERE \(State.leased.condition) AND lease = ?", [slot.number]
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

extension SQLConnection {
    /// Frees what a process that died had leased, and counts its death against what it ran; in a transaction of its own.
    ///
    /// - Returns: Whether there was anything.
    @discardableResult
    func recover(slot: Int, _ runningCall: RunningCall?, now: Timestamp) throws(HandlerError) -> Bool {
        let isHeld = try isHeld(slot: slot)
        guard isHeld || runningCall != nil, !BuiltInFault.keepLease.isOn else { return false }
        try freeing(slot) { () throws(HandlerError) in
            try execute(
                """
                UPDATE handler SET state = \(Transaction.State.pending.sql), due = ?, lease = NULL, deaths = deaths + 1
                WHERE \(Transaction.State.leased.condition) AND lease = ?
                """,
                [now, slot])
            if let runningCall { try count(runningCall) }
        }
        return true
    }

    /// Gives back what this process still holds when its store goes without anybody's death.
    func leave(slot: Int, now: Timestamp) throws(HandlerError) {
        guard try isHeld(slot: slot) else { return }
        try freeing(slot) { () throws(HandlerError) in
            try execute(
                """
                UPDATE handler SET state = \(Transaction.State.pending.sql), due = ?, lease = NULL
                WHERE \(Transaction.State.leased.condition) AND lease = ?
                """, [now, slot])
        }
    }

    /// Looks before anything is locked: most slots leave nothing.
    private func isHeld(slot: Int) throws(HandlerError) -> Bool {
        try firstOnce(
            """
            SELECT 1 FROM handler WHERE \(Transaction.State.leased.condition) AND lease = ?1
            UNION ALL SELECT 1 FROM connected_slot WHERE slot = ?1
            """, [slot]
        ) { _ in true } ?? false
    }

    private func freeing(_ slot: Int, _ body: () throws(HandlerError) -> Void) throws(HandlerError) {
        try begin()
        try rollingBackOnError { () throws(HandlerError) in
            try body()
            try execute("DELETE FROM connected_slot WHERE slot = ?", [slot])
            try commit()
        }
    }

    private func count(_ runningCall: RunningCall) throws(HandlerError) {
        let digest = Int64(bitPattern: runningCall.digest)
        // For a standing handler only deaths in the same call count together.
        try execute(
            """
            UPDATE handler SET
                deaths = CASE WHEN kind = \(Transaction.Kind.once.sql) OR culprit IS NOT DISTINCT FROM ?1
                    THEN deaths + 1 ELSE 1 END,
                attempts = attempts + CASE WHEN kind = \(Transaction.Kind.once.sql) THEN 1 ELSE 0 END,
                culprit = CASE WHEN kind = \(Transaction.Kind.standing.sql) THEN ?1 END
            WHERE id = ?2
            """, [digest, runningCall.handler])
    }
}

/// An async handler that failed, and the store with it.
struct Unsettled: Sendable {
    let lease: Lease
    /// The error of the handler.
    let error: any Error
    /// The error while that error was stored.
    let failure: any Error
}
