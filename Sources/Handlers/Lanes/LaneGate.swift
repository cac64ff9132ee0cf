/// The free places of a lane and its token bucket. They decide when the next entry may start.
///
/// ```text
///   nextStart(now) ──▶ nil: no place is free, or an entry waits for the next token already
///                 ──▶ a time: admit(entry, start) ──▶ started(entry) at that time, or leave(entry) ──▶ leave(entry)
/// ```
/// The first entry that must wait for a token gets its place at once, with the time of the token as its due time. A runner of any process
/// calls it then like a timer, also when the process that stored it has ended.
struct LaneGate: Equatable {
    var concurrency: Int?
    private(set) var rate: LaneRate?
    /// Whether nothing starts until a person resumes the lane.
    var isPaused = false
    /// The number of entries with a place.
    var running = 0
    /// The time at which the bucket is full again, in milliseconds times the rate's count: so no start is lost to rounding.
    private(set) var paidUntil: Int64 = 0
    /// The entry that has a place and waits for its token.
    private(set) var tokenWaiter: Int64?
    /// The time at which that entry has its token.
    private(set) var tokenAt: Timestamp?
    /// The tag of the share that had its turn last; nil while no entry with a share has waited.
    var shareClock: Int64?

    init() {}

    init(
        concurrency: Int?, rate: LaneRate?, running: Int, paidUntil: Int64, tokenWaiter: Int64?,
        tokenAt: Timestamp?, shareClock: Int64? = nil, isPaused: Bool = false
    ) {
        (self.shareClock, self.isPaused) = (shareClock, isPaused)
        (self.concurrency, self.rate, self.running) = (concurrency, rate, running)
        (self.paidUntil, self.tokenWaiter, self.tokenAt) = (paidUntil, tokenWaiter, tokenAt)
    }

    /// When the next entry may start.
    ///
    /// - Returns: Nil while there is no place for it, or another one waits for its token.
    func nextStart(_ now: Timestamp) -> Timestamp? {
        if isPaused { return nil }
        if let concurrency, running >= concurrency, !BuiltInFault.crowdLane.isOn { return nil }
        if tokenWaiter != nil { return nil }
        return max(now, nextToken(now))
    }

    /// When the bucket has a token for the next entry. A clock that was set back delays that by a period at most.
    func nextToken(_ now: Timestamp) -> Timestamp {
        guard let rate else { return now }
        return token(settled(now, rate) + rate.period.milliseconds, rate, now)
    }

    /// When the bucket has the last of the tokens that are paid with `paid`.
    private func token(_ paid: Int64, _ rate: LaneRate, _ now: Timestamp) -> Timestamp {
        let count = Int64(rate.count)
        let start = paid - rate.bucket
        return Timestamp(milliseconds: max(now.milliseconds, (start + count - 1) / count))
    }

    /// The time before which an entry must not start although it is due; nil when it may.
    ///
    /// A time that is more than a period away was set by a clock that was ahead, and does not count.
    func delay(of entry: AnyHandlerID, _ now: Timestamp) -> Timestamp? {
        guard tokenWaiter == entry.rawValue, let tokenAt, let rate, tokenAt > now else { return nil }
        return tokenAt <= now + rate.period ? tokenAt : nil
    }

    /// Gives an entry a place and a token.
    mutating func admit(_ entry: AnyHandlerID, at start: Timestamp, _ now: Timestamp) {
        running += 1
        guard let rate else { return }
        paidUntil = settled(now, rate) + rate.period.milliseconds
        if start > now { (tokenWaiter, tokenAt) = (entry.rawValue, start) }
    }

    /// An entry is called: it waits for its token no longer. By a strict rate, the next one starts no sooner after this.
    mutating func started(_ entry: AnyHandlerID, _ now: Timestamp) {
        endWait(of: entry)
        guard let rate, rate.isStrict else { return }
        let (count, period) = (Int64(rate.count), rate.period.milliseconds)
        if let token = tokenAt {
            let next = max(token, now + .milliseconds((period + count - 1) / count))
            tokenAt = next
            paidUntil = max(paidUntil, next.milliseconds * count + period)
        } else {
            paidUntil = max(paidUntil, now.milliseconds * count + period)
        }
    }

    private mutating func endWait(of entry: AnyHandlerID) {
        if tokenWaiter == entry.rawValue { (tokenWaiter, tokenAt) = (nil, nil) }
    }

    /// Lets the entry that waits for its token start now: the clock was set back since.
    mutating func hasten(_ entry: AnyHandlerID, _ now: Timestamp) {
        if tokenWaiter == entry.rawValue { tokenAt = now }
    }

    /// Frees the place of an entry.
    ///
    /// - Parameter isUncalled: Whether no process called the entry, so that its token is free again. The token of an entry that waits for
    ///   it is free again in any case.
    mutating func leave(_ entry: AnyHandlerID, isUncalled: Bool = false) {
        running = max(0, running - 1)
        let isWaiter = tokenWaiter == entry.rawValue
        if let rate, isWaiter || isUncalled { paidUntil -= rate.period.milliseconds }
        endWait(of: entry)
    }

    /// Sets the limits. Tokens that were spent stay spent, and the entry that waits for its token gets the time of the new rate.
    mutating func set(_ rule: LaneRule, _ now: Timestamp) {
        concurrency = rule.concurrency
        let spent = rate.map { old in
            let spent = Double(settled(now, old) - now.milliseconds * Int64(old.count))
            return (time: spent / Double(old.count), tokens: spent / Double(old.period.milliseconds))
        }
        rate = rule.rate.map {
            LaneRate($0.count, per: .milliseconds($0.period.milliseconds), atOnce: $0.atOnce)
        }
        guard let rate else {
            (paidUntil, tokenWaiter, tokenAt) = (0, nil, nil)
            return
        }
        let (count, period) = (Double(rate.count), Double(rate.period.milliseconds))
        // The stricter of both rates counts. The token of the entry that waits is spent before the bucket has it.
        let most = Double(rate.bucket) + (tokenWaiter == nil ? 0 : period)
        let paid = spent.map { max($0.time * count, $0.tokens * period) } ?? 0
        paidUntil = now.milliseconds * Int64(rate.count) + Int64(min(paid, most))
        if tokenWaiter != nil { tokenAt = token(paidUntil, rate, now) }
    }

    /// ``paidUntil`` at the time of the clock: a full bucket gets no fuller, and no more than a whole bucket is spent.
    private func settled(_ now: Timestamp, _ rate: LaneRate) -> Int64 {
        let full = now.milliseconds * Int64(rate.count)
        let spent = max(paidUntil - full, 0)
        // One entry may have its token before the bucket has.
        return full + (spent > rate.bucket + rate.period.milliseconds ? rate.bucket : spent)
    }
}

extension LaneRate {
    /// What a full bucket holds, in the unit of ``LaneGate/paidUntil``.
    fileprivate var bucket: Int64 { period.milliseconds * Int64(atOnce) }
}
