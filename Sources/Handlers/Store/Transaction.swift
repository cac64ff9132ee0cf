/// The open transaction behind a ``Step`` and every ``Call`` in it.
package final class Transaction {
    let connection: Connection
    let registry: HandlerRegistry
    let now: Int64
    var afterCommit: [() -> Void] = []
    /// The error of a nested handler; the part of the step that ran it cannot succeed any more.
    private(set) var nestedFailure: (any Error)?
    /// How many handlers are running, each called by the one before it.
    private var depth = 0
    /// Far above what is meant, far below what a thread's stack holds.
    private static let maximumDepth = 32

    init(connection: Connection, registry: HandlerRegistry, now: Int64) {
        self.connection = connection
        self.registry = registry
        self.now = now
    }

    enum Kind: Int64 {
        case once = 0
        case standing = 1
    }

    enum State: Int64 {
        case pending = 0
        case parked = 1
        case quarantined = 2
    }

    // MARK: Binding

    func bind<Context>(
        _ handler: Durable<Context>, orElse: Durable<Invalidation>?, kind: Kind
    ) throws(HandlerError) -> HandlerID {
        let alternative: [UInt8]?
        do {
            alternative = try orElse.map { try [UInt8](ArgumentCoding.encoder().encode($0)) }
        } catch {
            throw HandlerError(
                .argumentNotEncodable,
                "the invalidation '\(orElse?.name ?? "")' cannot be stored: \(plainReason(error))",
                cause: error)
        }
        try connection.execute(
            "INSERT INTO handler(name, version, arguments, or_else, kind, bound_at) VALUES (?, ?, ?, ?, ?, ?)",
            [handler.name, handler.version, handler.arguments, alternative, kind.rawValue, now])
        return HandlerID(rawValue: connection.lastInsertedRow)
    }

    // MARK: Nested handlers

    /// Runs a handler inside the one that runs now, in its savepoint.
    func run<Context: Sendable>(_ handler: Durable<Context>, context: Context) throws {
        let nested = StoredHandler(
            name: handler.name, version: handler.version, arguments: handler.arguments)
        do {
            try goingDeeper {
                try definition(of: nested).invoke(
                    nested, overrides: Record(), context: context, transaction: self)
            }
        } catch {
            nestedFailure = nestedFailure ?? error
            throw error
        }
    }

    // MARK: Undoing a part

    /// Runs `body` in a savepoint and undoes what it wrote when it throws. These may stand in one another.
    func undoingOnError(_ body: () throws -> Void) throws {
        try connection.savepoint()
        let outerFailure = nestedFailure
        nestedFailure = nil
        defer { nestedFailure = outerFailure }
        let actions = afterCommit.count
        do {
            try body()
            if let nestedFailure { throw nestedFailure }
            try connection.release()
        } catch {
            // Left open, the savepoint would be taken for that of the handler around it. Where the store failed there
            // is nothing to undo: the step cannot commit any more.
            if connection.isUsable { try connection.undo() }
            afterCommit.removeSubrange(actions...)
            // The inner handler's own error decides what becomes of the outer one, however that one worded it.
            throw nestedFailure ?? error
        }
    }

    /// ``undoingOnError(_:)`` for work that must not spoil the commit of what shares its step.
    func undoingCommand(_ body: () throws -> Void) throws {
        try undoingOnError { try checkingForeignKeys(body) }
    }

    // MARK: Ending

    func end(
        _ id: HandlerID, _ outcome: Outcome, context: any Sendable, overrides: Record, input: () -> [UInt8]
    ) throws -> Disposition {
        try attempt {
            try take(id, "SELECT name, version, arguments, NULL FROM handler WHERE id = ? AND kind = 0")
        } run: { stored in
            try Failpoint.beforeHandler.hit()
            try definition(of: stored).invoke(
                stored, overrides: overrides, context: context, transaction: self)
            try bury(id, name: stored.name, outcome, nil)
            try Failpoint.afterHandler.hit()
        } setAside: { aside in
            try keep(id, aside, input: input())
        }
    }

    func invalidate(
        _ id: HandlerID, reason: InvalidationReason, environment: (any Sendable)?
    ) throws -> Disposition {
        try attempt {
            try take(id, "SELECT name, version, arguments, or_else FROM handler WHERE id = ?")
        } run: { stored in
            try Failpoint.beforeInvalidation.hit()
            if let bytes = stored.orElse {
                let orElse = try ArgumentCoding.durable(bytes, of: stored.name)
                let context = Invalidation(reason: reason, handler: stored.name, environment: environment)
                try definition(of: orElse).invoke(
                    orElse, overrides: Record(), context: context, transaction: self)
            }
            try bury(id, name: stored.name, .invalidated, reason)
        } setAside: { aside in
            try keep(id, aside, input: nil)
        }
    }

    func callStanding(
        _ id: HandlerID, context: any Sendable, overrides: Record, input: () -> [UInt8]
    ) throws -> Disposition {
        try attempt {
            try read(id, "SELECT name, version, arguments, NULL FROM handler WHERE id = ? AND kind = 1")
        } run: { stored in
            try Failpoint.beforeHandler.hit()
            try definition(of: stored).invoke(
                stored, overrides: overrides, context: context, transaction: self)
            try Failpoint.afterHandler.hit()
        } setAside: { aside in
            // The handler goes on with the next event; this one call waits in a row of its own.
            try connection.execute(
                """
                INSERT INTO handler(name, version, arguments, kind, state, attempts, reason, input, bound_at)
                SELECT name, version, arguments, 0, ?, ?, ?, ?, ? FROM handler WHERE id = ?
                """,
                [aside.state.rawValue, aside.attempts, aside.reason, input(), now, id])
        }
    }

    /// Takes a row and runs it; when that fails for the handler's sake, undoes it and sets it aside.
    ///
    /// To the caller goes what no handler is to blame for: the row is not there, or the store failed.
    private func attempt(
        take: () throws -> StoredHandler, run: (StoredHandler) throws -> Void,
        setAside: (SetAside) throws -> Void
    ) throws -> Disposition {
        var isTaken = false
        do {
            try undoingOnError {
                let stored = try take()
                isTaken = true
                try goingDeeper { try checkingForeignKeys { try run(stored) } }
            }
            return .ended
        } catch let error where !isTaken || !connection.isUsable {
            throw error
        } catch {
            let aside = SetAside(error)
            try setAside(aside)
            return aside.disposition
        }
    }

    /// Runs a handler, unless those that run now are too many already.
    private func goingDeeper(_ body: () throws -> Void) throws {
        guard depth < Self.maximumDepth else {
            throw HandlerError(
                .nestedTooDeep,
                "handlers called each other \(Self.maximumDepth) deep; bind a new handler instead of calling on"
            )
        }
        depth += 1
        defer { depth -= 1 }
        try body()
    }

    /// Refuses what a handler leaves behind that only the commit would find: that would undo the whole step, and the
    /// same event would fail again for ever.
    private func checkingForeignKeys(_ body: () throws -> Void) throws {
        let unresolvedBefore = connection.hasUnresolvedForeignKeys
        try body()
        guard unresolvedBefore || !connection.hasUnresolvedForeignKeys else {
            throw HandlerError(
                .sql, "the handler left a row whose foreign key leads nowhere; write the other row too")
        }
    }

    func ending(of id: HandlerID) throws(HandlerError) -> Ending? {
        try connection.first("SELECT name, outcome, reason, ended_at FROM ending WHERE handler = ?", [id]) {
            (row) throws(HandlerError) in
            guard let outcome = Outcome(rawValue: row.integer(1)) else {
                throw HandlerError(
                    .databaseNewer,
                    "the handler \(id) ended in a way this program does not know (\(row.integer(1))); update the program"
                )
            }
            return Ending(
                handler: id, name: row.text(0), outcome: outcome,
                reason: row.optionalText(2).map(InvalidationReason.init(rawValue:)), endedAt: row.integer(3))
        }
    }

    // MARK: Rows

    /// Removes a row and returns it. The step holds the write lock, so nobody else can take it in between.
    private func take(_ id: HandlerID, _ query: String) throws(HandlerError) -> StoredHandler {
        let stored = try read(id, query)
        // Two plain statements cost half of one DELETE … RETURNING, which builds a table for its result.
        let deleted = try connection.execute("DELETE FROM handler WHERE id = ?", [id])
        guard deleted == 1 else { throw try noSuchHandler(id) }
        return stored
    }

    private func read(_ id: HandlerID, _ query: String) throws(HandlerError) -> StoredHandler {
        let stored = try connection.first(query, [id]) { (row) throws(HandlerError) in
            StoredHandler(
                name: row.text(0), version: Int(row.integer(1)), arguments: row.blob(2),
                orElse: row.isNull(3) ? nil : row.blob(3))
        }
        guard let stored else { throw try noSuchHandler(id) }
        return stored
    }

    /// Keeps a handler that could not run, with what arrived for it.
    private func keep(_ id: HandlerID, _ aside: SetAside, input: [UInt8]?) throws(HandlerError) {
        let changed = try connection.execute(
            "UPDATE handler SET state = ?, reason = ?, input = coalesce(?, input), attempts = attempts + ? WHERE id = ?",
            [aside.state.rawValue, aside.reason, input, aside.attempts, id])
        // It was taken and that was undone: a row that is not there now would be a handler lost.
        guard changed == 1 else { throw try noSuchHandler(id) }
    }

    private func bury(
        _ id: HandlerID, name: String, _ outcome: Outcome, _ reason: InvalidationReason?
    ) throws(HandlerError) {
        // The primary key refuses a second ending of one handler.
        try connection.execute(
            "INSERT INTO ending(handler, name, outcome, reason, ended_at) VALUES (?, ?, ?, ?, ?)",
            [id, name, outcome.rawValue, reason?.rawValue, now])
    }

    private func definition(of stored: StoredHandler) throws(HandlerError) -> Definition {
        guard let definition = registry.definition(named: stored.name) else {
            throw HandlerError(
                .unknownHandler,
                "no handler named '\(stored.name)' is registered in this program; its row is kept until a program that has it starts"
            )
        }
        guard stored.version <= definition.version else {
            throw HandlerError(
                .newerVersion,
                "the handler '\(stored.name)' was bound in version \(stored.version), but this program has version \(definition.version); its row is kept until a newer program starts"
            )
        }
        return definition
    }

    private func noSuchHandler(_ id: HandlerID) throws(HandlerError) -> HandlerError {
        let kind = try connection.first("SELECT kind FROM handler WHERE id = ?", [id]) { $0.integer(0) }
        let sentence =
            switch kind {
            case nil: "the handler \(id) has ended or never existed; it cannot be called again"
            case Kind.standing.rawValue:
                "the handler \(id) is a standing one; call it, or invalidate it to remove it"
            default: "the handler \(id) is not a standing one; end it"
            }
        return HandlerError(.noSuchHandler, sentence)
    }
}

/// Where a handler goes that could not run.
private struct SetAside {
    let state: Transaction.State
    let reason: String
    /// What the row's count of attempts grows by: a handler that is not known was not attempted.
    var attempts: Int { state == .quarantined ? 1 : 0 }

    init(_ error: any Error) {
        let code = (error as? HandlerError)?.code
        state = code == .unknownHandler || code == .newerVersion ? .parked : .quarantined
        reason = plainReason(error)
    }

    var disposition: Disposition {
        state == .parked ? .parked(reason: reason) : .quarantined(reason: reason)
    }
}
