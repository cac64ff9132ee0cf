/// The continuation of a handler that did not finish, with its stored call.
struct UnfinishedCall {
    /// The reason why a handler did not finish.
    enum Cause {
        /// It cannot run in this step; a runner calls it.
        case queued(Caller)
        case failed(any Error)
    }

    var state: Transaction.State
    /// When a runner calls it again, by the wall clock; nil when none does.
    var due: Timestamp?
    var caller = Caller.inStep
    /// The new count of attempts of the row.
    private(set) var attempts: Int
    /// The number of runs since the handler was bound or requeued.
    let runs: Int
    /// The number of these runs in which the process died.
    let deaths: Int
    /// How long the run took; nil for a call inside a step.
    var run: Duration?
    /// Whether it is invalidated next, because it failed for good.
    private(set) var runsOrElse = false
    /// Whether it is an invalidation, this time or the next.
    var isInvalidation: Bool { isInvalidated || runsOrElse }
    private let isInvalidated: Bool
    /// Whether it was not run because a runner must run it.
    let isQueued: Bool
    private(set) var reason: StoredReason
    /// What this program lacks, if that parks the handler.
    private(set) var lack: Lack?
    /// The error with which it failed; nil for one that was not run.
    private(set) var error: CallError?
    /// The call and its context; nil if it cannot be stored, so that the caller must call again.
    var call: [UInt8]?
    var input: [UInt8]?
    var scope: HandlerScope?

    /// - Parameters:
    ///   - context: What the handler was called with; nil when that is kept in its row and was not made again yet.
    ///   - isStored: Whether call and context are kept in its row already.
    init(
        _ cause: Cause, _ stored: StoredHandler, _ call: StoredCall, context: (any Sendable)?,
        isStored: Bool, retry: RetryPolicy?, now: Timestamp
    ) {
        (state, due, deaths) = (.quarantined, nil, stored.deaths)
        isInvalidated = call.reason != nil
        switch cause {
        case .queued(let caller):
            isQueued = true
            (runs, attempts) = (stored.attempts, stored.attempts)
            reason = StoredReason("waits for a runner")
            keep(call, context: context)
            if isStored || self.call != nil {
                (state, due, self.caller) = (.pending, now, caller)
            } else {
                // One that cannot be kept cannot wait either.
                reason = StoredReason("must wait for a runner, but \(Self.obstacle(to: context))")
            }
        case .failed(let error):
            isQueued = false
            runs = stored.attempts + (Self.isUncalled(error) ? 0 : 1)
            attempts = BuiltInFault.forgetAttempts.isOn ? 0 : runs
            reason = StoredReason(error)
            self.error = CallError(storing: error)
            keep(call, context: context)
            settle(error, stored, call, context: context, isStored: isStored || self.call != nil, retry, now)
        }
    }

    /// Decides between parking, another attempt, the invalidation handler and quarantine.
    private mutating func settle(
        _ error: any Error, _ stored: StoredHandler, _ call: StoredCall, context: (any Sendable)?,
        isStored: Bool, _ retry: RetryPolicy?, _ now: Timestamp
    ) {
        if Self.isUnknown(error) {
            (state, lack) = (.parked, (error as? HandlerError)?.cause as? Lack)
            return
        }
        if let retry, Self.isWorthRetrying(error), runs - deaths < retry.attempts {
            if isStored {
                // The calls of a standing handler have one row, but do not come back together either.
                let seed =
                    (stored.id?.rawValue ?? 0)
                    &+ Int64(bitPattern: (context as? any RestorableContext)?.callFingerprint ?? 0)
                let delay = Self.wait(error, retry) ?? retry.delay(after: runs - deaths, seed: seed)
                (state, due) = (.pending, now + delay)
                return
            }
            reason.add("; not retried: \(Self.obstacle(to: context))")
        }
        if retry?.finally == .orElse, call.reason == nil, !stored.isStanding, !Self.isRepairable(error) {
            runOrElse(call, now)
        }
    }

    /// How long the error itself says to wait, as far as the policy allows.
    private static func wait(_ error: any Error, _ retry: RetryPolicy) -> Duration? {
        guard case .after(let wait)? = (error as? CallError)?.retry else { return nil }
        return min(max(.zero, wait), retry.longestDelay)
    }

