import Handlers

// The consequences of an error for the stream, in one table.
extension AccountLoop {
    /// The work during which an error occurred.
    enum Work {
        /// A step with arrived stanzas and commands of the program.
        case storing(hasArrivals: Bool)
        /// Writing committed stanzas and acks to the connection.
        case sending
        /// Storing that a stream was closed.
        case closing
        /// Removing old marks of handled messages.
        case forgetting
    }

    /// Delay before a failed step is tried again.
    private static let stepRetryDelay = Duration.milliseconds(500)

    /// Reacts to an error. A step with arrived stanzas was tried once more before, without those that cannot be stored
    /// (``InboundStep/processCarefully(_:isCounted:in:)``).
    ///
    /// | Work | `ownershipLost` | the store failed | other errors |
    /// |---|---|---|---|
    /// | storing arrived stanzas | the account is given up | the stream ends; the server sends the stanzas again | the same |
    /// | storing commands only | the account is given up | the step is tried again after half a second | the same |
    /// | sending | the account is given up | a later step sends the rest | the stream ends |
    /// | closing | the account is given up | `open_number` stays set, so new stanzas count as possibly written until a resumption | the same |
    /// | forgetting | the account is given up | tried again after ten minutes | the same |
    func react(to error: any Error, while work: Work) {
        if let error = AccountError.ownershipLost(in: error) { return feed(.ownershipLost(error)) }
        switch work {
        case .storing(hasArrivals: true):
            broke(
                AccountError(
                    .connectionFailed,
                    "what arrived could not be stored: \(error); the server will send it again", cause: error)
            )
        case .storing(hasArrivals: false): stream?.stepRetry = now + Self.stepRetryDelay
        case .sending where error is HandlerError: break
        case .sending: broke(AccountError(.connectionFailed, "the connection broke: \(error)", cause: error))
        case .closing: break
        case .forgetting: forgetting = .waiting(until: now + Self.forgettingDelay)
        }
    }
}

extension AccountError {
    /// `error` if its code is `ownershipLost`, otherwise nil.
    static func ownershipLost(in error: any Error) -> AccountError? {
        (error as? AccountError).flatMap { $0.code == .ownershipLost ? $0 : nil }
    }

    /// The refusal of a process that lost the account.
    static var fenced: AccountError {
        AccountError(.ownershipLost, "another process took this account over; connect again to ask for it")
    }
}
