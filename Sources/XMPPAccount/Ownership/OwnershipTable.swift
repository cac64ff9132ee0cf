import Handlers

/// Who may write for an account: the process that raised the epoch last.
///
/// A process that was frozen and thaws carries an older epoch; every step checks, so it can neither commit nor, since
/// acknowledging and sending follow a commit, acknowledge or send.
struct OwnershipTable {
    let account: Int64

    /// Takes the account over from whoever had it.
    ///
    /// - Returns: The new epoch.
    func takeOver(owner: String, in step: borrowing Step) throws(HandlerError) -> Int64 {
        // A process that was killed left its stream marked as live; what is committed from here on has no stream yet.
        try step.execute("UPDATE session SET live = NULL WHERE account = ?", account)
        return try step.first(
            """
            INSERT INTO ownership(account, epoch, owner) VALUES (?, 1, ?)
            ON CONFLICT(account) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner RETURNING epoch
            """, account, owner
        ) { (row) throws(HandlerError) in row.integer(0) } ?? 0
    }

    /// Refuses a step of a process that no longer owns the account.
    func check(epoch: Int64, in step: borrowing Step) throws {
        if Mutation.noFence.isOn { return }
        let current = try step.first("SELECT epoch FROM ownership WHERE account = ?", account) {
            (row) throws(HandlerError) in row.integer(0)
        }
        guard current == epoch else {
            throw AccountError(
                .ownershipLost,
                "another process took this account over (epoch \(current ?? 0), ours was \(epoch)); nothing more is committed, acknowledged or sent from here"
            )
        }
    }

    /// Notes that nobody owns the account; the epoch stays.
    func release(epoch: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.execute("UPDATE ownership SET owner = NULL WHERE account = ? AND epoch = ?", account, epoch)
    }
}
