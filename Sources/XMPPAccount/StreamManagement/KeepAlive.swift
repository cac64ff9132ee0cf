import Handlers

/// When the server must show that it still hears an open stream: rules without clock or socket. Times are those of
/// the monotonic clock.
///
/// ```text
/// proof ──interval──▶ ack request or ping ──timeout──▶ dead
///   ▲                          │
///   └───────── answer ◀────────┘
/// ```
///
/// Only an answer is a proof: a line that loses what is sent from here may go on delivering.
struct KeepAlive: Sendable {
    /// After how much time without a proof the server is asked for one; nil for never.
    var interval: Duration?
    /// Within which time it must answer.
    let timeout: Duration
    /// When the server last showed that it heard this side.
    private var provenAt: Duration
    /// When the oldest request without an answer was sent.
    private(set) var requestedAt: Duration?

    /// - Parameter openedAt: When the stream was opened: the server answered then.
    init(interval: Duration?, timeout: Duration, openedAt: Duration) {
        self.interval = interval
        self.timeout = timeout
        provenAt = openedAt
    }

    /// An ack request or a ping was sent.
    mutating func didRequest(now: Duration) { requestedAt = requestedAt ?? now }

    /// The server answered.
    mutating func didReceiveAnswer(now: Duration) { (provenAt, requestedAt) = (now, nil) }

    /// This process did not run for so long: that does not count against the server.
    mutating func skip(_ duration: Duration) {
        requestedAt = requestedAt.map { TimeSource.sum($0, duration) }
    }

    /// Returns whether the server is to be asked for a proof now.
    func isRequestDue(now: Duration) -> Bool { requestedAt == nil && nextDue.map { $0 <= now } ?? false }

    /// Returns whether the answer is overdue.
    ///
    /// - Parameter readAt: Up to when everything that had arrived was read.
    func isDead(readAt: Duration) -> Bool { requestedAt != nil && nextDue.map { $0 <= readAt } ?? false }

    /// When a request is due, or the answer to it overdue; nil for never.
    var nextDue: Duration? {
        if let requestedAt { return TimeSource.sum(requestedAt, timeout) }
        if BuiltInFault.silentKeepAlive.isOn { return nil }
        return interval.map { TimeSource.sum(provenAt, $0) }
    }
}
