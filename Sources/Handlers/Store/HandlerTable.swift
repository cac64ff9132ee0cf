/// The rows of bound handlers, and the keys of those that have one.
///
/// ```text
///   bind ──▶ row ──▶ claim ──▶ bury: the row of its ending
///             ▲        │
///             ╰────────╯ putBack, or undone
/// ```
struct HandlerTable: TransactionTable {
    let transaction: Transaction

    // MARK: Storing

    private static let plain = "name, version, arguments, or_else, kind, bound_at, trace"
    // Made once: a statement is found by its text, soonest by its address. The statement for plain handlers is the one that runs most.
    private static let insertPlain = "INSERT INTO handler(\(plain)) VALUES (?, ?, ?, ?, ?, ?, ?)"
    private static let insertAll = """
        INSERT INTO handler(\(plain), state, scope, lane, due, connected_due, period, attempts, call, input, reason,
            size, relations)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """

    /// Stores a row as it is.
    func insert(_ row: HandlerRow) throws(HandlerError) -> AnyHandlerID {
        AnyHandlerID(
            rawValue: row.isPlain
                ? try connection.insert(Self.insertPlain, row.plainValues(now))
                : try connection.insert(Self.insertAll, row.values(now)))
    }

    /// Stores a new handler with its key, and with what features add to it.
    ///
    /// - Parameter row: Lent, as a copy of it would cost more than the rest.
    func bind(_ row: inout HandlerRow) throws(HandlerError) -> AnyHandlerID {
        if transaction.mayBindInChain(row.kind) { row.relations.insert(.inChain) }
        try forEachFeature(of: row.relations) { (feature) throws(HandlerError) in
            try feature.prepare(&row)
        }
        if row.key != nil { row.relations.insert(.keyed) }
        let id = try insert(row)
        transaction.startChain(with: id)
        count(.bound, row.name)
        transaction.newDue.add(row.scope, wall: row.due)
        if let key = row.key { try give(key, to: id) }
        try forEachFeature(of: row.relations) { (feature) throws(HandlerError) in
            try feature.bound(id, row)
        }
        return id
    }

    func bind<Context>(
        _ handler: Durable<Context>, kind: Kind, timing: Timing = Timing(), key: String? = nil,
        relations: Relations = Relations(rawValue: 0)
    ) throws(HandlerError) -> AnyHandlerID {
        try NameBounds.check(handler.name, of: "a handler")
        try NameBounds.check(timing.scope?.rawValue, of: "a scope")
        var row = HandlerRow(handler, trace: transaction.root)
        (row.kind, row.key, row.relations) = (kind, key, relations)
        (row.scope, row.due, row.period) = (timing.scope, timing.due, timing.period)
        if timing.isTimer {
            row.caller = caller(of: handler.storedName)
            row.call = try StoredCall(.result).bytes()
        }
        if let timeout = timing.timeout {
            row.connectedDue = TimeSource.sum(try connectedTime.time(of: timing.scope), timeout)
            transaction.newDue.add(
                timing.scope,
                monotonic: transaction.monotonic
                    + min(.milliseconds(timeout.milliseconds), ConnectedTime.tick))
        }
        return try bind(&row)
    }

    /// The row of a handler together with the call that a runner makes, at once: of one that cannot run in this step.
    func row(
        of handler: StoredHandler, toBeCalledWith context: any Sendable, _ call: StoredCall, caller: Caller
    ) throws -> HandlerRow {
        guard let context = context as? any RestorableContext else {
            throw HandlerError(
                .contextNotRestorable,
                "the handler '\(handler.name)' cannot run in this step, and what it is called with, \(type(of: context)), cannot be kept; let that type conform to RestorableContext"
            )
        }
        var row = HandlerRow(handler.name, handler.version, handler.arguments, trace: transaction.root)
        (row.orElseBytes, row.scope, row.caller) = (
            handler.orElseBytes, context.environment?.scope, caller
        )
        try NameBounds.check(row.name.string, of: "a handler")
        try NameBounds.check(row.scope?.rawValue, of: "a scope")
        (row.due, row.call, row.input) = (now, try call.bytes(), try context.storedBytes())
        return row
    }

    /// The processes that may call a handler.
    func caller(of name: Name) -> Caller { registry.definition(named: name).map(Caller.init) ?? .inStep }

    // MARK: Claiming

    /// Which row is read to be called, and which of its larger columns.
    struct Query {
        fileprivate let sql: String

