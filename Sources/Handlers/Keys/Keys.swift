/// Keys of handlers, and signals to them.
struct Keys: TransactionTable {
    let transaction: Transaction

    /// The maximum number of signals that wait for one key.
    static let maximumSignals = 1000

    /// The handler that has a key and has not ended.
    struct KeyHolder {
        let id: AnyHandlerID
        let name: Name
        let kind: Int64
        let scope: HandlerScope?
        /// Whether nothing has called it yet.
        let isUncalled: Bool
    }

    func holder(of key: String) throws(HandlerError) -> KeyHolder? {
        try connection.first(
            "SELECT id, name, kind, scope, state, call FROM handler WHERE id = (SELECT handler FROM handler_key WHERE key = ?)",
            [key]
        ) { row in
            KeyHolder(
                id: AnyHandlerID(rawValue: row.integer(0)), name: row.foreignText(1), kind: row.integer(2),
                scope: row.optionalText(3).map { HandlerScope($0) },
                isUncalled: row.integer(4) == State.pending.rawValue && row.isNull(5))
        }
    }

    private func check(_ key: String) throws(HandlerError) {
        guard Name(key).isName(ofBytes: NameBounds.key) else {
            throw HandlerError(
                .invalidKey,
                "a key has 1 to \(NameBounds.key) bytes and no U+0000; this one has \(key.utf8.count) bytes")
        }
    }

    // MARK: Binding

    /// - Parameter isOrdered: Whether the calls of a standing handler wait for one another; nil to leave that as it is.
    func bind<Context>(
        _ handler: Durable<Context>, kind: Kind, timing: Timing, key: String, ifTaken rule: KeyRule,
        ordered isOrdered: Bool? = nil
    ) throws -> AnyHandlerID {
        if let other = try make(key, freeFor: handler.storedName, kind, rule) {
            if let isOrdered { try handlers.setOrdered(isOrdered, of: other) }
            return other
        }
        let id = try handlers.bind(
            handler, kind: kind, timing: timing, key: key, relations: isOrdered == true ? .ordered : [])
        if let definition = registry.definition(named: handler.storedName), definition.takesSignals {
            try deliverEarlySignals(key, to: id, definition, kind, timing.scope)
        }
        return id
    }

    /// Frees a key for a new handler.
    ///
    /// - Returns: The handler that keeps the key.
    /// - Throws: ``HandlerError`` `keyTaken`, `invalidKey`.
    func make(
        _ key: String, freeFor name: Name, _ kind: Kind, _ rule: KeyRule
    ) throws -> AnyHandlerID? {
        try check(key)
        guard let other = try holder(of: key) else { return nil }
        let isSame = canonical(other.name) == canonical(name) && other.kind == kind.rawValue
        // It would stay as it is, and the program that it starts again here would wait for nothing.
        if isSame, rule != .replace, transaction.callStack.contains(where: { $0.id == other.id }),
            isWorkflow(other.name)
        {
            throw startsItself(key, other)
        }
        if rule == .keep, isSame { return other.id }
        guard rule == .replace else { throw taken(key, by: other, isSame ? nil : name.string) }
        try replace(other)
        // The invalidation handler may have bound another one.
        if let other = try holder(of: key) { throw taken(key, by: other, nil) }
        return nil
    }

    private func canonical(_ name: Name) -> Name { registry.definition(named: name)?.id ?? name }

    private func taken(_ key: String, by other: KeyHolder, _ name: String?) -> HandlerError {
        HandlerError(
            .keyTaken,
            "the handler \(other.id) ('\(other.name)') has the key '\(key)'\(name.map { " and is no '\($0)' of this kind" } ?? ""); invalidate it, or take another key"
        )
    }

    private func isWorkflow(_ name: Name) -> Bool {
        if case .workflow? = registry.definition(named: name)?.body { true } else { false }
    }

