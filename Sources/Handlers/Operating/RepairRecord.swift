/// The stored changes by hand: who made them, and why. Each is stored in the step that makes it.
struct RepairRecord: TransactionTable {
    let transaction: Transaction
    /// The maximum number of changes that are kept.
    static let kept: Int64 = 100_000
    /// How long they are kept.
    static let age = Duration.seconds(90 * 86_400)
    /// The number of old changes that one step forgets.
    private static let piece: Int64 = 1000

    func invalidate(_ id: AnyHandlerID) throws {
        let disposition = try Step(transaction).invalidate(id, reason: .byHand)
        guard case .ended = disposition else {
            throw HandlerError(
                .cannotRunHere,
                "the invalidation of the handler \(id) cannot run here (\(disposition.reason ?? "only a program's runner calls it")); let the program that knows it invalidate it, or discard it"
            )
        }
    }

    func add(
        _ action: String, _ handler: AnyHandlerID?, _ name: String, before: HandlerStatus.State? = nil,
        by author: RepairAuthor
    ) throws(HandlerError) {
        try connection.write(
            "INSERT INTO handler_repair(at, author, way, reason, action, handler, name, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                now, author.name, author.way.rawValue, author.reason, action, handler,
                name.cut(toBytes: NameBounds.key), before?.stored.rawValue,
            ])
    }

    /// Forgets the oldest changes, as far as they are too many or too old.
    func prune() throws(HandlerError) {
        try connection.write(
            """
            DELETE FROM handler_repair WHERE id < (SELECT min(id) FROM handler_repair) + ?1
                AND (at < ?2 OR id <= (SELECT max(id) FROM handler_repair) - ?3)
            """, [Self.piece, now - Self.age, Self.kept])
    }
}

extension TransactionTable {
    var repairRecord: RepairRecord { RepairRecord(transaction: transaction) }
}

// MARK: Changing

extension Step {
    /// Changes a handler by hand, and stores in the same step who did it and why.
    ///
    /// ```swift
    /// try store.step { try $0.repair(id, .discard, by: RepairAuthor("ada", because: "the order was a test")) }
    /// ```
    ///
    /// - Parameters:
    ///   - id: The handler's row.
    ///   - repair: What to do with it.
    ///   - author: Who does it, and why.
    /// - Throws: ``HandlerError`` `noSuchHandler` when there is no such row, or it is not in a state for this change;
    ///   `cannotRunHere` when the invalidation must be run by a process of the program; or with the codes of the store.
    public func repair<Context>(
        _ id: HandlerID<Context>, _ repair: HandlerRepair, by author: RepairAuthor
    ) throws {
        let id = AnyHandlerID(id)
        guard let status = try status(of: id) else { throw try transaction.handlers.noSuchHandler(id) }
        switch repair {
        case .requeue: try requeue(id)
        case .invalidate: try transaction.repairRecord.invalidate(id)
        case .discard: try discard(id)
        case .runNow: try transaction.repairRecord.runNow(id)
        case .pause: try transaction.repairRecord.setPaused(true, id)
        case .resume: try transaction.repairRecord.setPaused(false, id)
        }
        try transaction.repairRecord.add(
            repair.rawValue, id, status.name, before: status.state, by: author)
    }

    /// Gives a signal to the handler with a key, and stores who did it and why. See ``signal(_:_:keptFor:)``.
    ///
    /// - Parameters:
    ///   - key: The key, 1 to 512 bytes of UTF-8, without U+0000.
    ///   - value: What the handler is called with.
    ///   - author: Who gives the signal, and why.
    /// - Returns: What became of the call; nil when the signal waits.
    /// - Throws: As ``signal(_:_:keptFor:)``.
    @discardableResult
    public func signal(
        _ key: String, _ value: some Encodable, by author: RepairAuthor
    ) throws -> Disposition? {
        let status = try status(ofKey: key)
        let disposition = try signal(key, value)
        try transaction.repairRecord.add(
            "signal", status?.id, key, before: status?.state, by: author)
        return disposition
    }

