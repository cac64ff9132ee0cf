import Handlers
import Platform

/// Decides when an account takes over, opens a stream, keeps it, ends it and opens the next one.
///
/// ```text
/// unowned ── connect ──▶ takingOver ──▶ owned: opening ── started ──▶ open ── broke ──▶ waiting ── time is over ──▶ opening
///  ▲                       │                      │  ▲                  │                  │
///  ├── refused ────────────┘   first attempt failed  └── attempt failed, after a wait ◀────┤
///  └──────────────────────────────────────────────┴── suspend, log-out ─┴── stopped ───────┘
///
/// any state ── another process took over ──▶ unowned: fenced          any state ── close ──▶ closed
/// ```
///
/// A value without socket, store, clock and thread. ``handle(_:now:)`` takes one input and returns actions. ``AccountLoop``
/// performs them in order and reports the results of some of them as further inputs; such an action is the last one of its list,
/// or its result changes nothing in the rest. Times are those of the monotonic clock, in whole milliseconds.
struct AccountMachine {
    private(set) var state = State.unowned(.idle)

    // Beside the state stands what outlives it: the wish of the program, counters and callers.

    /// Whether the program has a stream that is opened again when it breaks: from the first one, or a retrying caller, until it
    /// suspends the account.
    private var isEstablished = false
    private var lastAttempt = 0
    private var isPrepared = false
    /// Whether the account is taken over again because commits were lost.
    private var isTakingOverAnew = false
    /// Callers that wait for the attempt under way.
    private var connecting: [Caller] = []
    /// Callers that wait for a stream, however many attempts it takes.
    private var retrying: [Caller] = []
    /// Callers of `caughtUp` without a stream.
    private var catchingUp: [Caller] = []
    private var reconnection = Reconnection()
    private var generator: any RandomNumberGenerator

    /// - Parameter generator: Spreads the waits between attempts.
    init(generator: any RandomNumberGenerator = Randomness()) { self.generator = generator }

    /// Takes one input.
    ///
    /// - Returns: What is to be done, in order.
    mutating func handle(_ input: Input, now: Duration) -> [Action] {
        if case .closed = state { return handleClosed(input) }
        switch input {
        case .connect(let caller, let retries): return connect(caller, retries: retries, now)
        case .catchUp(let caller): return catchUp(caller, now)
        case .requestAck(let caller): return requestAck(caller, now)
        case .sendAck(let caller): return managed(caller) ?? [.acknowledgeFor(caller)]
        case .suspend(let caller): return suspend(caller, now)
        case .logOut(let caller): return logOut(caller)
        case .close(let caller): return close(caller, now)
        case .networkChanged: return networkChanged(now)
        case .handOver: return isOwner ? suspend(nil, now) + [.send(.handedOver)] : []
        case .tookOver(let purpose, let error): return tookOver(purpose, error, now)
        case .opened(let attempt): return isCurrent(attempt) ? [.start(attempt: attempt)] : [.discardOpened]
        case .openingFailed(let attempt, let error): return isCurrent(attempt) ? failed(error, now) : []
        case .postponed(let attempt, let time): return isCurrent(attempt) ? postponed(time, now) : []
        case .started(let stream): return started(stream, now)
        case .sessionRefused: return open()
        case .streamClosed(let error, let isFresh): return streamClosed(error, isFresh: isFresh, now)
        case .loggedOut(let caller, let error): return loggedOut(caller, error, now)
        case .broke(let fault, let isDelivered): return end(.broke(fault, isDelivered: isDelivered), now)
        case .ownershipLost(let error): return loseOwnership(error, now)
        case .time where isWaitOver(now): return reopen()
        case .heard, .answered, .committed, .wrote, .ackRequested, .acknowledged, .skipped, .time:
            return handleStream(input, now)
        }
    }

    /// Returns the actions for late results after the account was closed.
    private func handleClosed(_ input: Input) -> [Action] {
        switch input {
        case .opened: [.discardOpened]
        case .ownershipLost(let error): [.abandon, .send(.stopped(error))]
        default: []
        }
    }

    /// The rules of the open stream, if one is open.
    var stream: StreamRules? { if case .owned(.open(let stream)) = state { stream } else { nil } }