        private init(
            orElse: Bool = false, culprit: Bool = false, state: Bool = false, _ condition: String = ""
        ) {
            let orElse = orElse ? "or_else" : "NULL"
            let culprit = culprit ? "culprit" : "NULL"
            let (state, reason) = state ? ("state", "reason") : ("NULL", "NULL")
            sql =
                "SELECT name, version, arguments, \(orElse), attempts, deaths, \(culprit), trace, relations, \(state), \(reason) FROM handler WHERE id = ?\(condition)"
        }

        private static let isOnce = " AND kind = \(Kind.once.sql)"

        // Made once: a statement is found by its text, soonest by its address.
        static let any = Query(state: true)
        static let toInvalidate = Query(orElse: true, state: true)
        static let oncePending = Query("\(isOnce) AND state = \(State.pending.sql)")
        static let onceNotLeased = Query(orElse: true, "\(isOnce) AND state <> \(State.leased.sql)")
        static let standing = Query(culprit: true, " AND kind = \(Kind.standing.sql)")
    }

    /// Removes a row and returns it. The step holds the write lock, so no other process claims it in between.
    func claim(_ id: AnyHandlerID, _ query: Query) throws(HandlerError) -> StoredHandler {
        let stored = try read(id, query)
        // Two plain statements cost half of one DELETE … RETURNING, which builds a table for its result.
        guard try connection.changeRow("DELETE FROM handler WHERE id = ?", [id]) else {
            throw try noSuchHandler(id)
        }
        // The process that runs it is told.
        if stored.isLeased { transaction.newDue.isLeaseLost = true }
        guard stored.relations.contains(.keyed) else { return stored }
        return stored.with(stored.relations, key: try takeKey(of: id))
    }

    func read(
        _ id: AnyHandlerID, _ query: Query, isStanding: Bool = false
    ) throws(HandlerError) -> StoredHandler {
        let stored = try connection.first(query.sql, [id]) { row in
            StoredHandler(
                id: id, name: row.foreignText(0), version: Int(row.quantity(1)), arguments: row.blob(2),
                orElseBytes: row.isNull(3) ? nil : row.blob(3), attempts: Int(row.quantity(4)),
                deaths: Int(row.quantity(5)), culprit: row.optionalInteger(6),
                trace: row.optionalInteger(7).map(AnyHandlerID.init(rawValue:)),
                isLeased: row.optionalInteger(9) == State.leased.rawValue,
                quarantineReason: row.optionalInteger(9) == State.quarantined.rawValue
                    ? row.optionalText(10) : nil,
                relations: Relations(rawValue: row.integer(8)), isStanding: isStanding)
        }
        guard let stored else { throw try noSuchHandler(id) }
        return stored
    }

    /// Restores the row of a handler that was claimed, as it was when it was bound.
    func putBack(_ id: AnyHandlerID, _ stored: StoredHandler) throws(HandlerError) {
        var row = HandlerRow(stored.name, stored.version, stored.arguments, trace: stored.trace)
        row.orElseBytes = stored.orElseBytes
        try connection.write(
            "INSERT INTO handler(id, \(Self.plain), relations) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [id] + row.plainValues(now) + [stored.relations.rawValue])
        if let key = stored.key { try give(key, to: id) }
    }

    /// Removes a row without an ending.
    func delete(_ id: AnyHandlerID) throws(HandlerError) {
        try connection.write("DELETE FROM handler WHERE id = ?", [id])
    }

    /// Stores the ending of a handler that was claimed.
    func bury(
        _ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome, _ reason: InvalidationReason?,
        _ result: [UInt8]? = nil, _ error: CallError? = nil
    ) throws(HandlerError) {
        // The primary key refuses a second ending of one handler.
        try connection.write(
            "INSERT INTO ending(handler, name, outcome, reason, ended_at, trace) VALUES (?, ?, ?, ?, ?, ?)",
            [
                id, stored.name, outcome.rawValue, reason.map { StoredReason($0.rawValue) }, now,
                stored.trace,
            ])
        if stored.key != nil || result != nil || error != nil {
            try connection.write(
                "INSERT INTO ending_detail(handler, key, result, code, error) VALUES (?, ?, ?, ?, ?)",
                [id, stored.key, result, error?.code.rawValue, error?.message])
        }
        count(.ended(outcome), stored.name)
        if stored.relations.contains(.awaited) { transaction.awaited.append(id) }
        try forEachFeature(of: stored.relations) { (feature) throws(HandlerError) in
            try feature.ended(id, stored, outcome)
        }
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
