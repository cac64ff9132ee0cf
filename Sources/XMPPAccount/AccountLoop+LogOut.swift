import Handlers
import XMPPCore

// The end of a session that the program asks for, and of all that belonged to it.
extension AccountLoop {
    /// Ends what waits for a session that was ended at the server, in short steps: what a kill in between leaves is settled with
    /// the next login, as a lost session.
    func logOut() throws {
        // What an invalidation sends in answer to this belongs to the next login.
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
            try step.invalidate(handler, reason: .logout, environment: account)
        }
        return rows.count
    }
}
