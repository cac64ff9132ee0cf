import Handlers

/// The rules of XEP-0198 for one stream: the counts, when to send an ack request, and when to send an ack.
///
/// A stanza is counted when it arrives (`received`), whatever becomes of it. The `h` of an ack is `handled`: the stanzas up to the
/// first one that a handler has deferred. Counts are modulo 2^32.
///
/// It is a value without socket, clock or store. Its inputs carry the time in milliseconds of a clock that does not go back. A step
/// works on a copy, which the loop takes over after COMMIT, so an ack carries a committed count only.
package struct StreamManagement: Sendable {
    /// How many stanzas arrived in this session; those that came again after a resumption count once.
    package private(set) var received: HandledCount
    /// How many of them, from the first on, are handled: the `h` of an ack.
    package private(set) var handled: HandledCount
    /// The server's last `h`.
    package private(set) var acknowledged: HandledCount
    /// When to ask and when to tell.
    package var policy: AcknowledgementPolicy

    /// The stanzas that arrived and are not handled yet, in the order of arrival.
    private var deferred: [HandledCount]
    /// The number of the stanza that arrived last on this stream.
    package private(set) var position: HandledCount

    /// How many stanzas were written to this stream and are not acknowledged.
    private var outstanding = 0
    /// How many of them were written since the server was asked last, and when the first of those was.
    private var unasked = 0
    private var unaskedSince: Int64?
    /// When the oldest ack request that is not answered was sent.
    package private(set) var requestedAt: Int64?

    /// What the server was told last, and since when there is more to tell.
    private var told: HandledCount
    private var untoldSince: Int64?
    /// Since when the server has waited for an answer.
    private var owedSince: Int64?

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
        handled = Self.prefix(of: received, without: self.deferred)
        // The server sends again whatever lies behind the count it was told (section 5).
        position = handled
        told = handled
    }

    // MARK: Stanzas that arrive

    /// What an arriving stanza is.
    package enum Arrival: Hashable, Sendable {
        /// One that was never here.
        case new(HandledCount)
        /// One that was here before the stream was resumed, and is not handled yet: it is to be handled now.
        case again(HandledCount)
        /// One that was here before the stream was resumed and is handled: it is passed over.
        case copy
    }

    /// Counts an arriving stanza. It counts as handled unless ``postpone(_:)`` follows.
    ///
    /// After a resumption the server sends everything behind the told count once more, in order (section 5), so the first
    /// stanzas are recognized by their number alone.
    package mutating func arrive(now: Int64) -> Arrival {
        let isNew = position == received
        position = position + 1
        if isNew {
            received = position
            advance(now: now)
            return .new(position)
        }
        guard deferred.contains(position) else { return .copy }
        deferred.removeAll { $0 == position }
        advance(now: now)
        return .again(position)
    }

    /// Takes the stanza with that number back into those that are not handled yet.
    package mutating func postpone(_ number: HandledCount) {
        setDeferred(deferred.filter { $0 != number } + [number], now: untoldSince ?? 0)
    }

    /// Replaces the numbers of the stanzas that are not handled yet; some of them may have been handled elsewhere.
    package mutating func setDeferred(_ numbers: [HandledCount], now: Int64) {
        deferred = Self.ordered(numbers, before: received)
        advance(now: now)
    }

    /// Whether any stanza that arrived is not handled yet.
    package var hasDeferred: Bool { !deferred.isEmpty }

    private mutating func advance(now: Int64) {
        handled = Self.prefix(of: received, without: deferred)
        untoldSince = handled == told ? nil : untoldSince ?? now
    }

    /// The count may only cover a prefix: a stanza that is not handled holds back all behind it (section 4).
    private static func prefix(of received: HandledCount, without deferred: [HandledCount]) -> HandledCount {
        deferred.first.map { HandledCount(rawValue: $0.rawValue &- 1) } ?? received
    }

    private static func ordered(_ numbers: [HandledCount], before received: HandledCount) -> [HandledCount] {
        numbers.sorted { received.distance(from: $0) > received.distance(from: $1) }
    }

    // MARK: Telling our count

    /// The server asked for our count.
    package mutating func receiveRequest(now: Int64) { owedSince = owedSince ?? now }

    /// Whether our count is to be told now.
    package func isAcknowledgementDue(now: Int64) -> Bool {
        acknowledgementDue.map { $0 <= now } ?? false
    }

    /// Our count was told.
    package mutating func didAcknowledge() {
        (told, untoldSince, owedSince) = (handled, nil, nil)
    }

    private var acknowledgementDue: Int64? {
        var due: [Int64] = []
        if let owedSince { due.append(TimeSource.sum(owedSince, policy.responseDelay.milliseconds)) }
        if let untoldSince {
            let untold = handled.distance(from: told)
            if policy.acknowledgesAfterStanzas > 0,
                untold >= UInt32(clamping: policy.acknowledgesAfterStanzas)
            {
                due.append(untoldSince)
            }
            if policy.acknowledgesAfter > .zero {
                due.append(TimeSource.sum(untoldSince, policy.acknowledgesAfter.milliseconds))
            }
        }
        return due.min()
    }

    // MARK: Asking for the server's count

    /// Stanzas were written to the stream.
    package mutating func didWrite(_ stanzas: Int, now: Int64) {
        guard stanzas > 0 else { return }
        outstanding += stanzas
        unasked += stanzas
        unaskedSince = unaskedSince ?? now
    }

    /// Whether the server is to be asked now. One question at a time: its answer tells about everything written before.
    package func isRequestDue(now: Int64) -> Bool { requestDue.map { $0 <= now } ?? false }

    /// The server was asked.
    package mutating func didRequest(now: Int64) {
        requestedAt = requestedAt ?? now
        (unasked, unaskedSince) = (0, nil)
    }

    /// The server told its count.
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

    /// The question that was asked last is answered.
    package mutating func didReceiveAnswer() { requestedAt = nil }

    /// How many waiting stanzas a count covers. A count below the last one looks like a huge distance modulo 2^32 and is
    /// refused by the same comparison.
    private static func covered(
        by claimed: HandledCount, after acknowledged: HandledCount, waiting: Int
    ) throws(HandledCountError) -> Int {
        let distance = Int(claimed.distance(from: acknowledged))
        guard distance <= waiting else {
            throw HandledCountError(claimed: claimed, acknowledged: acknowledged, outstanding: waiting)
        }
        return distance
    }

    private var requestDue: Int64? {
        guard requestedAt == nil, let unaskedSince else { return nil }
        var due: [Int64] = []
        if policy.requestsAfterStanzas > 0, unasked >= policy.requestsAfterStanzas {
            due.append(unaskedSince)
        }
        if policy.requestsAfter > .zero {
            due.append(TimeSource.sum(unaskedSince, policy.requestsAfter.milliseconds))
        }
        return due.min()
    }

    // MARK: Time

    /// When something is due next, if nothing happens before.
    package var nextDue: Int64? { [requestDue, acknowledgementDue].compactMap(\.self).min() }
}