    private func startsItself(_ key: String, _ other: KeyHolder) -> HandlerError {
        HandlerError(
            .keyTaken,
            "the workflow \(other.id) ('\(other.name)') that runs has the key '\(key)' itself; let it go on with flow.again, or take another key"
        )
    }

    private func replace(_ other: KeyHolder) throws {
        // Its invalidation may fail and be tried again, and does not hold the key meanwhile.
        _ = try handlers.takeKey(of: other.id)
        if other.scope == nil {
            _ = try invalidations.invalidate(other.id, reason: .replaced, overrides: [:], environment: nil)
        } else {
            try invalidations.invalidateLater(other.id, StoredCall(.invalidated, reason: .replaced))
        }
    }

    // MARK: Signals

    func signal(_ key: String, _ signal: Signal, keptFor time: Duration) throws -> Disposition? {
        try check(key)
        let holder = try holder(of: key)
        if let holder, let definition = registry.definition(named: holder.name), !definition.takesSignals {
            throw HandlerError(
                .wrongContext,
                "the handler \(holder.id) ('\(holder.name)') with the key '\(key)' takes no signals; let its context be SignalReceived, or take another key"
            )
        }
        guard let holder, holder.isUncalled else {
            try keep(signal.bytes, for: key, time)
            return nil
        }
        let context = HandlerCalls.ContextSource.given(signal)
        return holder.kind == Kind.standing.rawValue
            ? try calls.callStanding(holder.id, overrides: [:], context: context)
            : try calls.end(holder.id, .result, overrides: [:], context: context)
    }

    private func keep(_ value: [UInt8], for key: String, _ time: Duration) throws(HandlerError) {
        try connection.write("DELETE FROM early_signal WHERE key = ? AND expires_at <= ?", [key, now])
        let count = try connection.first(
            "SELECT count(*) FROM (SELECT 1 FROM early_signal WHERE key = ? LIMIT ?) AS waiting",
            [key, Self.maximumSignals]
        ) { $0.integer(0) }
        guard count ?? 0 < Self.maximumSignals else {
            throw HandlerError(
                .tooManySignals,
                "\(Self.maximumSignals) signals wait for a handler with the key '\(key)'; bind one, or send fewer"
            )
        }
        if BuiltInFault.forgetSignal.isOn { return }
        try connection.write(
            "INSERT INTO early_signal(key, value, expires_at) VALUES (?, ?, ?)", [key, value, now + time])
    }

    private func takeEarlySignal(_ key: String) throws(HandlerError) -> [UInt8]? {
        let first = try connection.first(
            "SELECT id, value FROM early_signal WHERE key = ? AND expires_at > ? ORDER BY id LIMIT 1",
            [key, now]
        ) { (id: $0.integer(0), value: $0.blob(1)) }
        guard let first else { return nil }
        try connection.write("DELETE FROM early_signal WHERE id = ?", [first.id])
        return first.value
    }

    private func deliverEarlySignals(
        _ key: String, to id: AnyHandlerID, _ definition: Definition, _ kind: Kind, _ scope: HandlerScope?
    ) throws {
        guard kind == .once else {
            // It may end itself, or give its key to another one.
            while try holder(of: key)?.id == id, let value = try takeEarlySignal(key) {
                _ = try calls.callStanding(id, overrides: [:], context: .given(Signal(bytes: value)))
            }
            return
        }
        // By a runner: in this step, handlers that bind each other for many signals would be nested as deeply.
        guard let value = try takeEarlySignal(key) else { return }
        try handlers.queue(id, calledWith: value, Caller(definition), scope)
    }

    /// Drops signals whose handler was not bound in time.
    ///
    /// - Returns: Whether there may be more.
    func dropExpiredSignals(limit: Int) throws(HandlerError) -> Bool {
        try connection.execute(
            "DELETE FROM early_signal WHERE id IN (SELECT id FROM early_signal WHERE expires_at <= ? LIMIT ?)",
            [now, limit]) == limit
    }
}

extension TransactionTable {
    var keys: Keys { Keys(transaction: transaction) }
}
