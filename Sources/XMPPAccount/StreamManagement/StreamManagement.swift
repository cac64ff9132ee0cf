import Handlers

/// The rules of XEP-0198 for one stream: the counts, when to send an ack request, and when to send an ack.
///
/// A stanza is counted when it arrives (`received`), whatever becomes of it. The `h` of an ack is `handled`: the stanzas up to the
/// first one that a handler has deferred. Counts are modulo 2^32.
///
/// It is a value without socket, clock or store. Its inputs carry the time of the monotonic clock. A step
/// works on a copy, which the loop takes over after COMMIT, so an ack carries a committed count only.
package struct StreamManagement: Sendable {
    /// The number of stanzas that arrived in this session; duplicates after a resumption count once.
    package private(set) var received: HandledCount
    /// The number of them that are committed, from the first on: the `h` of an ack.
    package private(set) var h: HandledCount
    /// The server's last `h`.
    package private(set) var acknowledged: HandledCount
    /// Policy for ack requests and acks.
    package var policy: AcknowledgementPolicy

    /// Deferred stanzas, in the order of arrival.
    private var deferred: [HandledCount]
    /// The number of the stanza that arrived last on this stream.
    package private(set) var position: HandledCount

    /// Number of stanzas that were written to this stream and are not acknowledged.
    private var outstanding = 0
    /// Number of them written since the last ack request, and the time of the first.
    private var unasked = 0
    private var unaskedSince: Duration?
    /// Time of the oldest pending ack request.
    package private(set) var requestedAt: Duration?

    /// The `h` that was sent last, and the time since which it is out of date.
    private var sentH: HandledCount
    private var unsentSince: Duration?
    /// Time of the oldest ack request of the server without an ack.
    private var owedSince: Duration?

    /// - Parameters:
    ///   - received: How many stanzas had arrived when the stream began; 0 for a new session.
    ///   - deferred: The numbers of those that are not handled yet, in any order.
    ///   - acknowledged: The server's last `h`.
    package init(
        received: HandledCount = HandledCount(rawValue: 0), deferred: [HandledCount] = [],
        acknowledged: HandledCount = HandledCount(rawValue: 0), policy: AcknowledgementPolicy = .init()
    ) {
        self.received = received
        self.acknowledged = acknowledged
        self.policy = policy
        self.deferred = Self.ordered(deferred, before: received)
        h = Self.prefix(of: received, without: self.deferred)
        // The server sends again whatever lies behind the count it was told (section 5).
        position = h
        sentH = h
    }

    // MARK: Stanzas that arrive

    /// Kind of an arriving stanza.
    package enum Arrival: Hashable, Sendable {
        /// A new stanza.
        case new(HandledCount)
        /// A deferred stanza that arrived before the stream was resumed, and is delivered again.
        case again(HandledCount)
        /// A duplicate: it was received before the stream was resumed, and is skipped.
        case duplicate
    }

    /// Counts an arriving stanza. It counts as handled unless ``postpone(_:)`` follows.
    ///
    /// After a resumption the server sends everything after the count in `<resume/>` once more, in order (section 5), so
    /// the first stanzas are recognized by their number alone.
    package mutating func arrive(now: Duration) -> Arrival {
        let isNew = position == received
        position = position + 1
        if isNew {
            received = position
            advance(now: now)
            return .new(position)
        }
        guard deferred.contains(position) else { return .duplicate }
        deferred.removeAll { $0 == position }
        advance(now: now)
        return .again(position)
    }

    /// Defers the stanza with that number.
    package mutating func postpone(_ number: HandledCount) {
        setDeferred(deferred.filter { $0 != number } + [number], now: unsentSince ?? .zero)
    }

    /// Replaces the numbers of the deferred stanzas; other processes may have acknowledged some.
    package mutating func setDeferred(_ numbers: [HandledCount], now: Duration) {
        deferred = Self.ordered(numbers, before: received)
        advance(now: now)
    }

    /// Whether any stanza is deferred.
    package var hasDeferred: Bool { !deferred.isEmpty }

    private mutating func advance(now: Duration) {
        h = Self.prefix(of: received, without: deferred)
        unsentSince = h == sentH ? nil : unsentSince ?? now
    }

    /// `h` covers a prefix only: a deferred stanza holds back all after it (section 4).
    private static func prefix(of received: HandledCount, without deferred: [HandledCount]) -> HandledCount {
        deferred.first.map { HandledCount(rawValue: $0.rawValue &- 1) } ?? received
    }

    private static func ordered(_ numbers: [HandledCount], before received: HandledCount) -> [HandledCount] {
        numbers.sorted { received.distance(from: $0) > received.distance(from: $1) }
    }

    // MARK: Acks

    /// Handles an ack request of the server.
    package mutating func receiveRequest(now: Duration) { owedSince = owedSince ?? now }

    /// Returns whether an ack is due now.
    package func isAcknowledgementDue(now: Duration) -> Bool { acknowledgementDue.map { $0 <= now } ?? false }

    /// Records that an ack was sent.
    package mutating func didAcknowledge() {
        (sentH, unsentSince, owedSince) = (h, nil, nil)
    }

    private var acknowledgementDue: Duration? {
        var due: [Duration] = []
        if let owedSince { due.append(TimeSource.sum(owedSince, policy.responseDelay)) }
        if let unsentSince {
            let unsent = h.distance(from: sentH)
            if policy.acknowledgesAfterStanzas > 0,
                unsent >= UInt32(clamping: policy.acknowledgesAfterStanzas)
            {
                due.append(unsentSince)
            }
            if policy.acknowledgesAfter > .zero {
                due.append(TimeSource.sum(unsentSince, policy.acknowledgesAfter))
            }
        }
        return due.min()
    }

    // MARK: Ack requests

    /// Stanzas were written to the stream.
    package mutating func didWrite(_ stanzas: Int, now: Duration) {
        guard stanzas > 0 else { return }
        outstanding += stanzas
        unasked += stanzas
        unaskedSince = unaskedSince ?? now
    }

    /// Returns whether an ack request is due now. One is pending at a time: its ack covers everything written before.
    package func isRequestDue(now: Duration) -> Bool { requestDue.map { $0 <= now } ?? false }

    /// Records that an ack request was sent.
    package mutating func didRequest(now: Duration) {
        requestedAt = requestedAt ?? now
        (unasked, unaskedSince) = (0, nil)
    }

    /// Handles an ack of the server.
    ///
    /// - Parameters:
    ///   - claimed: The count.
    ///   - waiting: How many stanzas the server may have received and has not acknowledged.
    /// - Returns: How many of those, oldest first, it takes responsibility for.
    /// - Throws: ``HandledCountError`` when it claims more than it was sent or less than before; nothing is changed.
    package mutating func acknowledge(
        _ claimed: HandledCount, waiting: Int
    ) throws(HandledCountError) -> Int {
        let covered = try Self.covered(by: claimed, after: acknowledged, waiting: waiting)
        acknowledged = claimed
        outstanding = max(0, outstanding - covered)
        // There is nothing left to ask about.
        if outstanding == 0 { (unasked, unaskedSince) = (0, nil) }
        return covered
    }

    /// Records that the last ack request was answered.
    package mutating func didReceiveAnswer() { requestedAt = nil }

    /// Number of waiting stanzas that a count covers. A count below the last one is a huge distance modulo 2^32, so the
    /// same comparison refuses it.
    private static func covered(
        by claimed: HandledCount, after acknowledged: HandledCount, waiting: Int
    ) throws(HandledCountError) -> Int {
        let distance = Int(claimed.distance(from: acknowledged))
        guard distance <= waiting else {
            throw HandledCountError(claimed: claimed, acknowledged: acknowledged, outstanding: waiting)
        }
        return distance
    }

    private var requestDue: Duration? {
        guard requestedAt == nil, let unaskedSince else { return nil }
        var due: [Duration] = []
        if policy.requestsAfterStanzas > 0, unasked >= policy.requestsAfterStanzas {
            due.append(unaskedSince)
        }
        if policy.requestsAfter > .zero { due.append(TimeSource.sum(unaskedSince, policy.requestsAfter)) }
        return due.min()
    }

    // MARK: Time

    /// When something is due next, if nothing happens before.
    package var nextDue: Duration? { [requestDue, acknowledgementDue].compactMap(\.self).min() }
}
