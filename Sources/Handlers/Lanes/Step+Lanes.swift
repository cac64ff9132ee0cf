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
    ///   - place: The lane, the priority and the order key.
    /// - Returns: The handler's row.
    /// - Throws: ``HandlerError`` `invalidLane` for a place out of its range, what the context throws when it is stored, or with the codes of
    ///   the store.
    @discardableResult
    public func enqueue<Context: RestorableContext>(
        _ handler: Durable<Context>, with context: Context, lane place: LanePlace
    ) throws -> HandlerID<Context> {
        HandlerID(of: try transaction.lanes.enqueue(handler, with: context, place))
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
    fileprivate func enqueue<Context: RestorableContext>(
        _ handler: Durable<Context>, with context: Context, _ place: LanePlace
    ) throws -> AnyHandlerID {
        try place.check()
        let stored = StoredHandler(
            name: handler.storedName, version: handler.version, arguments: handler.arguments,
            orElseBytes: handler.orElseBytes, trace: transaction.root)
        var row = try handlers.row(
            of: stored, toBeCalledWith: context, StoredCall(.result),
            caller: handlers.caller(of: handler.storedName))
        let arrival = try arrival(at: place)
        (row.due, row.relations) = (arrival.start, .inLane)
        let id = try handlers.bind(&row)
        try addCalled(id, in: row.scope, arrival)
        return id
    }
}
