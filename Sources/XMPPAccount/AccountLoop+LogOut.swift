import Handlers

// The end of a session that the program asks for, and of all that belonged to it.
extension AccountLoop {
    /// Ends everything that waits for a session that has ended at the server, in short steps. After a kill in between, the next
    /// login ends the rest, as for a lost session.
    func logOut() throws {
        // Stanzas that an invalidation handler sends now belong to the next login.
        let newest = try owner.run { step in
            try account.sessions.lose(in: step)
            try forgetDeliveries(in: step)
            try account.logins.forgetToken(in: step)
            try account.resetModules(.session, in: step)
            return try account.outbox.newest(in: step)
        }
        var last = AnyHandlerID(rawValue: 0)
        while try owner.run({ step in
            try account.requests.abandonAll(
                after: &last, upTo: newest.handler, limit: Self.settleLimit, environment: account, in: step)
                + abandonStanzas(upTo: newest.seq, in: step)
        }) > 0 {}
    }

    /// - Returns: How many there were.
    private func abandonStanzas(upTo newest: Int64, in step: borrowing Step) throws -> Int {
        let rows = try account.outbox.claimAll(upTo: newest, limit: Self.settleLimit, in: step)
        for handler in rows.compactMap(\.handler) where try step.waits(handler) {
            try step.invalidateAlone(handler, reason: .logout, environment: account)
        }
        return rows.count
    }
}
