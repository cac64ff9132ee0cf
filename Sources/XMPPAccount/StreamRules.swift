import Handlers

/// Rules of one open stream: counts, proofs that the server still hears it, and callers that wait for its counts.
///
/// A value without socket and store; times are those of the monotonic clock.
struct StreamRules: Sendable {
    /// The server's host and port, for messages.
    let peer: String
    /// Whether stanzas are counted (XEP-0198).
    let isManaged: Bool
    /// Whether the stream continues a session that another stream began.
    let isResumed: Bool
    let openedAt: Duration

    /// Counts, and when acks and ack requests are due. The counts are committed.
    var management: StreamManagement
    /// When the server must prove that it hears this side.
    var keepAlive: KeepAlive
    /// When bytes arrived last.
    private(set) var heardAt: Duration
    /// When the connection counts as dead unless something arrives before; set after a change of the network.
    private(set) var linkCheck: Duration?
    /// Whether the server has sent everything that it kept for the session. Without stream management it keeps nothing.
    private(set) var hasCaughtUp: Bool
    /// Callers of `caughtUp` that wait for the answer to the last ack request.
    private var waiting: [AccountMachine.Caller] = []
    /// Callers that came after that ack request: its answer may say nothing about what was sent in between.
    private var waitingForNext: [AccountMachine.Caller] = []

    /// The duration of a stream after which the waits between attempts start at the shortest again.
    private static let stableTime = Duration.seconds(10)
    /// The time for which a connection may stay silent after the network changed.
    static let linkCheckTime = Duration.seconds(10)

    init(
        peer: String, isManaged: Bool, isResumed: Bool, management: StreamManagement, keepAlive: KeepAlive,
        now: Duration
    ) {
        self.peer = peer
        self.isManaged = isManaged
        self.isResumed = isResumed
        self.management = management
        self.keepAlive = keepAlive
        openedAt = now
        heardAt = now
        hasCaughtUp = !isManaged
    }

    /// Returns whether the stream lasted long enough for a failure to be no sign of a server that refuses the next one too.
    func isStable(now: Duration) -> Bool { now - openedAt >= Self.stableTime }

    // MARK: Silence

    /// Bytes arrived.
    mutating func heard(now: Duration) { (heardAt, linkCheck) = (now, nil) }

    /// The network changed: the connection must show that it still works.
    mutating func checkLink(now: Duration) { linkCheck = linkCheck ?? now + Self.linkCheckTime }

    /// The process did not run for so long, which does not count against the server.
    mutating func skip(_ duration: Duration) {
        keepAlive.skip(duration)
        linkCheck = linkCheck.map { TimeSource.sum($0, duration) }
    }

    /// Returns the reason why the connection counts as dead, or nil.
    ///
    /// - Parameter readAt: Up to when everything that had arrived was read; nil if more may wait in the socket.
    func death(readAt: Duration?, now: Duration) -> AccountError? {
        if let linkCheck, linkCheck <= now, readAt != nil {
            return AccountError(
                .timedOut,
                "\(peer) has not answered since the network changed; the connection counts as dead")
        }
        guard let readAt, keepAlive.isDead(readAt: readAt) else { return nil }
        return AccountError(
            .timedOut,
            "\(peer) has not answered for \(keepAlive.timeout.components.seconds) s; the connection counts as dead"
        )
    }

    /// Returns whether a resumed stream ended before the server had answered anything on it, as if it understood nothing.
    ///
    /// The parser of the server may continue with an element that a killed process left unfinished (docs/reference/servers.md).
    /// Then it reports an error of syntax, or stays silent although it receives everything.
    ///
    /// - Parameters:
    ///   - error: The error that ended the stream.
    ///   - isDelivered: Whether the server's machine acknowledged all written bytes.
    func isUnheard(_ error: AccountError, isDelivered: Bool, now: Duration) -> Bool {
        guard isResumed, !hasCaughtUp else { return false }
        // Silence counts only if all bytes arrived and the server has sent nothing for half the keep-alive timeout.
        return error.code == .timedOut
            ? isDelivered && now - heardAt >= keepAlive.timeout / 2
            : Reconnection.isAboutUnfinishedElement(error)
    }

    // MARK: Ack requests

    /// Whether an ack request without an answer is under way.
    var hasOpenRequest: Bool { management.requestedAt != nil }

    /// An ack request was written.
    mutating func didRequest(now: Duration) {
        management.didRequest(now: now)
        keepAlive.didRequest(now: now)
    }

    /// Adds a caller that waits for everything that the server has sent by now.
    mutating func add(_ caller: AccountMachine.Caller) {
        hasOpenRequest ? waitingForNext.append(caller) : waiting.append(caller)
    }

    /// Returns whether an ack request is to be written: stanzas were, or callers came, after the last one.
    func needsRequest(now: Duration) -> Bool {
        isManaged && !hasOpenRequest && (!waiting.isEmpty || management.isRequestDue(now: now))
    }

    /// The server answered the last ack request, or ping.
    ///
    /// - Returns: The callers that waited for it.
    mutating func answered(now: Duration) -> [AccountMachine.Caller] {
        keepAlive.didReceiveAnswer(now: now)
        guard isManaged else { return [] }
        management.didReceiveAnswer()
        hasCaughtUp = true
        defer { (waiting, waitingForNext) = (waitingForNext, []) }
        return waiting
    }

    /// Our count, for a last ack.
    var lastAck: HandledCount? { isManaged ? management.h : nil }

    /// All callers that wait.
    var callers: [AccountMachine.Caller] { waiting + waitingForNext }

    // MARK: Time

    /// When something is due if nothing happens before.
    var nextDue: Duration? {
        [keepAlive.nextDue, isManaged ? management.nextDue : nil, linkCheck].compactMap(\.self).min()
    }
}
