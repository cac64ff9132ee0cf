import Platform

/// The clocks of a store and an account. Tests pass clocks that they turn by hand.
///
/// ```swift
/// let store = try HandlerStore(path: path, registry: registry, time: VirtualClock().timeSource)
/// ```
public struct TimeSource: Sendable {
    /// The monotonic clock: the time since any fixed moment, which never goes backwards.
    package let monotonic: @Sendable () -> Duration
    /// The wall clock. A user or a time server may set it back.
    public let wall: @Sendable () -> Timestamp
    /// Registers something to run whenever a hand-turned clock was turned; nil for a clock that runs by itself.
    package let onTurn: (@Sendable (@escaping @Sendable () -> Void) -> Void)?
    /// Registers something to run whenever the wall clock was set or the machine woke, for as long as the returned object lives. Nil for a
    /// clock that a program has made itself.
    package let onSet: OnSet?
    /// Whether the wall clock is the machine's. A store on a server then takes the server's.
    package let usesMachineWall: Bool

    package typealias OnSet =
        @Sendable (@escaping @Sendable () -> Void) throws(HandlerError) -> any AnyObject & Sendable

    /// Makes clocks.
    ///
    /// - Parameters:
    ///   - monotonic: The time since any fixed moment, which never goes backwards; nil for the machine's.
    ///   - wall: The wall clock; nil for the machine's.
    ///   - onTurn: Registers something to run whenever a hand-turned clock was turned; nil for a clock that runs by
    ///     itself.
    public init(
        monotonic: (@Sendable () -> Duration)? = nil, wall: (@Sendable () -> Timestamp)? = nil,
        onTurn: (@Sendable (@escaping @Sendable () -> Void) -> Void)? = nil
    ) {
        self.monotonic = monotonic ?? Self.systemMonotonic
        self.wall = wall ?? Self.systemWall
        self.onTurn = onTurn
        usesMachineWall = wall == nil
        onSet = usesMachineWall ? Self.onSystemSet : nil
    }

    /// Makes clocks of which the wall clock runs by itself, and may be set.
    package init(
        monotonic: @escaping @Sendable () -> Duration = Self.systemMonotonic,
        wall: @escaping @Sendable () -> Timestamp, onSet: OnSet?
    ) {
        (self.monotonic, self.wall, self.onSet) = (monotonic, wall, onSet)
        (onTurn, usesMachineWall) = (nil, false)
    }

    /// The machine's clocks.
    public static let system = TimeSource()

    /// Registers something to run whenever the machine's wall clock was set, or the machine woke.
    package static let onSystemSet: OnSet = { (action) throws(HandlerError) in
        try WallClockWatch.process.add(action)
    }

    /// Returns the time `duration` after `time`, in whole milliseconds. A duration below 0 counts as 0, and one above the longest
    /// stored duration counts as that, so that no duration of a program makes the sum overflow.
    package static func sum(_ time: Duration, _ duration: Duration) -> Duration {
        time + .milliseconds(duration.milliseconds)
    }

    /// Returns the machine's monotonic time.
    ///
    /// - Returns: The time since the machine started; it does not advance while the machine is suspended.
    package static func systemMonotonic() -> Duration { .nanoseconds(SystemTime.monotonicNanoseconds()) }

    /// Returns the machine's wall time.
    ///
    /// - Returns: The time now.
    package static func systemWall() -> Timestamp {
        Timestamp(milliseconds: SystemTime.wallNanoseconds() / 1_000_000)
    }

    /// Returns the monotonic time in whole milliseconds: the unit of stored times and of poll(2), so that a wait that was planned
    /// with it does not end a part of a millisecond early.
    package func wholeMonotonic() -> Duration { .milliseconds(monotonic().milliseconds) }
}

extension Duration {
    /// The duration in whole milliseconds, from 0 to the largest stored time.
    package var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0 else { return 0 }
        let (whole, isOverflow) = seconds.multipliedReportingOverflow(by: 1000)
        if isOverflow { return .max }
        let (sum, isSumOverflow) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return isSumOverflow ? .max : sum
    }
}