    /// The maximum number of bytes of an error of a context in a reason.
    private static let obstacleBytes = 512

    /// Returns why a call with a context cannot be stored.
    private static func obstacle(to context: (any Sendable)?) -> String {
        guard let context else { return "its call cannot be stored" }
        guard let restorable = context as? any RestorableContext else {
            return "\(type(of: context)) is not a RestorableContext"
        }
        do {
            _ = try restorable.storedBytes()
            return "its call cannot be stored"
        } catch {
            return "\(type(of: context)) cannot be stored (\(plainReason(error).cut(toBytes: obstacleBytes)))"
        }
    }

    /// Not in this step: if the invalidation handler kills the process, that must count against it, so the step before has to
    /// be committed.
    private mutating func runOrElse(_ call: StoredCall, _ now: Timestamp) {
        let invalidation = StoredCall(
            .invalidated, reason: .failed, error: error, overrides: call.overrides ?? Record())
        guard let bytes = try? invalidation.bytes() else { return }
        (state, due, self.call, attempts, runsOrElse) = (.pending, now, bytes, 0, true)
    }

    /// Whether the handler failed for good.
    var isFinal: Bool { state == .quarantined || runsOrElse }

    /// The stored size of the call in bytes.
    var size: Int { (call?.count ?? 0) + (input?.count ?? 0) }

    /// Quarantines a call that would wait, because too many do.
    mutating func refuseToWait() {
        reason = StoredReason("too many calls wait already; \(reason.words)")
        (state, due) = (.quarantined, nil)
    }

    /// Quarantines a call because how it goes on cannot be stored.
    mutating func quarantine(_ error: any Error) {
        reason.add("; this could not be stored: \(plainReason(error))")
        (state, due, runsOrElse) = (.quarantined, nil, false)
    }

    /// Adds to the reason that older calls were removed.
    mutating func record(dropped: Int) {
        guard dropped > 0 else { return }
        reason.add("; \(dropped) older quarantined calls of the handler were dropped")
    }

    private mutating func keep(_ call: StoredCall, context: (any Sendable)?) {
        if call.reason != nil {
            // An invalidation is made again from its reason alone.
            self.call = try? call.bytes()
            scope = (context as? any RestorableContext)?.environment?.scope
        } else if let context = context as? any RestorableContext, let input = try? context.storedBytes() {
            self.call = try? call.bytes()
            self.input = input
            scope = context.environment?.scope
        }
    }

    static func isUnknown(_ error: any Error) -> Bool {
        let code = (error as? HandlerError)?.code
        return code == .unknownHandler || code == .newerVersion || code == .journalMisfit
            || code == .foreignWait
    }

    /// Returns whether the handler was not run, so that its attempts stay.
    private static func isUncalled(_ error: any Error) -> Bool {
        isUnknown(error) || isRepairable(error) || (error as? HandlerError)?.code == .deadly
    }

    /// Returns whether this program cannot call the handler, and a later version may.
    private static func isRepairable(_ error: any Error) -> Bool {
        switch (error as? HandlerError)?.code {
        case .upcastFailed, .wrongArgument, .missingArgument, .wrongContext, .contextNotRestorable: true
        default: false
        }
    }

    /// Returns whether the same call may succeed later. A fault in what is stored or in the program stays.
    private static func isWorthRetrying(_ error: any Error) -> Bool {
        if (error as? CallError)?.retry == .never { return false }
        return switch (error as? HandlerError)?.code {
        case .upcastFailed, .wrongArgument, .missingArgument, .wrongContext, .contextNotRestorable,
            .argumentNotEncodable,
            .nestedTooDeep, .tooManyEntries, .deadly, .databaseCorrupt, .noSuchHandler:
            false
        default: true
        }
    }

    var disposition: Disposition {
        switch state {
        case .parked: .parked(reason: reason.words)
        case .pending where runsOrElse: .failed(reason: reason.words)
        case .pending where isQueued: .queued
        case .pending: .retrying(at: due ?? Timestamp(milliseconds: 0), reason: reason.words)
        case .quarantined, .leased: .quarantined(reason: reason.words)
        }
    }
}
