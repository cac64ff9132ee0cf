import Handlers

/// ``LoginKeeping`` on the account's store.
struct StoredLogin: LoginKeeping {
    let account: Account
    /// The epoch of the process that opens the stream; nil when nobody owns the account.
    let epoch: Int64?

    func recall() throws -> KnownLogin {
        try fenced { step in
            var known = try account.logins.recall(in: step)
            if account.configuration.chooseSession != nil {
                known.session = StoredSession(try account.sessions.load(in: step), now: step.now)
            }
            return known
        }
    }

    func spendToken() throws -> SpentToken? { try fenced { step in try account.logins.spendToken(in: step) } }

    func discard(_ token: SpentToken) throws {
        try fenced { step in try account.logins.discard(token, in: step) }
    }

    func forgetOffer() throws { try fenced { step in try account.logins.forgetOffer(in: step) } }

    /// Asking to resume tells the server our count, so it is an acknowledgement: until the transaction ends nobody
    /// can raise the epoch.
    func withResumption(_ use: (StreamOpener.Resumption?) throws -> Void) throws {
        try fenced { step in
            let state = try account.sessions.load(in: step)
            try use(
                state.resumptionID.map {
                    .init(id: $0, handled: state.management(account.acknowledgements).handled)
                })
        }
    }

    private func fenced<Result>(_ body: (borrowing Step) throws -> Result) throws -> Result {
        try account.store.step { step in
            if let epoch { try account.ownerships.check(epoch: epoch, in: step) }
            return try body(step)
        }
    }
}
