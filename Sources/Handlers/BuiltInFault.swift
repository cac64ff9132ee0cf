#if DEBUG || Failpoints
    import Platform
#endif

/// A fault that is built in on purpose: it proves that the simulated world and the kill tests can fail.
///
/// Present in debug builds and with the package trait `Failpoints`, and then only when `HANDLERS_MUTATION` or ``choose(_:)`` names
/// one. In other builds ``isOn`` is a constant, so the code of a fault compiles to nothing.
package enum BuiltInFault: String, CaseIterable, Sendable {
    // Acks to the server.
    case splitCommit = "split-commit"
    case ackBeforeCommit = "ack-before-commit"
    case countAfterAck = "count-after-ack"
    case ackTooHigh = "ack-too-high"
    // Duplicates.
    case forgetDuplicates = "forget-duplicates"
    case markApart = "mark-apart"
    case repeatArchived = "repeat-archived"
    case repeatItems = "repeat-items"
    // Modules.
    case staleLists = "stale-lists"
    // The outbox.
    case flushBeforeCommit = "flush-before-commit"
    case dropUnacknowledged = "drop-unacknowledged"
    case resendAcknowledged = "resend-acknowledged"
    case deleteWhenWritten = "delete-when-written"
    case reuseNumbers = "reuse-numbers"
    case numberBeforeLock = "number-before-lock"
    case reorderOutbox = "reorder-outbox"
    // The disk.
    case missingSync = "missing-sync"
    case syncLate = "sync-late"
    case trustLog = "trust-log"
    case ignoreCommitError = "ignore-commit-error"
    // Processes.
    case noFence = "no-fence"
    case keepLease = "keep-lease"
    case shareLease = "share-lease"
    case loseTimer = "lose-timer"
    case silentKeepAlive = "silent-keep-alive"
    // Handlers.
    case keepLostRequests = "keep-lost-requests"
    case forgetInvalidation = "forget-invalidation"
    case runBoth = "run-both"
    case forgetAttempts = "forget-attempts"
    case earlyTimer = "early-timer"
    case forgetSignal = "forget-signal"
    case forgetPlace = "forget-place"
    case crowdLane = "crowd-lane"
    case forgetOrder = "forget-order"
    case forgetChain = "forget-chain"
    // OMEMO.
    case ratchetApart = "ratchet-apart"

    #if DEBUG || Failpoints
        /// Read from the environment at first use; a program may choose another one while it has no threads.
        private nonisolated(unsafe) static var chosen =
            ThisProcess.environment("HANDLERS_MUTATION").flatMap(BuiltInFault.init)

        /// Switches one fault on and all others off.
        ///
        /// - Parameter fault: The fault; nil for none.
        package static func choose(_ fault: BuiltInFault?) { chosen = fault }

        package var isOn: Bool { Self.chosen == self }

        /// Runs code without faults, while the program has one thread.
        package static func withoutFaults<R>(_ body: () throws -> R) rethrows -> R {
            let before = chosen
            chosen = nil
            defer { chosen = before }
            return try body()
        }
    #else
        @inline(__always) package var isOn: Bool { false }

        package static func withoutFaults<R>(_ body: () throws -> R) rethrows -> R { try body() }
    #endif

    /// Whether only worlds with OMEMO can find it.
    package var isOfOmemo: Bool { self == .ratchetApart }

    /// What the fault breaks.
    package var summary: String {
        switch self {
        case .splitCommit: "The received count commits before the handlers of the stanzas ran."
        case .ackBeforeCommit: "The ack is sent before the step commits."
        case .countAfterAck: "The received count commits in a step of its own, after the ack."
        case .ackTooHigh: "The ack is too high by one."
        case .forgetDuplicates: "A duplicate counts as a new message."
        case .markApart: "The mark of a message commits in a step of its own, after the message."
        case .repeatArchived: "A message out of an archive counts as new although it came before."
        case .repeatItems: "An item of a node that is shown again counts as new."
        case .staleLists: "A new session does not ask for the roster."
        case .flushBeforeCommit: "Stanzas are written to the socket before the step commits."
        case .dropUnacknowledged: "A resumption drops the stanzas that the server has not acknowledged."
        case .resendAcknowledged: "A resumption sends stanzas again that the server has acknowledged."
        case .deleteWhenWritten: "A stanza is deleted when it is written, not when it is acknowledged."
        case .reuseNumbers: "A new stanza gets the number of a deleted one."
        case .numberBeforeLock: "A stanza gets a number that was drawn before the step."
        case .reorderOutbox: "Stanzas that are sent together change places."
        case .missingSync: "A commit does not sync the disk."
        case .trustLog: "The log of a dead process is not settled, so that a failed sync is believed."
        case .syncLate: "A commit leaves its sync to the next checkpoint."
        case .ignoreCommitError: "The error of a commit is ignored."
        case .noFence: "A process commits although another one owns the stream."
        case .keepLease: "The lease of a dead process is not freed."
        case .shareLease: "A leased handler stays due, so that it is leased again."
        case .loseTimer: "A takeover forgets when timers are due."
        case .silentKeepAlive: "The keep-alive never requests a proof."
        case .keepLostRequests: "The requests of a lost session are not ended."
        case .forgetInvalidation: "An invalidation forgets the handlers among the arguments."
        case .runBoth: "The invalidation handler runs although the handler was called."
        case .forgetAttempts: "A retry forgets the number of attempts."
        case .earlyTimer: "A timer ignores the milliseconds of its delay."
        case .forgetSignal: "A signal that comes before its handler is forgotten."
        case .forgetPlace: "What a workflow did is missing in its journal."
        case .crowdLane: "A lane lets more handlers run at the same time than it may."
        case .forgetOrder: "A handler of a lane does not wait for an earlier one with its order key."
        case .forgetChain: "What a handler binds does not belong to its chain."
        case .ratchetApart:
            "The ratchet of a message commits before the message, which has a step of its own."
        }
    }
}