    /// Whether this process owns the account.
    var isOwner: Bool { if case .owned = state { true } else { false } }

    /// Whether nothing may be done until the result of a takeover is known.
    var isTakingOver: Bool { if case .takingOver = state { true } else { false } }

    /// Whether commands are refused because another process took the account over.
    var isFenced: Bool { if case .unowned(.fenced) = state { true } else { false } }

    /// When the next attempt starts.
    private var waitsUntil: Duration? {
        switch state {
        case .unowned(.waiting(let until)), .owned(.waiting(let until)): until
        case .unowned, .takingOver, .owned, .closed: nil
        }
    }

    /// When the machine wants ``Input/time(readAt:)`` if nothing happens before.
    var nextDue: Duration? { waitsUntil ?? stream?.nextDue }

    /// Takes over what the program may change at any time.
    mutating func configure(acknowledgements: AcknowledgementPolicy, keepAlive interval: Duration?) {
        guard case .owned(.open(var stream)) = state else { return }
        stream.management.policy = acknowledgements
        stream.keepAlive.interval = interval
        state = .owned(.open(stream))
    }

    // MARK: Opening

    private mutating func connect(_ caller: Caller, retries: Bool, _ now: Duration) -> [Action] {
        if case .owned(.open) = state { return [.finish([caller], nil)] }
        let preparation: [Action] = isPrepared ? [] : [.prepareTLS]
        isPrepared = true
        guard retries else {
            return preparation + (isOwner ? tookOver(.connect(caller), nil, now) : takeOver(.connect(caller)))
        }
        isEstablished = true
        retrying.append(caller)
        reconnection.reset()
        if case .owned(.opening) = state { return preparation }
        return preparation + reopen()
    }

    private mutating func reopen() -> [Action] { isOwner ? open() : takeOver(.reopen) }

    private mutating func takeOver(_ purpose: Purpose) -> [Action] {
        guard case .unowned(let before) = state else { return [] }
        state = .takingOver(before)
        return [.takeOver(purpose)]
    }

    private mutating func open() -> [Action] {
        lastAttempt += 1
        state = .owned(.opening(attempt: lastAttempt, isHinted: false))
        return [.open(attempt: lastAttempt)]
    }

    private mutating func tookOver(_ purpose: Purpose, _ error: (any Error)?, _ now: Duration) -> [Action] {
        guard let error else {
            if isTakingOver { state = .owned(.idle) }
            isTakingOverAnew = false
            return tookOver(purpose, now)
        }
        if case .takingOver(let before) = state { state = .unowned(before) }
        let lost = isOwner ? AccountError.ownershipLost(in: error).map { loseOwnership($0, now) } ?? [] : []
        switch purpose {
        case .connect(let caller), .logOut(let caller): return lost + [.finish([caller], error)]
        case .reopen:
            state = .unowned(.idle)
            // While another process keeps the account, the wait goes on.
            guard (error as? AccountError)?.code == .ownershipHeld else { return retry(after: error, now) }
            return wait(reconnection.nextWait(using: &generator), error, now)
        }
    }

    private mutating func tookOver(_ purpose: Purpose, _ now: Duration) -> [Action] {
        switch purpose {
        case .connect(let caller):
            connecting.append(caller)
            reconnection.reset()
            if case .owned(.opening) = state { return [] }
            return open()
        case .reopen: return open()
        case .logOut(let caller): return leave(.loggedOut, now) + [.logOut(caller)]
        }
    }

    private func isCurrent(_ attempt: Int) -> Bool {
        if case .owned(.opening(attempt, _)) = state { true } else { false }
    }

    private mutating func started(_ stream: StreamRules, _ now: Duration) -> [Action] {
        state = .owned(.open(stream))
        isEstablished = true
        reconnection.trusted()
        let (opened, behind) = (connecting + retrying, catchingUp)
        (connecting, retrying, catchingUp) = ([], [], [])
        return [.finish(opened, nil)] + behind.flatMap { catchUp($0, now) }
    }

    private mutating func postponed(_ time: Duration, _ now: Duration) -> [Action] {
        let reason = AccountError(
            .sessionPostponed,
            "the program's chooseSession wants to wait; it is asked again in \(time.milliseconds) ms")
        return failed(reason, wait: time, now)
    }

