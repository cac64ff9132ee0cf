/// Lanes: names under which handlers share limits, in all processes together.
///
/// ```text
///   setLane ──▶ lane: concurrency, rate
///                        │
///   enqueue ──▶ waits ───┴──▶ has a place: due ──▶ HandlerRunner ──▶ ended ──▶ the next handler gets the place
///                 ▲                                    │
///                 ╰──────── retry is due ◀─────────────╯ throws
/// ```
extension Step {
    /// Stores the limits of a lane. All processes obey them, from this commit on.
    ///
    /// ```swift
    /// try step.setLane(LaneRule("mail", concurrency: 4, rate: LaneRate(100, per: .seconds(60))))
    /// ```
    ///
    /// A program does this each time it starts; the last limits count. Handlers that run already are not interrupted.
    ///
    /// - Parameter rule: The limits; they replace those that the lane had. At most 1000 lanes have some. A rule without limits frees one of
    ///   these 1000.
    /// - Throws: ``HandlerError`` `invalidLane` for a name or a limit out of its range, or with the codes of the store.
    public func setLane(_ rule: LaneRule) throws(HandlerError) { try transaction.lanes.setLane(rule) }

    /// Stores a handler together with its call, which a ``HandlerRunner`` makes when the handler has its turn in a lane.
    ///
    /// ```swift
    /// try step.enqueue(
    ///     Mail(to: "ada@example.org").durable, with: Text("hello"), lane: LanePlace("mail", orderedBy: "ada"))
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - context: What it is called with; stored until then. Its environment, if it has one, must be attached to a runner.
    ///   - key: What the program calls it, 1 to 512 bytes of UTF-8, without U+0000; nil for nothing. By its key
    ///     the handler is found and invalidated, also while it waits.
    ///   - rule: What happens when another handler has the key. With ``KeyRule/keep`` that one keeps its place.
    ///   - place: The lane, the priority and the order key.
    /// - Returns: The handler's row; with ``KeyRule/keep`` perhaps that of the other one.
    /// - Throws: ``HandlerError`` `invalidLane` for a place out of its range, `keyTaken`, `invalidKey`, what the context throws when it is
    ///   stored, or with the codes of the store.
    @discardableResult
    public func enqueue<Context: RestorableContext>(
        _ handler: Durable<Context>, with context: Context, key: String? = nil, ifTaken rule: KeyRule = .keep,
        lane place: LanePlace
    ) throws -> HandlerID<Context> {
        try place.check()
        let row = try transaction.lanes.row(of: handler, with: context)
        return HandlerID(of: try transaction.lanes.enqueue(row, key: key, ifTaken: rule, place))
    }

    /// Stores a handler that a ``HandlerRunner`` calls when it has its turn in a lane.
    ///
    /// ```swift
    /// try step.enqueue(Charge(order: "17", cents: 1999).durable, key: "charge-17", lane: LanePlace("bank"))
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - key: What the program calls it, 1 to 512 bytes of UTF-8, without U+0000; nil for nothing. See
    ///     ``enqueue(_:with:key:ifTaken:lane:)``.
    ///   - rule: What happens when another handler has the key.
    ///   - place: The lane, the priority and the order key.
    ///   - scope: Whose environment the call gets; nil for the program as a whole.
    /// - Returns: The handler's row; with ``KeyRule/keep`` perhaps that of the other one.
    /// - Throws: ``HandlerError`` `invalidLane` for a place out of its range, `keyTaken`, `invalidKey`, or with the codes of the store.
    @discardableResult
    public func enqueue(
        _ handler: Durable<TimerFired>, key: String? = nil, ifTaken rule: KeyRule = .keep,
        lane place: LanePlace, in scope: HandlerScope? = nil
    ) throws -> HandlerID<TimerFired> {
        try place.check()
        let row = try transaction.lanes.row(of: handler, in: scope)
        return HandlerID(of: try transaction.lanes.enqueue(row, key: key, ifTaken: rule, place))
    }

    /// Stores a handler that will be called once, and whose call waits in a lane where a runner must make it.
    ///
    /// That is so for every ``AsyncHandler``, for a call that failed and is tried again, and for one that this process must not make. A
    /// synchronous handler that is called in a step runs at once, whatever its lane.
    ///
    /// ```swift
    /// try step.bind(FetchAvatar(of: "ada").durable, lane: LanePlace("downloads"))
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - place: The lane, the priority and the order key. Both count from the call.
    ///   - timeout: How much connected time it has until its call; nil for any. See ``bind(_:timeout:deadline:in:)``.
    ///   - deadline: Also when the wall clock passes this; nil for never.
    ///   - scope: Whose connected time counts, and whose environment ``Invalidation`` gets; nil for the program as a whole.
    /// - Returns: The handler's row.
    /// - Throws: ``HandlerError`` `invalidLane` for a place out of its range, or with the codes of the store.
    @discardableResult
    public func bind<Context>(
        _ handler: Durable<Context>, lane place: LanePlace, timeout: Duration? = nil,
        deadline: Timestamp? = nil, in scope: HandlerScope? = nil
    ) throws(HandlerError) -> HandlerID<Context> {
        try place.check()
        let id = try transaction.handlers.bind(
            handler, kind: .once, timing: .init(timeout: timeout, deadline: deadline, scope: scope),
            relations: .inLane)
        try transaction.lanes.insert(LaneEntry(id, place))
        return HandlerID(of: id)
    }
}

extension Lanes {
    fileprivate func row<Context: RestorableContext>(
        of handler: Durable<Context>, with context: Context
    ) throws -> HandlerRow {
        let stored = StoredHandler(
            name: handler.storedName, version: handler.version, arguments: handler.arguments,
            orElseBytes: handler.orElseBytes, trace: transaction.root)
        return try handlers.row(
            of: stored, toBeCalledWith: context, StoredCall(.result),
            caller: handlers.caller(of: handler.storedName))
    }

    fileprivate func row(of handler: Durable<TimerFired>, in scope: HandlerScope?) throws -> HandlerRow {
        var row = try row(of: handler, with: TimerFired(dueAt: now))
        // When it is due is when it has its turn.
        (row.scope, row.input) = (scope, nil)
        try NameBounds.check(scope?.rawValue, of: "a scope")
        return row
    }

    fileprivate func enqueue(
        _ new: HandlerRow, key: String?, ifTaken rule: KeyRule, _ place: LanePlace
    ) throws -> AnyHandlerID {
        if let key, let other = try keys.make(key, freeFor: new.name, new.kind, rule) { return other }
        var row = new
        let arrival = try arrival(at: place)
        (row.due, row.relations, row.key) = (arrival.start, .inLane, key)
        let id = try handlers.bind(&row)
        try addCalled(id, in: row.scope, arrival)
        return id
    }
}
