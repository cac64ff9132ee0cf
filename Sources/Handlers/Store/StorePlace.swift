import Platform

// What is true of one file only: who runs what, and what everybody else believes of its rows.
//
// A copy that was put back is older than what others have seen: servers have acknowledged more, external services have
// done what is yet to be done here. A copy beside the original does the same things a second time. Neither can be seen
// in the rows; the file's number shows it. What depends on it compares ``Step/copies``.
extension HandlerStore {
    /// Frees what a copy says about processes that never had it open, and notes that it is one.
    func recognizeCopy() throws {
        let inode = slot.fileNumber
        let found = try connectionState { (connection) throws(HandlerError) in
            try connection.firstOnce(
                """
                SELECT inode, EXISTS (SELECT 1 FROM handler WHERE \(Transaction.State.leased.condition))
                    OR EXISTS (SELECT 1 FROM connected_slot) FROM place
                """
            ) { (row) throws(HandlerError) in (inode: row.optionalInteger(0), hasSlots: row.integer(1) != 0) }
        }
        guard let found else { return }
        if found.hasSlots { try freeForgotten() }
        guard let inode, found.inode != inode, !slot.isSeenOtherwise(than: inode) else { return }
        try step { step in
            // Looks again: another process may have been first.
            let known = try step.first("SELECT inode FROM place") { (row) throws(HandlerError) in
                row.optionalInteger(0)
            }
            guard known != inode else { return }
            try step.recordCopy()
            step.transaction.log(.warning, .store) {
                "the database was copied, moved or put back from a backup: what others know of it is newer"
            }
            try step.execute("UPDATE place SET inode = ?", inode)
        }
    }

    /// Frees the leases of slots that were left cleanly since the copy was made: no other process checks those.
    private func freeForgotten() throws {
        // Outside of a step, for this is so beside every store that lives: opening must not wait for a writer.
        let slots = try connectionState { (connection) throws(HandlerError) in
            try connection.allOnce(
                """
                SELECT DISTINCT lease FROM handler WHERE \(Transaction.State.leased.condition) AND lease IS NOT NULL
                UNION SELECT slot FROM connected_slot
                """
            ) { (row) throws(HandlerError) in Int(row.integer(0)) }
        }
        let now = time.wall()
        for slot in slots {
            try self.slot.whileVacant(slot) { () throws(HandlerError) in
                try connectionState { (connection) throws(HandlerError) in
                    try connection.leave(slot: slot, now: now)
                }
            }
        }
    }
}

extension Connection {
    /// Notes where a database lies that has only just been made, or brought up to date.
    func settle(in inode: Int64?) throws(HandlerError) {
        try executeOnce("UPDATE place SET inode = ? WHERE inode IS NULL", [inode])
    }
}

extension Step {
    /// The number of times that this database was found to be a copy: restored from a backup, or moved elsewhere.
    ///
    /// A module that shares a count or a key with a peer stores this number, and starts again when the number has changed.
    package var copies: Int64 {
        get throws(HandlerError) {
            try first("SELECT copies FROM place") { (row) throws(HandlerError) in row.integer(0) } ?? 0
        }
    }

    /// Notes that this database is a copy. Handlers that are bound from now on have other idempotency keys than those that
    /// the original has bound, or will bind, under the same ids; those that are in the copy keep theirs.
    package func recordCopy() throws(HandlerError) {
        let newest =
            try first("SELECT seq FROM sqlite_sequence WHERE name = 'handler'") {
                (row) throws(HandlerError) in row.integer(0)
            } ?? 0
        try execute("DELETE FROM identity WHERE newest = ?", newest)
        try execute("INSERT INTO identity(name, newest) VALUES (?, ?)", Self.makeName(), newest)
        try execute("UPDATE place SET copies = copies + 1")
    }

    /// Returns 16 random bytes in hexadecimal digits.
    private static func makeName() -> String {
        var generator = Randomness()
        return (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }.hexadecimal
    }
}
