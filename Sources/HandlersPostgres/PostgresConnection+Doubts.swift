import Handlers
import Platform

/// Commits of which it is not known whether they are stored, on this server or on the one that takes its place.
extension PostgresConnection {
    /// Looks whether another server than before has all commits of this process. A standby that was promoted without them is like a
    /// backup that was put back: what depends on them starts again (``/Handlers/Step/copies``).
    func verify(_ link: PostgresLink, _ node: NodeLoop) throws(HandlerError) {
        if verifiedServer == link.serverStart { return }
        if let committed {
            let found = try firstOnce("SELECT step FROM node_step WHERE node = ?", [committed.node]) {
                $0.integer(0)
            }
            if found ?? -1 < committed.step {
                try executeOnce("UPDATE place SET copies = copies + 1")
                losses += 1
                reportLoss(
                    "the server of \(path) lacks commits that were acknowledged: \(found.map { "the last \(committed.step - $0)" } ?? "all") of this process; a standby was promoted without them. New sessions start; make the standby synchronous, and look for what else is missing"
                )
            }
        }
        verifiedServer = link.serverStart
    }

    /// Whether a step is committed whose connection was lost in its commit. The number of the transaction would not tell: a standby
    /// that is promoted gives numbers again.
    func hasCommitted() throws(HandlerError) -> Bool {
        guard node != nil else { return false }
        isOpen = false
        let end = ContinuousClock.now + options.outageLimit
        while true {
            self.link = nil
            do throws(HandlerError) {
                return try newestStoredStep() == step
            } catch {
                guard error.isStorageFailure, ContinuousClock.now < end else { throw error }
                SystemThread.sleep(microseconds: 100_000)
            }
        }
    }

    /// The number of the newest step of the node that is stored, and safe where commits are.
    private func newestStoredStep() throws(HandlerError) -> Int64 {
        // The lost connection may still be about to run what was sent to it.
        let isEnded = try firstOnce(NodeTable.endingConnection(of: openNumber)) { $0.integer(0) != 0 }
        guard isEnded == true else {
            throw HandlerError(
                .databaseUnavailable, "the server of \(path) does not end a connection that was lost")
        }
        var found: Int64?
        // It writes, so what it sees is on the standby when it has committed.
        try run(
            "UPDATE node_step SET step = step WHERE node = ? RETURNING step",
            binding: [.integer(Int64(openNumber))]
        ) { (row) throws(HandlerError) in
            found = row.integer(0)
            return true
        }
        if link?.hasWarned == true {
            throw HandlerError(.databaseUnavailable, "the standby of \(path) has not confirmed a commit")
        }
        guard let found else {
            throw HandlerError(
                .databaseForeign,
                "whether a step is stored in \(path) cannot be told any more: the process was away for more than a day while it committed; look at its rows"
            )
        }
        return found
    }
}