    /// Stores the limits of a lane, and who set them and why. See ``setLane(_:)``.
    ///
    /// A program that sets its limits at each start sets its own again.
    ///
    /// - Parameters:
    ///   - rule: The limits.
    ///   - author: Who sets them, and why.
    /// - Throws: As ``setLane(_:)``.
    public func setLane(_ rule: LaneRule, by author: RepairAuthor) throws(HandlerError) {
        try setLane(rule)
        try transaction.repairRecord.add("limit-lane", nil, rule.name, by: author)
    }

    /// Starts no handler of a lane any more, in all processes, until it is resumed. Handlers that run go on.
    ///
    /// ```swift
    /// try step.pauseLane("mail", by: RepairAuthor("ada", because: "the mail server is being moved"))
    /// ```
    ///
    /// - Parameters:
    ///   - name: The lane; it need not have limits. At most 1000 lanes have limits or are paused.
    ///   - author: Who pauses it, and why.
    /// - Throws: ``HandlerError`` `invalidLane` for a name out of its range or too many lanes, or with the codes of the store.
    public func pauseLane(_ name: String, by author: RepairAuthor) throws(HandlerError) {
        try transaction.lanes.setPaused(true, name)
        try transaction.repairRecord.add("pause-lane", nil, name, by: author)
    }

    /// Starts the handlers of a paused lane again, as far as its limits allow.
    ///
    /// - Parameters:
    ///   - name: The lane. One that is not paused stays as it is.
    ///   - author: Who resumes it, and why.
    /// - Throws: ``HandlerError`` `invalidLane` for a name out of its range, or with the codes of the store.
    public func resumeLane(_ name: String, by author: RepairAuthor) throws(HandlerError) {
        try transaction.lanes.setPaused(false, name)
        try transaction.repairRecord.add("resume-lane", nil, name, by: author)
    }
}

// MARK: Reading

extension ReadableStore where Self: ~Copyable {
    /// Returns the changes of a handler by hand, the newest first.
    ///
    /// - Parameters:
    ///   - id: The handler's row.
    ///   - limit: The most to return, from 1.
    /// - Returns: The changes of the last 90 days, of at most 100 000 in the store.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func repairs<Context>(of id: HandlerID<Context>, limit: Int = 100) throws(HandlerError) -> [Repair]
    {
        try all(
            """
            SELECT id, at, author, way, reason, action, handler, name, state FROM handler_repair
            WHERE handler = ? ORDER BY id DESC LIMIT ?
            """, id, limit, read: Repair.read)
    }

    /// Returns the changes by hand, the newest first.
    ///
    /// - Parameters:
    ///   - number: The change before which to start, to read a long list in parts; nil for the newest.
    ///   - limit: The most to return, from 1.
    /// - Returns: The changes of the last 90 days, of at most 100 000 in the store.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func repairs(before number: Int64? = nil, limit: Int = 100) throws(HandlerError) -> [Repair] {
        try all(
            """
            SELECT id, at, author, way, reason, action, handler, name, state FROM handler_repair
            WHERE id < ? ORDER BY id DESC LIMIT ?
            """, number ?? .max, limit, read: Repair.read)
    }
}

extension Repair {
    fileprivate static func read(_ row: borrowing Row) -> Repair {
        Repair(
            number: row.integer(0), at: row.timestamp(1),
            author: RepairAuthor(
                row.text(2), because: row.optionalText(4),
                by: RepairAuthor.Way(rawValue: row.text(3)) ?? .program),
            action: row.text(5), handler: row.optionalInteger(6).map(AnyHandlerID.init(rawValue:)),
            name: row.text(7),
            stateBefore: row.optionalInteger(8).flatMap(Transaction.State.init(rawValue:)).map {
                HandlerStatus.State($0)
            })
    }
}
