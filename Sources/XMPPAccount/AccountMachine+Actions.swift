// What an AccountMachine is told, and what it wants to be done.
extension AccountMachine {
    /// A call of the program that waits for a result. The loop keeps its completion.
    struct Caller: Hashable, Sendable { let number: Int }

    enum State {
        case unowned(Unowned)
        /// This process takes the account over, from a state that stays if it fails. The only input until then is the result.
        case takingOver(Unowned)
        case owned(Owned)
        case closed
    }

    /// The state of an account that this process does not own.
    enum Unowned {
        /// No stream is wanted.
        case idle
        /// The next attempt to take it over starts at that time.
        case waiting(until: Duration)
        /// Another process took the account over, and the program has not connected again.
        case fenced
    }

    /// The state of an account that this process owns.
    enum Owned {
        /// A stream is being closed, or the session ended.
        case idle
        /// A stream is being opened; `isHinted` if the network changed meanwhile.
        case opening(attempt: Int, isHinted: Bool)
        case open(StreamRules)
        /// The next attempt starts at that time.
        case waiting(until: Duration)
    }

    /// The purpose of a takeover.
    enum Purpose: Sendable {
        /// A caller that wants to know at once.
        case connect(Caller)
        case reopen
        case logOut(Caller)
    }

    enum Input {
        // Of the program.
        case connect(Caller, retries: Bool)
        case catchUp(Caller)
        case requestAck(Caller)
        case sendAck(Caller)
        case suspend(Caller)
        case logOut(Caller)
        case close(Caller)
        case networkChanged
        /// Of another process, which asks for the stream.
        case handOver

        // Results of actions.
        case tookOver(Purpose, (any Error)?)
        /// An attempt led to a stream whose session is not committed yet.
        case opened(attempt: Int)
        case openingFailed(attempt: Int, any Error)
        /// The program wants to wait for that long before it logs in.
        case postponed(attempt: Int, Duration)
        /// The session is committed.
        case started(StreamRules)
        /// The server resumed a session whose counts contradict ours; the session is given up.
        case sessionRefused
        /// The stream is closed, and that is committed.
        case streamClosed(AccountError, isFresh: Bool)
        case loggedOut(Caller, (any Error)?)

        // Of the stream.
        case heard
        /// The server answered an ack request or a ping, outside of a step.
        case answered
        /// A step was committed with these counts; `isAnswer` if the server answered an ack request among what it stored.
        case committed(StreamManagement, isAnswer: Bool)
        /// Stanzas of a committed step were written.
        case wrote(stanzas: Int)
        /// The server sent an ack request before any stanza.
        case ackRequested
        /// Our count was written.
        case acknowledged
        case broke(StreamFault, isDelivered: Bool)
        /// A step found a newer epoch.
        case ownershipLost(AccountError)

        // Of the clock.
        /// The process did not run for so long.
        case skipped(Duration)
        /// `readAt`: up to when everything that had arrived was read; nil if more may wait in the socket.
        case time(readAt: Duration?)

        /// Whether the server answered an ack request or a ping.
        var isAnswer: Bool {
            switch self {
            case .answered, .committed(_, isAnswer: true): true
            default: false
            }
        }
    }

    enum Action {
        case prepareTLS
        /// Reports ``Input/tookOver(_:_:)``.
        case takeOver(Purpose)
        /// Checks that this process still owns the account, to log out. Reports ``Input/tookOver(_:_:)``.
        case checkOwner(Caller)
        /// Reports ``Input/opened(attempt:)``, ``Input/openingFailed(attempt:_:)`` or ``Input/postponed(attempt:_:)``.
        case open(attempt: Int)
        case cancelOpening
        /// Closes a stream that was opened without a waiter.
        case discardOpened
        /// Commits the outcome of opening. Reports ``Input/started(_:)``, ``Input/sessionRefused`` or
        /// ``Input/openingFailed(attempt:_:)``.
        case start(attempt: Int)

        /// Writes an ack request; `isReported` if it causes an event.
        case requestAck(isReported: Bool)
        case ping
        /// Writes our count; `isFenced` if a step of the owner has just been committed. Reports ``Input/acknowledged``.
        case acknowledge(isFenced: Bool)
        /// The same for a caller that waits for it.
        case acknowledgeFor(Caller)
        /// Reports ``Input/broke(_:isDelivered:)``.
        case breakStream(AccountError)
        /// Closes the connection of the open stream.
        case closeStream(Closing)

        /// Stores that the stream is closed, if it was open, and gives the account back. The caller gets the result.
        case release(Caller?)
        /// Leaves the account to the process that took it over.
        case abandon
        /// Ends the session and what waits for it. Reports ``Input/loggedOut(_:_:)``.
        case logOut(Caller)
        case finish([Caller], (any Error)?)
        case send(AccountEvent)
        /// Refuses further commands.
        case shutDown
    }

    /// The way in which a stream is closed.
    enum Closing {
        /// As a broken line; what is committed says so. Reports ``Input/streamClosed(_:isFresh:)``.
        case broken(StreamFault, isFresh: Bool)
        /// After a last ack, so that the session can be resumed; ``Action/release(_:)`` commits it.
        case suspended(ack: HandledCount?)
        /// With a last ack and the end of the stream, which ends the session.
        case loggedOut(ack: HandledCount?)
        /// Without a word: another process owns the session.
        case lost
    }
}
