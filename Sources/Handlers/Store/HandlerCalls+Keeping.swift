/// Keeping handlers that could not run, or failed.
extension HandlerCalls {
    /// Keeps a handler that could not run, with what arrived for it.
    func keep(_ id: AnyHandlerID, _ unfinished: UnfinishedCall, _ stored: StoredHandler) throws(HandlerError)
    {
        let changed = try connection.execute(
            """
            UPDATE handler SET state = ?, due = ?, connected_due = NULL, lane = ?, attempts = ?, reason = ?,
                call = coalesce(?, call), input = coalesce(?, input), scope = coalesce(?, scope), lease = NULL,
                deaths = CASE WHEN ? THEN 0 ELSE deaths END
            WHERE id = ?
            """,
            [
                unfinished.state.rawValue, unfinished.due, unfinished.caller.rawValue, unfinished.attempts,
                unfinished.reason, unfinished.call, unfinished.input, unfinished.scope?.rawValue,
                unfinished.runsOrElse ? 1 : 0, id,
            ])
        try failures.add(unfinished, of: id)
        // It was taken and that was undone: a row that is not there now would be a handler lost.
        guard changed == 1 else { throw try handlers.noSuchHandler(id) }
        if let due = unfinished.due {
            transaction.newDue.add(
                unfinished.scope == nil ? try handlers.scope(of: id) : unfinished.scope, wall: due)
        }
        try forEachFeature(of: stored.relations) { (feature) throws(HandlerError) in
            try feature.kept(id, stored, unfinished)
        }
        if unfinished.state == .parked { try handlers.setLack(unfinished.lack, of: id) }
        if unfinished.isFinal { try report(unfinished, of: id) }
        if unfinished.state == .quarantined { try callLimits.trimQuarantine(after: id) }
    }

    /// Keeps one call of a standing handler in a row of its own; the handler goes on with the next.
    func storeCall(of stored: StoredHandler, _ unfinished: inout UnfinishedCall) throws(HandlerError) {
        if unfinished.state != .quarantined, try callLimits.isCrowded(stored.name) {
            unfinished.refuseToWait()
        }
        // What this call binds belongs to its chain, not to one of all calls.
        var row = HandlerRow(stored.name, stored.version, stored.arguments, trace: nil)
        (row.state, row.scope, row.caller, row.due) = (
            unfinished.state, unfinished.scope, unfinished.caller, unfinished.due
        )
        (row.attempts, row.call, row.input, row.reason) = (
            unfinished.attempts, unfinished.call, unfinished.input, unfinished.reason
        )
        row.size = stored.arguments.count + unfinished.size
        let call = try handlers.insert(row)
        try failures.add(unfinished, of: call)
        transaction.newDue.add(unfinished.scope, wall: unfinished.due)
        if unfinished.state == .parked { try handlers.setLack(unfinished.lack, of: call) }
        if let id = stored.id {
            try forEachFeature(of: stored.relations) { [unfinished] (feature) throws(HandlerError) in
                try feature.stored(call, of: id, unfinished)
            }
        }
        if unfinished.isFinal {
            try report(unfinished, of: call)
            unfinished.record(dropped: try callLimits.trimQuarantine(of: stored.name))
        }
        if stored.deaths > 0, let id = stored.id {
            try connection.write("UPDATE handler SET deaths = 0, culprit = NULL WHERE id = ?", [id])
        }
    }

    /// Quarantines a row unchanged.
    ///
    /// It is the last thing that can be done with a row: what belongs to that besides is done as far as it can be stored.
    func quarantine(_ id: AnyHandlerID, _ reason: StoredReason) throws {
        let changed = try connection.execute(
            """
            UPDATE handler SET state = \(State.quarantined.sql), due = NULL, connected_due = NULL, lease = NULL,
                reason = ?
            WHERE id = ?
            """, [reason, id])
        guard changed == 1 else { throw try handlers.noSuchHandler(id) }
        try transaction.ifStorable {
            if let relations = try handlers.relations(of: id) {
                try forEachFeature(of: relations) { (feature) throws(HandlerError) in
                    try feature.quarantined(id)
                }
            }
            try transaction.storeChanges()
        }
        try transaction.ifStorable { try failures.add(id, attempt: 0, reason) }
        try transaction.ifStorable { try report(id, reason.words) }
        try transaction.ifStorable { try callLimits.trimQuarantine(after: id) }
    }
}
