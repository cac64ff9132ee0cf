/// Handlers that are called when others have ended.
struct Joins: HandlerFeature {
    static let relations: Relations = [.child, .parent]
    let transaction: Transaction

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
        try connection.write(
            "INSERT INTO handler_join(handler, waiting, needed) VALUES (?, ?, ?)",
            [parent, children.count, needed])
        for (position, child) in children.enumerated() { try add(child, to: parent, at: position) }
        try callIfComplete(parent)
    }

    private func add(_ child: AnyHandlerID, to parent: AnyHandlerID, at position: Int) throws {
        let relation = Relations.child.rawValue
        let changed = try connection.execute(
            """
            UPDATE handler SET relations = relations | ? WHERE id = ? AND kind = \(Kind.once.sql)
                AND (relations & ?) = 0
            """, [relation, child, relation])
        // One that has ended, or that is or was the child of a join, was not changed.
        if changed == 0, let other = try self.parent(of: child) { throw isJoined(child, by: other, parent) }
        try connection.write(
            "INSERT INTO join_child(handler, parent, position) VALUES (?, ?, ?)", [child, parent, position])
        if changed == 1 { return }
        guard let ending = try Step(transaction).ending(of: child) else {
            guard let relations = try handlers.relations(of: child) else {
                throw try handlers.noSuchHandler(child)
            }
            guard relations.contains(.child) else {
                throw HandlerError(
                    .noSuchHandler, "the handler \(child) is a standing one, which does not end; join others")
            }
            return
        }
        try count(ending.outcome, of: child)
    }

    private func parent(of child: AnyHandlerID) throws(HandlerError) -> AnyHandlerID? {
        try connection.first("SELECT parent FROM join_child WHERE handler = ?", [child]) {
            AnyHandlerID(rawValue: $0.integer(0))
        }
    }

    private func isJoined(
        _ child: AnyHandlerID, by other: AnyHandlerID, _ parent: AnyHandlerID
    ) -> HandlerError {
        HandlerError(
            .alreadyJoined,
            other == parent
                ? "the handler \(child) is named twice among the handlers to wait for; name it once"
                : "the handler \(other) waits for the handler \(child) already, and only one can; wait for the handler \(other) instead"
        )
    }

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        if stored.relations.contains(.parent) { try leaveChildren(of: id) }
        if stored.relations.contains(.child) { try childEnded(id, outcome) }
    }

    /// Counts the ending of a child, and calls its parent if it was the last one that counts.
    ///
    /// What the parent reads of it is its ending, which stays as long as the parent waits.
    private func childEnded(_ child: AnyHandlerID, _ outcome: Outcome) throws(HandlerError) {
        guard try count(outcome, of: child) else { return }
        let parent = try connection.first(
            """
            SELECT handler FROM handler_join
            WHERE handler = (SELECT parent FROM join_child WHERE handler = ?) AND \(Self.isComplete)
            """, [child]
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        if let parent { try callJoined(parent) }
    }

    /// - Returns: False when the parent has ended.
    @discardableResult
    private func count(_ outcome: Outcome, of child: AnyHandlerID) throws(HandlerError) -> Bool {
        let changed = try connection.execute(
            """
            UPDATE handler_join SET waiting = waiting - 1, needed = needed - ?
            WHERE handler = (SELECT parent FROM join_child WHERE handler = ?)
            """, [outcome == .result ? 1 : 0, child])
        return changed == 1
    }

    private static let isComplete = "(waiting = 0 OR coalesce(needed <= 0 OR waiting < needed, FALSE))"

    private func callIfComplete(_ parent: AnyHandlerID) throws(HandlerError) {
        let isComplete = try connection.first(
            "SELECT 1 FROM handler_join WHERE handler = ? AND \(Self.isComplete)", [parent]
        ) { _ in true }
        if isComplete == true { try callJoined(parent) }
    }

    private func callJoined(_ parent: AnyHandlerID) throws(HandlerError) {
        let found = try connection.first(
            "SELECT name, version, state, call, scope, relations FROM handler WHERE id = ?", [parent]
        ) {
            (
                name: $0.foreignText(0), version: $0.integer(1),
                // One that failed and is tried again is not called for those that end meanwhile.
                isUncalled: $0.integer(2) == State.pending.rawValue && $0.isNull(3),
                scope: $0.optionalText(4).map { HandlerScope($0) },
                relations: Relations(rawValue: $0.integer(5))
            )
        }
        guard let found, found.isUncalled else { return }
        // A child may end because the time of their chain is over: then a runner ends this one, too.
        let isOver = found.relations.contains(.inChain) ? try chains.outlivedLimit(of: parent) != nil : false
        let definition = registry.definition(named: found.name)
        guard !isOver, !transaction.isDeep, !transaction.runsNothing, let definition,
            found.version <= definition.version
        else {
            let input = try ArgumentCoding.encode(Joined(handler: parent), named: "the children")
            return try handlers.queue(parent, calledWith: input, handlers.caller(of: found.name), found.scope)
        }
        do {
            _ = try calls.end(parent, .result, overrides: [:], context: .given(Joined(handler: parent)))
        } catch {
            // What the handler throws is stored; this is the store's own error.
            throw error as? HandlerError ?? HandlerError(.sql, plainReason(error), cause: error)
        }
    }

    /// Has the children invalidated that have not ended: their parent has.
    private func leaveChildren(of parent: AnyHandlerID) throws(HandlerError) {
        let waiting = try connection.first("SELECT waiting FROM handler_join WHERE handler = ?", [parent]) {
            $0.integer(0)
        }
        if let waiting, waiting > 0 {
            try chains.cancelLater("SELECT handler FROM join_child WHERE parent = ?", parent)
        }
        try connection.write("DELETE FROM join_child WHERE parent = ?", [parent])
        try connection.write("DELETE FROM handler_join WHERE handler = ?", [parent])
    }
}

extension TransactionTable {
    var joins: Joins { Joins(transaction: transaction) }
}
