/// What processes leave that died or closed the store.
extension SQLConnection {
    /// Frees what a process that died had leased, and counts its death against what it ran; in a transaction of its own.
    ///
    /// - Returns: Whether there was anything.
    @discardableResult
    func recover(slot: Int, _ runningCall: RunningCall?, now: Timestamp) throws(HandlerError) -> Bool {
        let isHeld = try isHeld(slot: slot)
        guard isHeld || runningCall != nil, !BuiltInFault.keepLease.isOn else { return false }
        try freeing(slot) { () throws(HandlerError) in
            try execute(
                """
                UPDATE handler SET state = \(Transaction.State.pending.sql), due = ?1, lease = NULL,
                    deaths = CASE WHEN died_at > ?2 THEN deaths + 1 ELSE 1 END,
                    attempts = CASE WHEN died_at > ?2 THEN attempts ELSE attempts - deaths END, died_at = ?1
                WHERE \(Transaction.State.leased.condition) AND lease = ?3
                """,
                [now, now - RetryPolicy.deathWindow, slot])
            if let runningCall { try count(runningCall, now) }
        }
        return true
    }

    /// Gives back what this process still holds when its store goes without anybody's death.
    func leave(slot: Int, now: Timestamp) throws(HandlerError) {
        guard try isHeld(slot: slot) else { return }
        try freeing(slot) { () throws(HandlerError) in
            try execute(
                """
                UPDATE handler SET state = \(Transaction.State.pending.sql), due = ?, lease = NULL
                WHERE \(Transaction.State.leased.condition) AND lease = ?
                """, [now, slot])
        }
    }

    /// Looks before anything is locked: most slots leave nothing.
    private func isHeld(slot: Int) throws(HandlerError) -> Bool {
        try firstOnce(
            """
            SELECT 1 FROM handler WHERE \(Transaction.State.leased.condition) AND lease = ?1
            UNION ALL SELECT 1 FROM connected_slot WHERE slot = ?1
            """, [slot]
        ) { _ in true } ?? false
    }

    private func freeing(_ slot: Int, _ body: () throws(HandlerError) -> Void) throws(HandlerError) {
        try begin()
        try rollingBackOnError { () throws(HandlerError) in
            try body()
            try execute("DELETE FROM connected_slot WHERE slot = ?", [slot])
            try commit()
        }
    }

    private func count(_ runningCall: RunningCall, _ now: Timestamp) throws(HandlerError) {
        let digest = Int64(bitPattern: runningCall.digest)
        // For a standing handler only deaths in the same call count together.
        try execute(
            """
            UPDATE handler SET
                deaths = CASE WHEN died_at > ?3
                    AND (kind = \(Transaction.Kind.once.sql) OR culprit IS NOT DISTINCT FROM ?1)
                    THEN deaths + 1 ELSE 1 END,
                attempts = CASE WHEN kind <> \(Transaction.Kind.once.sql) THEN attempts
                    WHEN died_at > ?3 THEN attempts + 1 ELSE attempts - deaths + 1 END,
                culprit = CASE WHEN kind = \(Transaction.Kind.standing.sql) THEN ?1 END, died_at = ?4
            WHERE id = ?2
            """, [digest, runningCall.handler, now - RetryPolicy.deathWindow, now])
    }
}
