import Platform

/// The clocks that a store and an account read, passed in so that tests can turn them by hand.
///
/// ```swift
/// let store = try HandlerStore(path: path, registry: registry, time: VirtualClock().timeSource)
/// ```
public struct TimeSource: Sendable {
    /// Milliseconds that never go backwards.
    public let milliseconds: @Sendable () -> Int64
    /// Milliseconds since 1970, UTC; a user or a time server may set them back.
    public let wallMilliseconds: @Sendable () -> Int64
    /// Registers something to run whenever a hand-turned clock was turned; nil for a clock that runs by itself.
    public let onTurn: (@Sendable (@escaping @Sendable () -> Void) -> Void)?

    /// Makes clocks.
    ///
    /// - Parameters:
    ///   - milliseconds: Milliseconds that never go backwards; zero may be any moment.
    ///   - wallMilliseconds: Milliseconds since 1970, UTC.
    ///   - onTurn: Registers something to run whenever a hand-turned clock was turned; nil for a clock that runs by
    ///     itself.
    public init(
        milliseconds: @escaping @Sendable () -> Int64 = Self.systemMilliseconds,
        wallMilliseconds: @escaping @Sendable () -> Int64 = Self.systemWallMilliseconds,
        onTurn: (@Sendable (@escaping @Sendable () -> Void) -> Void)? = nil
    ) {
        self.milliseconds = milliseconds
        self.wallMilliseconds = wallMilliseconds
        self.onTurn = onTurn
    }

    /// The machine's clocks.
    public static let system = TimeSource()

    /// The time that lies `duration` after `time`; the end of time instead of an overflow.
    package static func sum(_ time: Int64, _ duration: Int64) -> Int64 {
        let (sum, isOverflow) = time.addingReportingOverflow(max(0, duration))
        return isOverflow ? .max : sum
    }

    /// The machine's monotonic clock.
    ///
    /// - Returns: Milliseconds since the machine started; they stand still while it is suspended.
    public static func systemMilliseconds() -> Int64 { SystemTime.monotonicNanoseconds() / 1_000_000 }

    /// The machine's wall clock.
    ///
    /// - Returns: Milliseconds since 1970, UTC.
    public static func systemWallMilliseconds() -> Int64 { SystemTime.wallNanoseconds() / 1_000_000 }
}

extension Duration {
    /// Whole milliseconds, at least 0 and at most what a stored time can hold.
    package var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0 else { return 0 }
        let (whole, isOverflow) = seconds.multipliedReportingOverflow(by: 1000)
        return isOverflow ? .max : TimeSource.sum(whole, attoseconds / 1_000_000_000_000_000)
    }
}
