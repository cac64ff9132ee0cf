import Platform

/// An instant on the monotonic clock until which a blocking call may wait.
///
/// A value, so that one deadline covers connect, TLS and login together: `let deadline =
/// Deadline.after(.seconds(30))`. The monotonic clock stands still while the machine sleeps and never jumps
/// when the wall clock is set.
package struct Deadline: Hashable, Sendable {
    /// Nanoseconds on the monotonic clock; `Int64.max` means never.
    let nanoseconds: Int64

    /// Waits without end (an interrupting file descriptor still ends the wait).
    package static let never = Deadline(nanoseconds: .max)

    /// The instant that lies `duration` from now. Zero or negative: a call that would have to wait fails at
    /// once.
    package static func after(_ duration: Duration) -> Deadline {
        let (seconds, attoseconds) = duration.components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds > 0 ? .never : Deadline(nanoseconds: 0) }
        let (sum, sumOverflow) = (whole + attoseconds / 1_000_000_000).addingReportingOverflow(now())
        return Deadline(nanoseconds: sumOverflow ? .max : sum)
    }

    /// What is left, zero when the deadline has passed.
    package var remaining: Duration {
        self == .never ? .seconds(Int64.max) : .nanoseconds(max(0, nanoseconds - Deadline.now()))
    }

    /// Whether the deadline has passed.
    package var isPassed: Bool { self != .never && nanoseconds <= Deadline.now() }

    /// The earlier of two deadlines.
    package static func earlier(_ one: Deadline, _ other: Deadline) -> Deadline {
        one.nanoseconds <= other.nanoseconds ? one : other
    }

    /// The timeout to hand to poll(2): rounded up, so that poll never returns before the deadline; -1 for
    /// never.
    var pollMilliseconds: Int32 {
        if self == .never { return -1 }
        let left = max(0, nanoseconds - Deadline.now())
        return Int32(clamping: (left + 999_999) / 1_000_000)
    }

    private static func now() -> Int64 { SystemTime.monotonicNanoseconds() }
}
