/// A number of starts for each period.
///
/// ```swift
/// LaneRate(100, per: .seconds(60))
/// ```
///
/// It is a token bucket: that many may start at once after a pause, then one for each part of the period. So one period may have
/// twice as many starts, and three times as many after the program was away. For a service that refuses more, let one start at once: then no period, wherever it starts, has more starts than
/// ``count``.
///
/// ```swift
/// LaneRate(10, per: .seconds(1), atOnce: 1)  // one each 100 ms, never sooner
/// ```
///
/// The bucket is stored, so that all processes share it. Every attempt counts, except one that follows the death of a process.
public struct LaneRate: Hashable, Sendable {
    /// The number of starts in each period.
    public let count: Int
    /// The period, by the wall clock.
    public let period: Duration
    /// The number of starts at once after a pause.
    public let atOnce: Int

    // The maximum of `count`.
    static let maximumCount = 1_000_000
    // The maximum of `period` in milliseconds: 31 days.
    static let maximumPeriod: Int64 = 31 * 86_400_000

    /// Describes a rate; ``Step/setLane(_:)`` checks it.
    ///
    /// - Parameters:
    ///   - count: The number of starts, 1 to 1 000 000.
    ///   - period: The time for them, 1 millisecond to 31 days; a part of a millisecond is dropped.
    ///   - atOnce: How many start at once after a pause, 1 to `count`; nil for `count`. With 1 the limit is strict.
    public init(_ count: Int, per period: Duration, atOnce: Int? = nil) {
        (self.count, self.period, self.atOnce) = (count, period, atOnce ?? count)
    }

    /// Whether no period has more starts than ``count``.
    var isStrict: Bool { atOnce == 1 }
}

/// The limits of a lane.
///
/// ```swift
/// try store.step { step in
///     try step.setLane(LaneRule("mail", concurrency: 4, rate: LaneRate(100, per: .seconds(60))))
/// }
/// ```
public struct LaneRule: Hashable, Sendable {
    /// The name of the lane.
    public var name: String { lane.string }
    let lane: Name
    /// How many of its handlers run at the same time, in all processes together; nil for any number.
    public let concurrency: Int?
    /// How many of them start in each period; nil for any number.
    public let rate: LaneRate?

    /// Describes a lane; ``Step/setLane(_:)`` checks it.
    ///
    /// - Parameters:
    ///   - name: 1 to 128 bytes of UTF-8, without U+0000.
    ///   - concurrency: How many of its handlers run at the same time, 1 or more; nil for any number.
    ///   - rate: How many of them start in a time; nil for any number.
    public init(_ name: String, concurrency: Int? = nil, rate: LaneRate? = nil) {
        (lane, self.concurrency, self.rate) = (Name(name), concurrency, rate)
    }
}

// MARK: Checks

extension LaneRule {
    /// Whether it limits anything.
    var hasLimits: Bool { concurrency != nil || rate != nil }

    func check() throws(HandlerError) {
        try Lanes.check(lane)
        if let concurrency, concurrency < 1 {
            throw Lanes.invalid(
                "the concurrency of the lane '\(name)' is \(concurrency); it must be 1 or more, or nil for any"
            )
        }
        try rate?.check(name)
    }
}

extension LaneRate {
    fileprivate func check(_ name: String) throws(HandlerError) {
        guard 1...Self.maximumCount ~= count, 1...Self.maximumPeriod ~= period.milliseconds else {
            throw Lanes.invalid(
                "the rate of the lane '\(name)' is \(count) in \(period); it must be 1 to \(Self.maximumCount) in 1 ms to 31 days, or nil for any"
            )
        }
        guard 1...count ~= atOnce else {
            throw Lanes.invalid(
                "\(atOnce) of the lane '\(name)' start at once; it must be 1 to \(count), which start in \(period)"
            )
        }
    }
}

extension LanePlace {
    func check() throws(HandlerError) {
        try Lanes.check(name)
        guard Self.priorities ~= priority else {
            throw Lanes.invalid(
                "the priority \(priority) in the lane '\(lane)' is not one of \(Self.priorities.lowerBound) to \(Self.priorities.upperBound)"
            )
        }
        guard Self.weights ~= weight else {
            throw Lanes.invalid(
                "the weight \(weight) in the lane '\(lane)' is not one of \(Self.weights.lowerBound) to \(Self.weights.upperBound)"
            )
        }
        if let shareName, !shareName.isName(ofBytes: NameBounds.key) {
            throw Lanes.invalid(
                "a share has 1 to \(NameBounds.key) bytes and no U+0000; one of the lane '\(lane)' has \(shareName.utf8.count) bytes"
            )
        }
        guard let key else { return }
        guard key.isName(ofBytes: NameBounds.key) else {
            throw Lanes.invalid(
                "an order key has 1 to \(NameBounds.key) bytes and no U+0000; one of the lane '\(lane)' has \(key.utf8.count) bytes"
            )
        }
    }
}

extension Lanes {
    /// The maximum number of bytes of a name.
    static let longestName = 128
    /// The maximum number of lanes with limits.
    static let maximum = 1000
    /// The lane of the calls of ordered standing handlers. No program can name it, and it has no limits.
    static let standing: Name = ""

    static func invalid(_ message: String) -> HandlerError { HandlerError(.invalidLane, message) }

    static func check(_ name: Name) throws(HandlerError) {
        guard name.isName(ofBytes: longestName) else {
            throw invalid(
                "the name of a lane has 1 to \(longestName) bytes and no U+0000; this one has \(name.utf8.count) bytes"
            )
        }
    }
}