    /// - Parameter wait: The time until the next attempt; nil for a longer one after each failure.
    private mutating func failed(_ error: any Error, wait: Duration? = nil, _ now: Duration) -> [Action] {
        guard case .owned(.opening(_, let isHinted)) = state else { return [] }
        state = .owned(.idle)
        if let error = AccountError.ownershipLost(in: error) { return loseOwnership(error, now) }
        var actions: [Action] = []
        if !connecting.isEmpty {
            guard isEstablished else { return release(nil) + failCallers(error) }
            // A caller that asked while a broken stream is opened again is told, but does not end the attempts.
            actions.append(.finish(connecting, error))
            connecting = []
        }
        return actions + (isHinted ? open() : retry(after: error, wait: wait, now))
    }

    // MARK: Waiting

    /// Waits longer after each failure, or stops with a reason.
    private mutating func retry(
        after error: any Error, wait time: Duration? = nil, isFresh: Bool = false, _ now: Duration
    ) -> [Action] {
        guard isOwner || !retrying.isEmpty || isTakingOverAnew else { return [] }
        if let time { return wait(time, error, now) }
        switch reconnection.failed(error, isFresh: isFresh, using: &generator) {
        case .retry(let wait): return self.wait(wait, error, now)
        case .stop(let reason): return release(nil) + failCallers(reason) + [.send(.stopped(reason))]
        }
    }

    private mutating func wait(_ wait: Duration, _ reason: any Error, _ now: Duration) -> [Action] {
        let until = TimeSource.sum(now, wait)
        state = isOwner ? .owned(.waiting(until: until)) : .unowned(.waiting(until: until))
        return [.send(.retrying(after: wait, reason: reason))]
    }

    private func isWaitOver(_ now: Duration) -> Bool { waitsUntil.map { $0 <= now } ?? false }

    /// The network is not what it was: a wait is over, and an open connection must prove that it works.
    private mutating func networkChanged(_ now: Duration) -> [Action] {
        switch state {
        case .unowned(.waiting), .owned(.waiting):
            reconnection.reset()
            return reopen()
        case .owned(.opening(let attempt, _)):
            state = .owned(.opening(attempt: attempt, isHinted: true))
            return []
        case .owned(.open(var stream)):
            stream.checkLink(now: now)
            let actions = stream.requestProof(now: now)
            state = .owned(.open(stream))
            return actions
        case .unowned, .takingOver, .owned(.idle), .closed: return []
        }
    }

    // MARK: The open stream

    /// - Returns: The refusal of a caller that needs stream management; nil where a stream has it.
    private func managed(_ caller: Caller) -> [Action]? {
        if stream?.isManaged == true { return nil }
        let error = AccountError(
            .connectionFailed,
            "there is no stream with stream management; connect to a server that has it")
        return [.finish([caller], error)]
    }

    private mutating func requestAck(_ caller: Caller, _ now: Duration) -> [Action] {
        guard case .owned(.open(var stream)) = state, stream.isManaged else { return managed(caller) ?? [] }
        let actions = stream.requestAck(now: now)
        state = .owned(.open(stream))
        return actions + [.finish([caller], nil)]
    }

    private mutating func catchUp(_ caller: Caller, _ now: Duration) -> [Action] {
        guard case .owned(.open(var stream)) = state else {
            // A stream that broke is being opened again.
            if isOwner || !retrying.isEmpty {
                catchingUp.append(caller)
                return []
            }
            let error = AccountError(.connectionFailed, "there is no stream to catch up with; connect first")
            return [.finish([caller], error)]
        }
        guard stream.isManaged else {
            let error = AccountError(
                .protocolViolation, "the server has no stream management; there is nothing to wait for")
            return [.finish([caller], error)]
        }
        let isFirst = !stream.hasOpenRequest
        stream.add(caller)
        let actions = isFirst ? stream.requestAck(now: now) : []
        state = .owned(.open(stream))
        return actions
    }

    private mutating func handleStream(_ input: Input, _ now: Duration) -> [Action] {
        guard case .owned(.open(var stream)) = state else { return [] }
        if input.isAnswer { reconnection.heard() }
        let actions = stream.handle(input, now: now)
        state = .owned(.open(stream))
        return actions
    }

