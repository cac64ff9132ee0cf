import Platform

// Facts about one file: its number, and the boot in which commits were made to it without a sync.
//
// A copy that was put back is older than what others have seen: servers have acknowledged more, and external services have
// done what is yet to be done here. A copy beside the original does the same things a second time. With `synchronous: .normal`
// a loss of power does the same as a backup that is put back. None of this can be seen in the rows. The number of the file and
// the id of the boot show it. A table that depends on it compares ``Step/copies``.

/// The row of the table `place`.
private struct StoredPlace: Equatable {
    /// Number of the file.
    let inode: Int64?
    /// The boot in which commits were made without a sync; nil while all commits are synced.
    let boot: String?

    /// Whether a loss of power may have undone commits.
    func mayLackCommits(in current: String?) -> Bool {
        guard let boot, let current else { return false }
        return boot != current
    }

    /// Returns the row as it has to be while a store has the file open.
    ///
    /// - Parameters:
    ///   - inode: The new number of the file; nil if it is not new.
    ///   - current: The running boot; nil if it is unknown.
    func opened(movedTo inode: Int64?, in current: String?, _ synchronous: HandlerStore.Synchronous) -> Self {
        guard let current else { return StoredPlace(inode: inode ?? self.inode, boot: boot) }
        // Another process may commit without syncs while this one does not.
        let isUnsynced = synchronous == .normal || boot == current
        return StoredPlace(inode: inode ?? self.inode, boot: isUnsynced ? current : nil)
    }
}

extension SQLiteDatabase {
    /// Frees what a copy says about processes that never had it open, and counts a file that may be older than what others know.
    func recognizeCopy(
        in store: HandlerStore, _ synchronous: HandlerStore.Synchronous, _ currentBoot: () -> String?
    ) throws {
        let found = try store.betweenSteps { (file) throws(HandlerError) in
            try file.firstOnce(
                """
                SELECT inode, boot, EXISTS (SELECT 1 FROM handler WHERE \(Transaction.State.leased.condition))
                    OR EXISTS (SELECT 1 FROM connected_slot) FROM place
                """
            ) { row in
                (
                    place: StoredPlace(inode: row.optionalInteger(0), boot: row.optionalText(1)),
                    hasSlots: row.integer(2) != 0
                )
            }
        }
        guard let found else { return }
        if found.hasSlots { try freeForgotten(in: store) }
        let inode = processes?.fileNumber.flatMap {
            found.place.inode == $0 || processes?.isSeenOtherwise(than: $0) == true ? nil : $0
        }
        // The usual start with FULL does not need to know the boot.
        let boot = synchronous == .normal || found.place.boot != nil ? currentBoot() : nil
        guard found.place.opened(movedTo: inode, in: boot, synchronous) != found.place else { return }
        // With NORMAL, too: otherwise a loss of power would take the mark back along with the commits that it marks.
        try store.betweenSteps { (file) throws(HandlerError) in try file.sync(.full) }
        try settle(store, movedTo: inode, in: boot, synchronous)
        try store.betweenSteps { (file) throws(HandlerError) in try file.sync(synchronous) }
    }

    /// Brings the row of `place` up to date.
    private func settle(
        _ store: HandlerStore, movedTo inode: Int64?, in boot: String?,
        _ synchronous: HandlerStore.Synchronous
    ) throws {
        try store.step { step in
            // Looks again: another process may have been first.
            let known = try step.first("SELECT inode, boot FROM place") {
                StoredPlace(inode: $0.optionalInteger(0), boot: $0.optionalText(1))
            }
            guard let known else { return }
            let place = known.opened(movedTo: inode, in: boot, synchronous)
            guard known != place else { return }
            let hasMoved = place.inode != known.inode
            if hasMoved || known.mayLackCommits(in: boot) { try step.recordCopy() }
            if hasMoved {
                step.transaction.log(.warning, .store) {
                    "the database was copied, moved or put back from a backup: what others know of it is newer"
                }
            } else if known.mayLackCommits(in: boot) {
                step.transaction.log(.warning, .store) {
                    "the machine was started again, and the newest commits were not synced to the disk: what others know of the database may be newer"
                }
            }
            try step.execute("UPDATE place SET inode = ?, boot = ?", place.inode, place.boot)
        }
    }

    /// Frees the leases of slots that were left cleanly since the copy was made: no other process checks those.
    private func freeForgotten(in store: HandlerStore) throws {
        // Outside of a step, for this is so beside every store that lives: opening must not wait for a writer.
        let slots = try store.betweenSteps { (file) throws(HandlerError) in
            try file.allOnce(
                """
                SELECT DISTINCT lease FROM handler WHERE \(Transaction.State.leased.condition) AND lease IS NOT NULL
                UNION SELECT slot FROM connected_slot
                """
            ) { Int($0.integer(0)) }
        }
        let now = store.time.wall()
        for slot in slots {
            try processes?.whileVacant(slot) { () throws(HandlerError) in
                try store.betweenSteps { (file) throws(HandlerError) in try file.leave(slot: slot, now: now) }
            }
        }
    }
}

extension SQLConnection {
    /// Records the inode of a database that was just created or migrated.
    func settle(in inode: Int64?) throws(HandlerError) {
        try executeOnce("UPDATE place SET inode = ? WHERE inode IS NULL", [inode])
    }
}

extension Step {
    /// The number of times that this database was found to be a copy: restored from a backup, moved elsewhere, or opened
    /// after a boot that may have undone commits.
    ///
    /// A module that shares a count or a key with a peer stores this number, and starts again when the number has changed.
    package var copies: Int64 {
        get throws(HandlerError) { try first("SELECT copies FROM place") { $0.integer(0) } ?? 0 }
    }

    /// Notes that this database is a copy. Handlers that are bound from now on have other idempotency keys than those that
    /// the original has bound, or will bind, under the same ids; those that are in the copy keep theirs.
    package func recordCopy() throws(HandlerError) {
        let newest = try newestID(in: "handler")
        try execute("DELETE FROM identity WHERE newest = ?", newest)
        try execute("INSERT INTO identity(name, newest) VALUES (?, ?)", Self.makeName(), newest)
        try execute("UPDATE place SET copies = copies + 1")
    }

    /// Returns 16 random bytes in hexadecimal digits.
    package static func makeName() -> String {
        var generator = Randomness()
        return (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }.hexadecimal
    }
}
