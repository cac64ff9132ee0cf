/// Chains with a limit: their members, and the alarm that ends these.
///
/// A member is a row of `chain_member` beside the handler, which has the relation `inChain`. Most handlers have neither, and pay nothing.
package struct Chains: HandlerFeature {
    static let relations = Relations.inChain
    let transaction: Transaction

    /// The most handlers that one call of an alarm ends. The next call follows at once.
    static let mostEnded = 200

    // MARK: Binding

    func limiting<R>(to limit: Duration, _ body: () throws -> R) throws -> R {
        let limit = max(.zero, limit)
        // Stored first: a part of `body` may be undone, and the rest goes on.
        let inserted = try connection.insert(
            "INSERT INTO chain_limit(deadline, duration) VALUES (?, ?)",
            [now + limit, limit.milliseconds])
        let chain = inserted
        // Its first handler may end before `body` binds the next one.
        transaction.features.openChains.insert(chain)
        let result = Result { try transaction.binding(.limited(chain), body) }
        transaction.features.openChains.remove(chain)
        if connection.isUsable { try dropChainIfEmpty(chain) }
        return try result.get()
    }

    func prepare(_ row: inout HandlerRow) throws(HandlerError) {
        row.chain = try chainOfNew
        if row.chain == nil { row.relations.remove(.inChain) }
    }

    /// The chain to which a handler belongs that is bound now; nil for none with a limit.
    private var chainOfNew: Int64? {
        get throws(HandlerError) {
            if case .limited(let chain) = transaction.chainRule { return chain }
            guard let running = transaction.running?.id, !BuiltInFault.forgetChain.isOn else { return nil }
            return try chain(of: running)
        }
    }

    private func chain(of member: AnyHandlerID) throws(HandlerError) -> Int64? {
        try connection.first("SELECT chain FROM chain_member WHERE handler = ?", [member]) { $0.integer(0) }
    }

    func bound(_ id: AnyHandlerID, _ row: HandlerRow) throws(HandlerError) {
        guard let chain = row.chain else { return }
        let ends = !row.isKept && !registry.isOfModule(row.name)
        try connection.write(
            "INSERT INTO chain_member(handler, chain, ends) VALUES (?, ?, ?)", [id, chain, ends ? 1 : 0])
        if ends { try setAlarm(of: chain) }
    }

    /// Lets a member end with its chain: it was called, and waits for a runner or a repair.
    func kept(_ id: AnyHandlerID, _ stored: StoredHandler, _ unfinished: UnfinishedCall) throws(HandlerError)
    {
        if registry.isOfModule(stored.name) { return }
        let changed = try connection.execute(
            "UPDATE chain_member SET ends = 1 WHERE handler = ? AND ends = 0", [id])
        if changed == 1, let chain = try chain(of: id) { try setAlarm(of: chain) }
    }

    // MARK: The end of its time

    /// Schedules the alarm of a chain, unless it is.
    private func setAlarm(of chain: Int64) throws(HandlerError) {
        let deadline = try connection.first(
            "SELECT deadline FROM chain_limit WHERE id = ? AND alarm IS NULL", [chain]
        ) { $0.timestamp(0) }
        guard let deadline else { return }
        let handler = try ChainAlarm(chain: chain).durable
        let alarm = try transaction.binding(.outsideOfChains) { () throws(HandlerError) in
            try handlers.bind(handler, kind: .once, timing: Timing(at: deadline, nil))
        }
        try connection.write("UPDATE chain_limit SET alarm = ? WHERE id = ?", [alarm, chain])
    }

    /// If not, the time of its chain is over, and a runner invalidates it.
    func mayCall(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        guard let limit = try outlivedLimit(of: id) else { return true }
        try invalidateLater(id, Self.reason(limit))
        return false
    }

    /// Returns the limit of a chain whose time is over, for a member that ends with it; else nil.
    func outlivedLimit(of id: AnyHandlerID) throws(HandlerError) -> Duration? {
        try connection.first(
            "SELECT chain_limit.duration FROM \(Self.outlived) WHERE chain_member.handler = ?", [now, id]
        ) { $0.duration(0) }
    }

    /// The members that end with their chain and whose time is over.
    private static let outlived = """
        chain_member JOIN chain_limit ON chain_limit.id = chain_member.chain
            AND chain_member.ends = 1 AND chain_limit.deadline <= ?
        """

    /// Whether a row is such a member.
    package static let isOver = """
        relations & \(Relations.inChain.rawValue) <> 0
            AND EXISTS (SELECT 1 FROM \(outlived) WHERE chain_member.handler = handler.id)
        """

    /// The call of a handler that ends because the time of its chain is over.
    private static let limitCall = StoredCall(.timeout, reason: .chainLimit)

    private static func reason(_ limit: Duration) -> String { "the limit of its chain, \(limit), has passed" }

    /// Has some members of a chain invalidated whose time is over, and schedules the alarm for the others.
    func endMembers(of chain: Int64) throws(HandlerError) {
        try connection.write("UPDATE chain_limit SET alarm = NULL WHERE id = ?", [chain])
        let limit = try connection.first("SELECT duration FROM chain_limit WHERE id = ?", [chain]) {
            $0.duration(0)
        }
        let members = try connection.all(
            "SELECT handler FROM chain_member WHERE chain = ? AND ends = 1 ORDER BY handler LIMIT ?",
            [chain, Self.mostEnded]
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        let reason = Self.reason(limit ?? .zero)
        for member in members { try invalidateLater(member, reason) }
        if members.count == Self.mostEnded { try setAlarm(of: chain) }
        log(.info, .handlers) {
            "the time of a chain of handlers is over: \(members.count) of them are invalidated, for \(reason)"
        }
    }

    /// Has a runner invalidate a member.
    private func invalidateLater(_ id: AnyHandlerID, _ reason: String) throws(HandlerError) {
        try leaveChain(id)
        try handlers.remove(.inChain, from: id)
        // Its invalidation has started, and continues.
        if try invalidations.isToBeInvalidated(id) { return }
        try invalidations.invalidateLater(id, Self.limitCall, because: reason)
    }

    /// Has a runner cancel handlers, each in its turn.
    ///
    /// Those whose chain's time is over end by that, whether its alarm has come to them or not.
    ///
    /// - Parameter rows: Selects them by the row of the handler that has ended.
    func cancelLater(_ rows: String, _ ended: AnyHandlerID) throws(HandlerError) {
        let (canceled, over) = (StoredCall(.invalidated, reason: .cancelled), Self.limitCall)
        var count = try invalidations.makeDue(
            over, where: "id IN (\(rows)) AND \(Self.isOver)", [ended, now])
        count += try invalidations.makeDue(
            canceled, where: "id IN (\(rows)) AND call IS DISTINCT FROM ?", [ended, over.bytes()])
        guard count > 0 else { return }
        transaction.newDue.isAnywhere = true
        transaction.newDue.isLeaseLost = true
    }

    // MARK: Leaving

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        try leaveChain(id)
    }

    /// Removes a handler from its chain, and the chain with its last one.
    private func leaveChain(_ id: AnyHandlerID) throws(HandlerError) {
        guard let chain = try chain(of: id) else { return }
        try connection.write("DELETE FROM chain_member WHERE handler = ?", [id])
        try dropChainIfEmpty(chain)
    }

    private func dropChainIfEmpty(_ chain: Int64) throws(HandlerError) {
        let isUsed = try connection.first("SELECT 1 FROM chain_member WHERE chain = ? LIMIT 1", [chain]) {
            _ in
            true
        }
        if isUsed != nil || transaction.features.openChains.contains(chain) { return }
        let alarm =
            try connection.first("SELECT alarm FROM chain_limit WHERE id = ?", [chain]) {
                $0.optionalInteger(0).map(AnyHandlerID.init(rawValue:))
            } ?? nil
        try connection.write("DELETE FROM chain_limit WHERE id = ?", [chain])
        // It may have been discarded.
        guard let alarm, try handlers.relations(of: alarm) != nil else { return }
        let stored = try handlers.claim(alarm, .any)
        try handlers.bury(alarm, stored, .invalidated, .cancelled)
    }
}

extension TransactionTable {
    var chains: Chains { Chains(transaction: transaction) }
}