    // MARK: Ending

    /// The reason why an open stream ends.
    private enum Reason {
        case broke(StreamFault, isDelivered: Bool)
        case suspended
        case loggedOut
        case ownershipLost
    }

    /// Ends the open stream, if one is open. Callers that wait to have caught up wait for the next one.
    private mutating func end(_ reason: Reason, _ now: Duration) -> [Action] {
        guard let stream else { return [] }
        catchingUp += stream.callers
        state = .owned(.idle)
        switch reason {
        case .broke(let fault, let isDelivered):
            // A server that accepts and breaks off again and again is not asked ever faster.
            let isStable = stream.isStable(now: now)
            if isStable { reconnection.reset() }
            var fault = fault
            if stream.isUnheard(fault.error, isDelivered: isDelivered, now: now), reconnection.endedUnheard()
            {
                fault.endsSession = true
            }
            return [.closeStream(.broken(fault, isFresh: stream.isResumed && !isStable))]
        case .suspended: return [.closeStream(.suspended(ack: stream.lastAck))]
        case .loggedOut: return [.closeStream(.loggedOut(ack: stream.lastAck))]
        case .ownershipLost: return [.closeStream(.lost)]
        }
    }

    /// Ends the open stream, or the attempt to open one.
    private mutating func leave(_ reason: Reason, _ now: Duration) -> [Action] {
        let opening: [Action] = if case .owned(.opening) = state { [.cancelOpening] } else { [] }
        let ending = end(reason, now)
        if !isFenced { state = isOwner ? .owned(.idle) : .unowned(.idle) }
        return opening + ending
    }

    private mutating func streamClosed(_ error: AccountError, isFresh: Bool, _ now: Duration) -> [Action] {
        guard case .owned(.idle) = state else { return [] }
        return [.send(.suspended(error))] + retry(after: error, isFresh: isFresh, now)
    }

    private mutating func suspend(_ caller: Caller?, _ now: Duration) -> [Action] {
        let ending = leave(.suspended, now)
        return ending + failCallers(AccountError(.closed, "the account was suspended")) + release(caller)
    }

    private mutating func logOut(_ caller: Caller) -> [Action] {
        guard !isFenced else { return [.finish([caller], AccountError.fenced)] }
        // Nothing is ended before the epoch is checked.
        return isOwner ? [.checkOwner(caller)] : takeOver(.logOut(caller))
    }

    private mutating func loggedOut(_ caller: Caller, _ error: (any Error)?, _ now: Duration) -> [Action] {
        guard let error else { return suspend(caller, now) }
        let lost = AccountError.ownershipLost(in: error).map { loseOwnership($0, now) } ?? []
        return lost + [.finish([caller], error)]
    }

    private mutating func close(_ caller: Caller, _ now: Duration) -> [Action] {
        let actions = suspend(nil, now)
        state = .closed
        return actions + [.shutDown, .finish([caller], nil)]
    }

    private mutating func release(_ caller: Caller?) -> [Action] {
        guard isOwner else { return caller.map { [.finish([$0], nil)] } ?? [] }
        state = .unowned(.idle)
        return [.release(caller)]
    }

    /// Fails the callers that wait for a stream, as there will be none.
    private mutating func failCallers(_ error: any Error) -> [Action] {
        isEstablished = false
        let callers = connecting + retrying + catchingUp
        (connecting, retrying, catchingUp) = ([], [], [])
        return callers.isEmpty ? [] : [.finish(callers, error)]
    }

    /// Another process owns the account: nothing more may leave this one, not even the end of the stream, which would end the
    /// session for the new owner too.
    private mutating func loseOwnership(_ error: AccountError, _ now: Duration) -> [Action] {
        let ending = leave(.ownershipLost, now)
        if error.cause is LostCommits {
            isTakingOverAnew = true
            state = .unowned(.waiting(until: now))
            return ending + [.abandon] + failCallers(error) + [.send(.retrying(after: .zero, reason: error))]
        }
        state = .unowned(.fenced)
        return ending + [.abandon] + failCallers(error) + [.send(.stopped(error))]
    }
}
