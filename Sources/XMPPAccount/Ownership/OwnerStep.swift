import Handlers

/// The only step that may change what belongs to an account's stream.
///
/// It throws once another process has taken the account over. Acknowledging and sending follow a commit, so a process that
/// was frozen during the takeover can do neither.
struct OwnerStep: Sendable {
    // No other code of an owner reaches the store.
    private let store: HandlerStore
    private let table: OwnershipTable
    /// The epoch of this process's takeover.
    let epoch: Int64
    /// How often commits had been found missing at the takeover.
    private let losses: Int

    /// - Parameter losses: ``/Handlers/HandlerStore/losses`` in the step that took the account over.
    init(store: HandlerStore, table: OwnershipTable, epoch: Int64, losses: Int = 0) {
        (self.store, self.table, self.epoch, self.losses) = (store, table, epoch, losses)
    }

    private func fence(_ step: borrowing Step) throws {
        guard store.losses == losses else {
            throw AccountError(
                .ownershipLost,
                "the database lacks what this process has committed and told the server; the account is taken over anew",
                cause: LostCommits())
        }
        try table.check(epoch: epoch, in: step)
    }

    /// Checks the epoch, then runs `body`, in one transaction.
    ///
    /// - Throws: ``AccountError`` `ownershipLost` before `body` runs; ``/Handlers/HandlerError`` when the store fails; errors of
    ///   `body`.
    func run<R>(_ body: (borrowing Step) throws -> R) throws -> R {
        try store.step { step in
            // 0. Fence.
            try fence(step)
            return try body(step)
        }
    }

    /// Returns the same step, which other accounts of this thread may share.
    func grouped(_ body: @escaping (borrowing Step) throws -> Void) -> GroupedStep {
        GroupedStep(in: store) { step in
            // 0. Fence.
            try fence(step)
            try body(step)
        }
    }

    /// Throws ``AccountError`` `ownershipLost` if another process has taken the account over.
    func check() throws { try run { _ in } }

    /// Gives the account up, after the end of a stream. Without one there is nothing to fence: a newer epoch stays as it is.
    func release(suspendedAt connectedTime: Duration?) throws {
        guard let connectedTime else { return try store.step { try table.release(epoch: epoch, in: $0) } }
        try run { step in
            try SessionTable(account: table.account).suspend(connectedTime: connectedTime, in: step)
            try table.release(epoch: epoch, in: step)
        }
    }
}

/// The database lacks commits, so what this process knows of its stream is not to be relied on.
struct LostCommits: Error {}
