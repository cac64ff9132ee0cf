/// The free places of a lane, and its token bucket: who may start, and when.
///
/// ```text
///   nextStart(now) ──▶ nil: no place is free, or an entry waits for the next token already
///                 ──▶ a time: take(entry, start) ──▶ started(entry) at that time, or leave(entry) ──▶ leave(entry)
/// ```
/// The first entry that must wait for a token gets its place at once, with the time of the token as its due time. A runner calls it then
/// like a timer, whatever has become of this process.
struct LaneGate: Equatable {
    var concurrency: Int?
    private(set) var rate: LaneRate?
    /// The number of entries with a place.
    var running = 0
    /// The time at which the bucket is full again, in milliseconds times the rate's count: so no start is lost to rounding.
    private(set) var paidUntil: Int64 = 0
    /// The entry that has a place and waits for its token, with the time of that.
    private(set) var ahead: Int64?
    private(set) var aheadAt: Timestamp?

    init() {}

    init(
        concurrency: Int?, rate: LaneRate?, running: Int, paidUntil: Int64, ahead: Int64?, aheadAt: Timestamp?
    ) {
        (self.concurrency, self.rate, self.running) = (concurrency, rate, running)
        (self.paidUntil, self.ahead, self.aheadAt) = (paidUntil, ahead, aheadAt)
    }

    /// When the next entry may start.
    ///
    /// - Returns: Nil while there is no place for it, or another one waits for its token.
    func nextStart(_ now: Timestamp) -> Timestamp? {
        if let concurrency, running >= concurrency, !BuiltInFault.crowdLane.isOn { return nil }
        if ahead != nil { return nil }
        return max(now, tokenAt(now))
    }

    /// When the bucket has a token. A clock that was set back puts that off by a period at most.
    func tokenAt(_ now: Timestamp) -> Timestamp {
        guard let rate else { return now }
        let (count, period) = (Int64(rate.count), rate.period.milliseconds)
        // An empty bucket is full a whole period later.
        let start = settled(now, rate) + period - period * count
        return Timestamp(milliseconds: max(now.milliseconds, (start + count - 1) / count))
    }

    /// Gives an entry a place and a token.
    mutating func take(_ entry: AnyHandlerID, at start: Timestamp, _ now: Timestamp) {
        running += 1
        guard let rate else { return }
        paidUntil = settled(now, rate) + rate.period.milliseconds
        if start > now { (ahead, aheadAt) = (entry.rawValue, start) }
    }

    /// The time of an entry has come.
    mutating func started(_ entry: AnyHandlerID) {
        if ahead == entry.rawValue { (ahead, aheadAt) = (nil, nil) }
    }

    /// Takes the place of an entry back.
    ///
    /// - Parameter isUncalled: Whether it did not start, so that it gives back its token. One whose time had not come does not say so.
    mutating func leave(_ entry: AnyHandlerID, isUncalled: Bool = false) {
        running = max(0, running - 1)
        let isAhead = ahead == entry.rawValue
        if let rate, isAhead || isUncalled { paidUntil -= rate.period.milliseconds }
        started(entry)
    }

    /// Sets the limits. Tokens that were spent stay spent.
    mutating func set(_ rule: LaneRule, _ now: Timestamp) {
        concurrency = rule.concurrency
        let missing = rate.map { Double(settled(now, $0)) / Double($0.count) - Double(now.milliseconds) } ?? 0
        rate = rule.rate.map { LaneRate($0.count, per: .milliseconds($0.period.milliseconds)) }
        guard let rate else {
            (paidUntil, ahead, aheadAt) = (0, nil, nil)
            return
        }
        let longest = Double(rate.period.milliseconds)
        paidUntil =
            now.milliseconds * Int64(rate.count) + Int64(min(missing, longest) * Double(rate.count))
    }

    /// ``paidUntil`` as the clock stands: what is over counts no longer, and no more than a whole bucket is spent.
    private func settled(_ now: Timestamp, _ rate: LaneRate) -> Int64 {
        let full = now.milliseconds * Int64(rate.count)
        let spent = max(paidUntil - full, 0)
        let bucket = rate.period.milliseconds * Int64(rate.count)
        // One entry may have its token before the bucket has.
        return full + (spent > bucket + rate.period.milliseconds ? bucket : spent)
    }
}
