/// The open transaction behind a ``Step`` and every ``Call`` in it.
package final class Transaction {
    let connection: Connection
    let registry: HandlerRegistry
    let now: Int64
    var afterCommit: [() -> Void] = []
    /// The error of a nested handler; the part of the step that ran it cannot succeed any more.
    private(set) var nestedFailure: (any Error)?

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
            try definition(of: nested).invoke(
                nested, overrides: Record(), context: context, transaction: self)
        } catch {
            nestedFailure = nestedFailure ?? error
            throw error
        }
    }

    // MARK: Ending

    func end(
        _ id: HandlerID, _ outcome: Outcome, context: any Sendable, overrides: Record, input: () -> [UInt8]
    ) throws -> Disposition {
        try attempt(id, input: input) {
            let stored = try take(id)
            try Failpoint.beforeHandler.hit()
            try definition(of: stored).invoke(
                stored, overrides: overrides, context: context, transaction: self)
            try bury(id, name: stored.name, outcome, nil)
            try Failpoint.afterHandler.hit()
        }
    }

    func invalidate(
        _ id: HandlerID, reason: InvalidationReason, environment: (any Sendable)?
    ) throws -> Disposition {
        try attempt(id, input: { [] }) {
            let alternative = try connection.first("SELECT or_else FROM handler WHERE id = ?", [id]) {
                (row) throws(HandlerError) in row.isNull(0) ? nil : row.blob(0)
            }
            let stored = try take(id)
            try Failpoint.beforeInvalidation.hit()
            if case .some(.some(let bytes)) = alternative {
                let orElse = try ArgumentCoding.durable(bytes, of: stored.name)
                let context = Invalidation(reason: reason, handler: stored.name, environment: environment)
                try definition(of: orElse).invoke(
                    orElse, overrides: Record(), context: context, transaction: self)
            }
            try bury(id, name: stored.name, .invalidated, reason)
        }
    }

    /// Runs `body`; when it fails for the handler's sake, undoes it and sets the handler aside.
    private func attempt(_ id: HandlerID, input: () -> [UInt8], _ body: () throws -> Void) throws
        -> Disposition
    {
        do {
            try undoingOnError(body)
            return .ended
        } catch let error where isForTheCaller(error) {
            throw error
        } catch {
            let aside = SetAside(error)
            try connection.execute(
                "UPDATE handler SET state = ?, reason = ?, input = ?, attempts = attempts + ? WHERE id = ?",
                [aside.state.rawValue, aside.reason, input(), aside.state == .quarantined ? 1 : 0, id])
            return aside.disposition
        }
    }

    func undoingOnError(_ body: () throws -> Void) throws {
        try connection.execute("SAVEPOINT nested")
        let outerFailure = nestedFailure
        nestedFailure = nil
        defer { nestedFailure = outerFailure }
        do {
            try body()
            if let nestedFailure { throw nestedFailure }
            try connection.execute("RELEASE nested")
        } catch {
            if connection.isInTransaction {
                try connection.execute("ROLLBACK TO nested")
                try connection.execute("RELEASE nested")
            }
            // The inner handler's own error decides what becomes of the outer one, however that one worded it.
            throw nestedFailure ?? error
        }
    }

    func callStanding(
        _ id: HandlerID, context: any Sendable, overrides: Record, input: () -> [UInt8]
    ) throws -> Disposition {
        do {
            try undoingOnError {
                let stored = try connection.first(
                    "SELECT name, version, arguments FROM handler WHERE id = ? AND kind = 1", [id], read)
                guard let stored else { throw Self.noSuchHandler(id) }
                try Failpoint.beforeHandler.hit()
                try definition(of: stored).invoke(
                    stored, overrides: overrides, context: context, transaction: self)
                try Failpoint.afterHandler.hit()
            }
            return .ended
        } catch let error where isForTheCaller(error) {
            throw error
        } catch {
            let aside = SetAside(error)
            // The handler goes on with the next event; this one call waits in a row of its own.
            try connection.execute(
                """
                INSERT INTO handler(name, version, arguments, kind, state, attempts, reason, input, bound_at)
                SELECT name, version, arguments, 0, ?, ?, ?, ?, ? FROM handler WHERE id = ?
                """,
                [aside.state.rawValue, aside.state == .quarantined ? 1 : 0, aside.reason, input(), now, id])
            return aside.disposition
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

    /// Removes a pending row and returns it: the same statement proves that it had not ended.
    private func take(_ id: HandlerID) throws(HandlerError) -> StoredHandler {
        let stored = try connection.first(
            "DELETE FROM handler WHERE id = ? AND kind = 0 RETURNING name, version, arguments", [id], read)
        guard let stored else { throw Self.noSuchHandler(id) }
        return stored
    }

    private func bury(
        _ id: HandlerID, name: String, _ outcome: Outcome, _ reason: InvalidationReason?
    ) throws(HandlerError) {
        // The primary key refuses a second ending of one handler.
        try connection.execute(
            "INSERT INTO ending(handler, name, outcome, reason, ended_at) VALUES (?, ?, ?, ?, ?)",
            [id, name, outcome.rawValue, reason?.rawValue, now])
    }

    private func read(_ row: borrowing Row) throws(HandlerError) -> StoredHandler {
        StoredHandler(name: row.text(0), version: Int(row.integer(1)), arguments: row.blob(2))
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

    /// Errors that no handler is to blame for: the store failed, or the caller named a row that is not there.
    private func isForTheCaller(_ error: any Error) -> Bool {
        guard connection.isInTransaction else { return true }
        guard let error = error as? HandlerError else { return false }
        return error.isStorageFailure || error.code == .noSuchHandler
    }

    private static func noSuchHandler(_ id: HandlerID) -> HandlerError {
        HandlerError(
            .noSuchHandler, "the handler \(id) has ended or never existed; it cannot be called again")
    }
}

/// Where a handler goes that could not run.
private struct SetAside {
    let state: Transaction.State
    let reason: String

    init(_ error: any Error) {
        let code = (error as? HandlerError)?.code
        state = code == .unknownHandler || code == .newerVersion ? .parked : .quarantined
        reason = plainReason(error)
    }

    var disposition: Disposition {
        state == .parked ? .parked(reason: reason) : .quarantined(reason: reason)
    }
}
