import Handlers
import XMPPCore

// What becomes of a stream that broke or could not be opened; the rules are those of Reconnection.
extension AccountLoop {
    /// How long a stream must have held for the waits between attempts to begin anew, in milliseconds.
    private static let stableTime: Int64 = 10_000

    /// The stream is gone or must go; the session stays. Tries again unless nobody wants it.
    func drop(_ error: AccountError) {
        guard case .live(let stream) = phase else { return }
        // A server that accepts and breaks off again and again is not asked ever faster.
        if now - stream.openedAt >= Self.stableTime { reconnection.reset() }
        loginMemory.note(error, of: account.configuration)
        countRefusal(error, on: stream)
        if isUnheard(stream, error), reconnection.endedUnheard() { giveUpSession() }
        close(stream)
        // Somebody else may turn out to own the account.
        guard !isFenced else { return }
        account.hub.send(.suspended(error))
        retry(after: error, isFresh: stream.isResumed && now - stream.openedAt < Self.stableTime)
    }

    /// Whether the server resumed the session and then understood nothing: its parser may go on with an element that a killed
    /// process left unfinished (docs/servers.md).
    private func isUnheard(_ stream: LiveStream, _ error: AccountError) -> Bool {
        guard stream.isResumed, !stream.hasCaughtUp else { return false }
        // Silence counts where the bytes arrived at a server that said nothing for a while.
        return error.code == .timedOut
            ? stream.connection.isDelivered && now - stream.heardAt >= stream.keepAlive.timeout / 2
            : Reconnection.isAboutUnfinishedElement(error)
    }

    /// The session is of no use any more: the next stream begins a new one.
    func giveUpSession() {
        try? owner.run { step in try account.sessions.lose(in: step) }
    }

    /// A stream that ends behind a large stanza may have ended because of it.
    private func countRefusal(_ error: AccountError, on stream: LiveStream) {
        let weight = StanzaLimit.mayBeMeant(by: error) ? StanzaLimit.streamErrorWeight : 1
        // Not counting is the safe side.
        try? owner.run { step in
            try account.outbox.countRefusal(
                session: stream.session, upTo: stream.flushMark, weight: weight, in: step)
        }
    }

    func dropSilent(_ stream: LiveStream) {
        drop(
            AccountError(
                .timedOut,
                "\(stream.connection.peer) has not answered since the network changed; the connection counts as dead"
            ))
    }

    func failed(_ error: any Error) {
        phase = .idle
        if let error = AccountError.ownershipLost(in: error) { return loseOwnership(error) }
        if !connecting.isEmpty {
            guard isEstablished else {
                releaseOwnership()
                return failWaiting(error)
            }
            // Who asked while a broken stream is opened again is told, but does not end the trying.
            let waiting = connecting
            connecting = []
            waiting.forEach { $0(.failure(error)) }
        }
        if isHinted {
            isHinted = false
            return openStream()
        }
        retry(after: error)
    }

    /// Opens a stream at the end of a wait. While another process keeps the account, the wait goes on.
    func reopen() {
        do {
            try takeOwnership()
            openStream()
        } catch {
            phase = .idle
            let isHeld = (error as? AccountError)?.code == .ownershipHeld
            isHeld ? waitForOwnership(error) : retry(after: error)
        }
    }

    private func waitForOwnership(_ error: any Error) {
        var generator = SystemRandomNumberGenerator()
        wait(reconnection.nextWait(using: &generator), error)
    }

    private func wait(_ milliseconds: Int64, _ reason: any Error) {
        phase = .waiting(until: now + milliseconds)
        account.hub.send(.retrying(after: .milliseconds(milliseconds), reason: reason))
    }

    /// Waits longer after each failure, or stops with a reason.
    private func retry(after error: any Error, isFresh: Bool = false) {
        guard ownership != nil || !retrying.isEmpty else { return }
        // No failure: the program wants it so.
        if let asked = (error as? AccountError)?.cause as? SessionWait {
            return wait(asked.milliseconds, error)
        }
        var generator = SystemRandomNumberGenerator()
        switch reconnection.failed(error, isFresh: isFresh, using: &generator) {
        case .retry(let milliseconds): wait(milliseconds, error)
        case .stop(let reason):
            releaseOwnership()
            failWaiting(reason)
            account.hub.send(.stopped(reason))
        }
    }

    /// How long a connection may stay silent after the network changed, in milliseconds.
    static let linkCheckTime: Int64 = 10_000

    /// The network is not what it was: the time of waiting is over, and an open connection must show that it lives.
    func networkChanged() {
        switch phase {
        case .idle: break
        case .waiting:
            reconnection.reset()
            reopen()
        case .opening: isHinted = true
        case .live(let stream):
            requestProof(stream)
            stream.linkCheck = stream.linkCheck ?? now + Self.linkCheckTime
        }
    }
}
