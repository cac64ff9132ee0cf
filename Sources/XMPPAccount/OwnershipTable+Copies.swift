import Handlers

extension OwnershipTable {
    /// A copy of the database does not know how its session went on: what the server has sent since is gone from it, and
    /// what the server counts is not what is in the outbox. So the session is lost, with all that follows: messages are sent
    /// again, archives are asked for what is missing.
    ///
    /// To be called before anything is sent, by whatever process: what a live owner has sent is always in the database.
    ///
    /// - Parameters:
    ///   - sent: The last record of an owner.
    ///   - isLocked: Whether some process holds the owner's lock.
    func giveUpCopied(
        sent: SentProgress?, isLocked: () -> Bool, in step: borrowing Step
    ) throws(HandlerError) {
        let isOlder = try sent?.isAhead(of: self, in: step) ?? false
        let known = try step.first(
            "SELECT copies, (SELECT copies FROM place) FROM account WHERE id = ?", account
        ) { (account: $0.integer(0), place: $0.integer(1)) }
        guard let known else { return }
        var copies = known.place
        // Once: the number of the file, or another account of the database, may have shown it.
        if isOlder, copies == known.account {
            try step.recordCopy()
            copies = try step.copies
        }
        // A live owner's session was begun, or found to be right, in this very database.
        guard copies != known.account, isOlder || !isLocked() else { return }
        try step.write("UPDATE account SET copies = ? WHERE id = ?", copies, account)
        try SessionTable(account: account).lose(in: step)
        try LoginTable(account: account).forgetInstallation(in: step)
    }
}
