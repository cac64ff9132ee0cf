/// Writing rows of handlers.
extension Transaction {
    /// The times at which a row is called or expires by itself.
    struct Timing {
        /// When it is called or expires, by the wall clock.
        var due: Timestamp?
        /// In connected time, from now on.
        var timeout: Duration?
        var period: Duration?
        var scope: HandlerScope?
        var isTimer = false

        /// Whether no time calls it or ends it.
        var isEmpty: Bool { due == nil && timeout == nil }

        init(timeout: Duration? = nil, deadline: Timestamp? = nil, scope: HandlerScope? = nil) {
            (due, self.timeout, self.scope) = (deadline, timeout, scope)
        }

        /// - Throws: ``HandlerError`` `invalidInterval`.
        init(
            timerAfter delay: Duration, every period: Duration?, _ scope: HandlerScope?, _ now: Timestamp
        ) throws(HandlerError) {
            if let period, period < .milliseconds(1) {
                throw HandlerError(
                    .invalidInterval,
                    "the interval of a timer is \(period); it must be a millisecond or more, or nil for a timer that fires once"
                )
            }
            let delay = BuiltInFault.earlyTimer.isOn ? .seconds(delay.components.seconds) : delay
            due = now + max(.zero, delay)
            self.period = period
            self.scope = scope
            isTimer = true
        }

        /// Of a timer whose next times are set elsewhere.
        init(at time: Timestamp?, _ scope: HandlerScope?) {
            (due, self.scope, isTimer) = (time, scope, true)
        }
    }

    func bind<Context>(_ handler: Durable<Context>, kind: Kind) throws(HandlerError) -> AnyHandlerID {
        try NameBounds.check(handler.name, of: "a handler")
        // The columns that a plain handler leaves empty are left out: the statement is the one that runs most.
        let inserted = try connection.insert(
            "INSERT INTO handler(name, version, arguments, or_else, kind, bound_at, trace) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                handler.name, handler.version, handler.arguments, handler.orElseBytes, kind.rawValue, now,
                running?.root,
            ])
        let id = AnyHandlerID(rawValue: inserted)
        if let chain = try chainOfNew(kind) {
            try add(.inChain, to: id)
            try add(id, handler.storedName, toChain: chain, isKept: true)
        }
        return id
    }

    func bind<Context>(
        _ handler: Durable<Context>, kind: Kind, timing: Timing, key: String? = nil,
        relations: Relations = []
    ) throws(HandlerError) -> AnyHandlerID {
        try NameBounds.check(handler.name, of: "a handler")
        try NameBounds.check(timing.scope?.rawValue, of: "a scope")
        let caller = registry.definition(named: handler.storedName).map(Caller.init) ?? .inStep
        let connectedDue = try timing.timeout.map { (timeout) throws(HandlerError) in
            TimeSource.sum(try connectedTime(of: timing.scope), timeout)
        }
        let chain = try chainOfNew(kind)
        let isKept = timing.isEmpty && key == nil && relations.isEmpty
        let relations = relations.union(key == nil ? [] : .keyed).union(chain == nil ? [] : .inChain)
        let inserted = try connection.insert(
            """
            INSERT INTO handler(name, version, arguments, or_else, kind, bound_at, trace, scope, lane, due,
                connected_due, period, call, relations)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                handler.name, handler.version, handler.arguments, handler.orElseBytes, kind.rawValue, now,
                running?.root, timing.scope?.rawValue, timing.isTimer ? caller.rawValue : 0, timing.due,
                connectedDue?.milliseconds, timing.period?.milliseconds,
                timing.isTimer ? try StoredCall(.result).bytes() : nil,
                relations.rawValue,
            ])
        let id = AnyHandlerID(rawValue: inserted)
        newDue.add(
            timing.scope, wall: timing.due,
            monotonic: timing.timeout.map {
                monotonic + min(.milliseconds($0.milliseconds), Self.connectedTimeTick)
            })
        if let key { try give(key, to: id) }
        if let chain { try add(id, handler.storedName, toChain: chain, isKept: isKept) }
        return id
    }

    /// Stores a handler together with the call that a runner makes, at once: one that cannot run in this step.
    ///
    /// - Parameter place: The lane in which it waits for that; nil for none.
    @discardableResult
    func bind(
        _ handler: StoredHandler, toBeCalledWith context: any Sendable, _ call: StoredCall, caller: Caller,
        in place: LanePlace? = nil
    ) throws -> AnyHandlerID {
        guard let context = context as? any RestorableContext else {
            throw HandlerError(
                .contextNotRestorable,
                "the handler '\(handler.name)' cannot run in this step, and what it is called with, \(type(of: context)), cannot be kept; let that type conform to RestorableContext"
            )
        }
        let chain = try chainOfNew(.once)
        let relations = (place == nil ? [] : Relations.inLane).union(chain == nil ? [] : .inChain)
        let arrival = try place.map { (place) throws(HandlerError) in try self.arrival(at: place) }
        let scope = context.environment?.scope
        try NameBounds.check(handler.name.string, of: "a handler")
        try NameBounds.check(scope?.rawValue, of: "a scope")
        let inserted = try connection.insert(
            """
            INSERT INTO handler(name, version, arguments, or_else, kind, bound_at, trace, scope, lane, due,
                call, input, relations)
            VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                handler.name, handler.version, handler.arguments, handler.orElseBytes, now, running?.root,
                scope?.rawValue, caller.rawValue, arrival == nil ? now : arrival?.start, call.bytes(),
                context.storedBytes(), relations.rawValue,
            ])
        let id = AnyHandlerID(rawValue: inserted)
        if let chain { try add(id, handler.name, toChain: chain, isKept: false) }
        if let arrival {
            try addCalled(id, in: scope, arrival)
        } else {
            newDue.add(scope, wall: now)
        }
        return id
    }

    /// Has a runner call a bound handler.
    ///
    /// - Parameter input: The stored form of its context.
    func queue(
        _ id: AnyHandlerID, calledWith input: [UInt8], _ caller: Caller, _ scope: HandlerScope?
    ) throws(HandlerError) {
        try connection.write(
            "UPDATE handler SET call = ?, input = ?, due = ?, connected_due = NULL, lane = ? WHERE id = ?",
            [StoredCall(.result).bytes(), input, now, caller.rawValue, id])
        newDue.add(scope, wall: now)
    }
}
