import Handlers

/// ``LoginKeeping`` on the account's store.
struct StoredLogin: LoginKeeping {
    let account: Account
    let owner: OwnerStep

    func recall() throws -> KnownLogin {
        // A step has the steps of all machines wait. Nothing is sent without one that checks the epoch.
        if account.store.isOnServer, account.configuration.chooseSession == nil,
            let known = try? account.store.peek({ try account.logins.known(in: $0, now: $0.now) })
        {
            return known
        }
        return try owner.run { step in
            var known = try account.logins.recall(in: step)
            if account.configuration.chooseSession != nil {
                known.session = StoredSession(try account.sessions.load(in: step), now: step.now)
            }
            return known
        }
    }

    func spendToken() throws -> SpentToken? {
        try owner.run { step in try account.logins.spendToken(in: step) }
    }

    func discard(_ token: SpentToken) throws {
        try owner.run { step in try account.logins.discard(token, in: step) }
    }

    func forgetOffer() throws { try owner.run { step in try account.logins.forgetOffer(in: step) } }

    /// Lends the data for `<resume/>`, which acknowledges: until the transaction ends no process can raise the epoch.
    func withResumption(_ use: (StreamOpener.Resumption?) throws -> Void) throws {
        try owner.run { step in
            let state = try account.sessions.load(in: step)
            try use(state.resumptionID.map { .init(id: $0, h: state.management(account.acknowledgements).h) })
        }
    }
}
