/// Handlers that are called when others have ended.
extension Transaction {
    /// The maximum number of handlers for which one waits: all that have not ended are canceled in one step.
    private static let maximumChildren = 10_000

    func join(_ parent: AnyHandlerID, _ rule: JoinRule, _ children: [AnyHandlerID]) throws {
        guard children.count <= Self.maximumChildren else {
            throw HandlerError(
                .tooManyChildren,
                "a handler can wait for \(Self.maximumChildren) others, not for \(children.count); join them in groups, and the groups"
            )
        }
        let needed: Int? =
            switch rule {
            case .all: nil
            case .any: 1
            case .quorum(let number): max(1, number)
            }
        try connection.execute(
            "INSERT INTO handler_join(handler, waiting, needed) VALUES (?, ?, ?)",
            [parent, children.count, needed])
        try add(.parent, to: parent)
        for (position, child) in children.enumerated() { try add(child, to: parent, at: position) }
        try callIfComplete(parent)
    }

    private func add(_ child: AnyHandlerID, to parent: AnyHandlerID, at position: Int) throws {
        let insert =
            "INSERT INTO join_child(handler, parent, position, name) VALUES (?, ?, ?, ?)"
        let known = try connection.first("SELECT name, kind FROM handler WHERE id = ?", [child]) {
            (name: $0.text(0), kind: $0.integer(1))
        }
        if let known {
            guard known.kind == Kind.once.rawValue else {
                throw HandlerError(
                    .noSuchHandler, "the handler \(child) is a standing one, which does not end; join others")
            }
            try connection.execute(insert, [child, parent, position, known.name])
            try add(.child, to: child)
            return
        }
        guard let ending = try Step(self).ending(of: child) else { throw try noSuchHandler(child) }
        try connection.execute(insert, [child, parent, position, ending.name])
        try record(child, ending.outcome, ending.reason, ending.returned)
    }

    /// Counts the ending of a child, and calls its parent if it was the last one that counts.
    func childEnded(
        _ child: AnyHandlerID, _ outcome: Outcome, _ reason: InvalidationReason?, _ result: [UInt8]?
    ) throws(HandlerError) {
        if let parent = try record(child, outcome, reason, result) { try callIfComplete(parent) }
    }

    /// - Returns: The parent; nil when that has ended.
    @discardableResult
    private func record(
        _ child: AnyHandlerID, _ outcome: Outcome, _ reason: InvalidationReason?, _ returned: [UInt8]?
    ) throws(HandlerError) -> AnyHandlerID? {
        let parent = try connection.first("SELECT parent FROM join_child WHERE handler = ?", [child]) {
            AnyHandlerID(rawValue: $0.integer(0))
        }
        guard let parent else { return nil }
        try connection.execute(
            "UPDATE join_child SET outcome = ?, reason = ?, result = ? WHERE handler = ?",
            [outcome.rawValue, reason?.rawValue, returned, child])
        try connection.execute(
            "UPDATE handler_join SET waiting = waiting - 1, needed = needed - ? WHERE handler = ?",
            [outcome == .result ? 1 : 0, parent])
        return parent
    }

    private func callIfComplete(_ parent: AnyHandlerID) throws(HandlerError) {
        let isComplete = try connection.first(
            """
            SELECT waiting = 0 OR coalesce(needed <= 0 OR waiting < needed, FALSE) FROM handler_join WHERE handler = ?
            """, [parent]
        ) { $0.integer(0) != 0 }
        guard isComplete == true else { return }
        let found = try connection.first(
            "SELECT name, version, state, call, scope FROM handler WHERE id = ?", [parent]
        ) {
            (
                name: $0.text(0), version: $0.integer(1),
                // One that failed and is tried again is not called for those that end meanwhile.
                isUncalled: $0.integer(2) == State.pending.rawValue && $0.isNull(3),
                scope: $0.optionalText(4).map { HandlerScope($0) }
            )
        }
        guard let found, found.isUncalled else { return }
        let definition = registry.definition(named: found.name)
        guard !isDeep, !runsNothing, let definition, found.version <= definition.version else {
            let input = try ArgumentCoding.encode(Joined(handler: parent), named: "the children")
            return try queue(parent, calledWith: input, definition.map(Caller.init) ?? .inStep, found.scope)
        }
        do {
            _ = try end(parent, .result, overrides: [:], context: .given(Joined(handler: parent)))
        } catch {
            // What the handler throws is stored; this is the store's own error.
            throw error as? HandlerError ?? HandlerError(.sql, plainReason(error), cause: error)
        }
    }

    /// Has the children invalidated that have not ended: their parent has.
    func leaveChildren(of parent: AnyHandlerID) throws(HandlerError) {
        let waiting = try connection.first("SELECT waiting FROM handler_join WHERE handler = ?", [parent]) {
            $0.integer(0)
        }
        if let waiting, waiting > 0 {
            try cancelLater("SELECT handler FROM join_child WHERE parent = ? AND outcome IS NULL", parent)
        }
        try connection.execute("DELETE FROM join_child WHERE parent = ?", [parent])
        try connection.execute("DELETE FROM handler_join WHERE handler = ?", [parent])
    }

    /// Has a runner invalidate handlers, each in its turn.
    ///
    /// - Parameter rows: Selects them by the row of the handler that has ended.
    func cancelLater(_ rows: String, _ ended: AnyHandlerID) throws(HandlerError) {
        let changed = try connection.execute(
            """
            UPDATE handler SET state = \(State.pending.sql), due = ?, connected_due = NULL, lane = ?, call = ?,
                attempts = 0, deaths = 0, reason = NULL, lease = NULL
            WHERE id IN (\(rows))
            """,
            [now, Caller.inStep.rawValue, StoredCall(.invalidated, reason: .cancelled).bytes(), ended])
        guard changed > 0 else { return }
        newDue.isAnywhere = true
        newDue.isLeaseLost = true
    }
}
