/// What a new handler does when another one that has not ended has its key.
///
/// ```swift
/// try step.schedule(
///     Reminder(text: "tea").durable, key: "tea", ifTaken: .replace, after: .zero, every: .seconds(3600))
/// ```
public enum KeyRule: Hashable, Sendable, CaseIterable {
    /// The other one stays as it is, and its row is returned. A standing handler gets the new value of `ordered`.
    ///
    /// It must have the same name and be of the same kind, once or standing; else the call throws `keyTaken`.
    case keep
    /// The other one is invalidated with the reason ``InvalidationReason/replaced``.
    case replace
    /// Nothing is stored, and the call throws `keyTaken`.
    case refuse
}

/// Handlers with a key: a name that at most one handler has that has not ended.
///
/// A program that binds or schedules with a key each time it starts so has one handler, and whoever knows the key can look at it, signal
/// it or invalidate it. A key is free again when its handler has ended.
extension Step {
    /// Stores a handler that exists once for its key.
    ///
    /// ```swift
    /// try step.bind(Paid(order: "17").durable, key: "payment-17", timeout: .seconds(259_200))
    /// ```
    ///
    /// A signal that was sent before and waits for this key calls the handler: one bound once at the runner's next turn.
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - key: 1 to 512 bytes of UTF-8, without U+0000. All handlers of a store share one space of keys.
    ///   - rule: What happens when another handler has the key.
    ///   - timeout: How much connected time it has; nil for any. See ``bind(_:timeout:deadline:in:)``.
    ///   - deadline: Also when the wall clock passes this; nil for never.
    ///   - scope: Whose connected time counts, and whose environment ``Invalidation`` gets; nil for the program as a whole.
    /// - Returns: The handler's row; with ``KeyRule/keep`` perhaps that of the other one.
    /// - Throws: ``HandlerError`` `keyTaken`, `invalidKey`, or with the codes of the store.
    @discardableResult
    public func bind<Context>(
        _ handler: Durable<Context>, key: String, ifTaken rule: KeyRule = .keep, timeout: Duration? = nil,
        deadline: Timestamp? = nil, in scope: HandlerScope? = nil
    ) throws -> HandlerID<Context> {
        HandlerID(
            of: try transaction.keys.bind(
                handler, kind: .once, timing: .init(timeout: timeout, deadline: deadline, scope: scope),
                key: key,
                ifTaken: rule))
    }

    /// Stores a handler that exists once for its key and is called many times, until it is invalidated.
    ///
    /// Signals that wait for this key call the handler in this step, in the order in which they were sent.
    ///
    /// ```swift
    /// try step.bindStanding(Ledger().durable, key: "ledger", ordered: true)
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - key: 1 to 512 bytes of UTF-8, without U+0000.
    ///   - rule: What happens when another handler has the key.
    ///   - isOrdered: Whether a call waits while an earlier one is tried again, is parked or waits for a runner. A ``HandlerRunner`` makes
    ///     the calls that wait, one after the other. A quarantined call lets the later ones pass. False by default: a call is made at once.
    ///     A handler that stays gets the new value for its later calls. One that takes the key with ``KeyRule/replace`` does not wait for
    ///     calls of the other.
    /// - Returns: The handler's row; with ``KeyRule/keep`` perhaps that of the other one.
    /// - Throws: ``HandlerError`` `keyTaken`, `invalidKey`, or with the codes of the store.
    @discardableResult
    public func bindStanding<Context>(
        _ handler: Durable<Context>, key: String, ifTaken rule: KeyRule = .keep,
        ordered isOrdered: Bool = false
    ) throws -> HandlerID<Context> {
        HandlerID(
            of: try transaction.keys.bind(
                handler, kind: .standing, timing: .init(), key: key, ifTaken: rule,
                ordered: isOrdered))
    }

    /// Stores a timer that exists once for its key.
    ///
    /// With ``KeyRule/keep`` a timer that waits keeps its time, its period and its arguments.
    ///
    /// ```swift
    /// try step.schedule(Reminder(text: "tea").durable, key: "tea", after: .zero, every: .seconds(86_400))
    /// ```
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - key: 1 to 512 bytes of UTF-8, without U+0000.
    ///   - rule: What happens when another handler has the key.
    ///   - delay: The wall-clock time until it is called, 0 or more; a part of a millisecond is dropped.
    ///   - period: How long it waits from one call to the next, at least a millisecond; nil for a timer that fires once. See
    ///     ``schedule(_:after:every:in:)``.
    ///   - scope: Whose environment the call gets; nil for the program as a whole.
    /// - Returns: The handler's row; with ``KeyRule/keep`` perhaps that of the other one.
    /// - Throws: ``HandlerError`` `invalidInterval`, `keyTaken`, `invalidKey`, or with the codes of the store.
    @discardableResult
    public func schedule(
        _ handler: Durable<TimerFired>, key: String, ifTaken rule: KeyRule = .keep, after delay: Duration,
        every period: Duration? = nil, in scope: HandlerScope? = nil
    ) throws -> HandlerID<TimerFired> {
        HandlerID(
            of: try transaction.keys.bind(
                handler, kind: period == nil ? .once : .standing,
                timing: try .init(timerAfter: delay, every: period, scope, now), key: key, ifTaken: rule))
    }

    /// Invalidates the handler with a key, like `invalidate` with its row.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - reason: Why; passed on and kept in the ending.
    ///   - overrides: Call-time arguments of what runs instead, which win over bound ones by name.
    ///   - environment: The environment in which the handler was bound, passed on in ``Invalidation``.
    /// - Returns: What became of what runs instead; nil when no handler has the key.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func invalidate(
        key: String, reason: InvalidationReason, overriding overrides: Record = [:],
        environment: (any HandlerEnvironment)? = nil
    ) throws -> Disposition? {
        guard let id = try transaction.keys.holder(of: key)?.id else { return nil }
        return try transaction.invalidations.invalidate(
            id, reason: reason, overrides: overrides, environment: environment)
    }

    /// Calls the handler with a key, now or once it is bound.
    ///
    /// The handler's context is ``SignalReceived`` with the type of the value. When no handler waits with the key, the signal waits, and the
    /// next handler that is bound with it gets it. A handler bound once takes one signal; the others wait for the next one.
    ///
    /// ```swift
    /// try store.step { step in
    ///     try step.execute("INSERT INTO payment VALUES (?, ?)", "17", 1999)
    ///     try step.signal("payment-17", Payment(cents: 1999))
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - key: The key, 1 to 512 bytes of UTF-8, without U+0000.
    ///   - value: What the handler is called with. It is stored as JSON while it waits, at most 64 KiB.
    ///   - time: How long the signal waits for its handler, by the wall clock; a week by default.
    /// - Returns: What became of the call; nil when the signal waits.
    /// - Throws: ``HandlerError`` `wrongContext` when the handler with that key takes no signals, `tooManySignals` when 1000 wait for the
    ///   key, `invalidKey`, `argumentNotEncodable`, or with the codes of the store.
    @discardableResult
    public func signal(
        _ key: String, _ value: some Encodable, keptFor time: Duration = .seconds(7 * 24 * 3600)
    ) throws -> Disposition? {
        try transaction.keys.signal(key, Signal(value), keptFor: time)
    }
}
