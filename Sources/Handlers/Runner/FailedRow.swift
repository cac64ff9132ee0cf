/// A due row with which a step cannot commit, and nothing after it.
struct FailedRow: Error {
    /// A step is tried so often before the row is quarantined: what failed may have passed.
    private static let mostTries = 3

    let handler: AnyHandlerID
    let reason: StoredReason
    /// After how many tries it is quarantined.
    let mostTries: Int

    /// One that cannot end, because its ending cannot be stored.
    init(_ handler: AnyHandlerID, _ error: any Error) {
        self.handler = handler
        reason = StoredReason("it can neither end nor be tried again: \(plainReason(error))")
        mostTries = Self.mostTries
    }

    /// One without which a row of another table leads nowhere.
    init(dangling handler: AnyHandlerID) {
        self.handler = handler
        reason = StoredReason(HandlerError.referredTo)
        mostTries = 1
    }
}
