import Handlers

// What an error means for the stream: the one table of it.
extension AccountLoop {
    /// What the loop was doing when it met an error.
    enum Place {
        /// A step with what arrived and was asked.
        case storing(hasArrivals: Bool)
        /// Writing to the connection what is committed.
        case telling
        /// Noting that a stream is closed.
        case closing
        /// Removing old marks of messages.
        case forgetting
    }

    /// How long the loop waits before it tries a step again that could not be committed, in milliseconds.
    private static let stepRetryDelay: Int64 = 500

    /// Does what follows from an error.
    ///
    /// | | another process owns the account | the store failed | anything else |
    /// |---|---|---|---|
    /// | storing what arrived | let go of the account | the stream ends, the server sends again | the same |
    /// | storing what was asked | let go | tried again after half a second | the same |
    /// | telling | let go | told with a later step | the stream ends |
    /// | closing | let go | the row says "live": what is sent then counts as possibly written | the same |
    /// | forgetting | let go | tried again in ten minutes | the same |
    func meet(_ error: any Error, _ place: Place) {
        if let error = AccountError.ownershipLost(in: error) { return loseOwnership(error) }
        switch place {
        case .storing(hasArrivals: true):
            drop(
                AccountError(
                    .connectionFailed,
                    "what arrived could not be stored: \(error); the server will send it again", cause: error)
            )
        case .storing(hasArrivals: false): stepRetry = now + Self.stepRetryDelay
        case .telling where error is HandlerError: break
        case .telling: drop(AccountError(.connectionFailed, "the connection broke: \(error)", cause: error))
        case .closing: break
        case .forgetting: forgetting = .waiting(until: now + Self.forgettingDelay)
        }
    }
}

extension AccountError {
    /// The error that says that another process owns the account; nil for every other one.
    static func ownershipLost(in error: any Error) -> AccountError? {
        (error as? AccountError).flatMap { $0.code == .ownershipLost ? $0 : nil }
    }
}
