import Handlers

/// The ownership of an account: the process that raised the epoch last may write.
///
/// A process that was frozen and thaws carries an older epoch; every step checks, so it can neither commit nor, since
/// acknowledging and sending follow a commit, acknowledge or send.
struct OwnershipTable {
    let account: Int64

    /// Takes the account over from its owner.
    ///
    /// - Parameters:
    ///   - slot: The slot of this store, whose socket answers from now on.
    ///   - sent: What the owners before have told the server.
    /// - Returns: The new epoch.
    func takeOver(
        owner: String, slot: Int, past sent: SentProgress?, in step: borrowing Step
    ) throws(HandlerError) -> Int64 {
        let current = try epoch(in: step)
        // A process that was killed left its stream marked as live; what is committed from here on has no stream yet.
        try step.write("UPDATE session SET open_number = NULL WHERE account = ?", account)
        if BuiltInFault.loseTimer.isOn {
            try step.write("UPDATE handler SET due = NULL WHERE due > ?", step.now)
        }
        return try step.first(
            """
            INSERT INTO ownership(account, epoch, owner, slot) VALUES (?, ?, ?, ?)
            ON CONFLICT(account) DO UPDATE SET
                epoch = excluded.epoch, owner = excluded.owner, slot = excluded.slot RETURNING epoch
            """, account, max(sent?.epoch ?? 0, current) + 1, owner, slot
        ) { $0.integer(0) } ?? 0
    }

    /// The slot of the owner's store; nil when nobody owns the account.
    func slot(in snapshot: borrowing Snapshot) throws(HandlerError) -> Int? {
        try snapshot.first("SELECT slot FROM ownership WHERE account = ?", account) {
            $0.optionalInteger(0).map(Int.init)
        } ?? nil
    }

    func epoch(in step: borrowing Step) throws(HandlerError) -> Int64 {
        let epoch =
            try step.first("SELECT epoch FROM ownership WHERE account = ?", account) { $0.integer(0) } ?? 0
        guard Self.epochs.contains(epoch) else {
            throw HandlerError(
                .databaseCorrupt,
                "the database holds the epoch \(epoch) of account \(account), which no program has counted to; put a backup back"
            )
        }
        return epoch
    }

    /// The range of epochs.
    static let epochs: Range<Int64> = 0..<(1 << 62)

    /// Refuses a step of a process that no longer owns the account.
    func check(epoch: Int64, in step: borrowing Step) throws {
        if BuiltInFault.noFence.isOn { return }
        let current = try self.epoch(in: step)
        guard current == epoch else {
            throw AccountError(
                .ownershipLost,
                "another process took this account over (epoch \(current), ours was \(epoch)); nothing more is committed, acknowledged or sent from here"
            )
        }
    }

    /// Records that no process owns the account; the epoch stays.
    func release(epoch: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE ownership SET owner = NULL, slot = NULL WHERE account = ? AND epoch = ?", account, epoch)
    }
}
