import Glibc

/// The monotonic clock of an account, passed in so that tests can turn it by hand.
public struct TimeSource: Sendable {
    /// Milliseconds that never go backwards.
    public let milliseconds: @Sendable () -> Int64
    /// Registers something to run whenever a hand-turned clock was turned; nil for a clock that runs by itself.
    public let onTurn: (@Sendable (@escaping @Sendable () -> Void) -> Void)?

    public init(
        milliseconds: @escaping @Sendable () -> Int64,
        onTurn: (@Sendable (@escaping @Sendable () -> Void) -> Void)? = nil
    ) {
        self.milliseconds = milliseconds
        self.onTurn = onTurn
    }

    /// The time that lies `duration` after `time`; the end of time instead of an overflow.
    static func sum(_ time: Int64, _ duration: Int64) -> Int64 {
        let (sum, isOverflow) = time.addingReportingOverflow(max(0, duration))
        return isOverflow ? .max : sum
    }

    /// The machine's monotonic clock.
    public static let system = TimeSource(milliseconds: {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    })
}
