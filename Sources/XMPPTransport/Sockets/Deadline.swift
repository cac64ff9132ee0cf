import Platform

/// An instant until which a call may wait, in nanoseconds of the clock of an ``EventLoop``.
///
/// A value, so that one deadline covers connect, TLS and login together: `let deadline = loop.deadline(after: .seconds(30))`.
package struct Deadline: Hashable, Sendable {
    /// `Int64.max` means never.
    let nanoseconds: Int64

    /// Waits without end (canceling the task still ends the wait).
    package static let never = Deadline(nanoseconds: .max)

    private init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// The instant that lies `duration` after `now`. Zero or negative: a call that would have to wait fails at once.
    init(_ duration: Duration, after now: Int64) {
        let (seconds, attoseconds) = duration.components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow {
            self = seconds > 0 ? .never : Deadline(nanoseconds: 0)
            return
        }
        let (sum, sumOverflow) = (whole + attoseconds / 1_000_000_000).addingReportingOverflow(now)
        nanoseconds = sumOverflow ? .max : sum
    }

    /// Returns the instant `duration` from now on the machine's monotonic clock, which stops while the machine sleeps
    /// and never jumps when the wall clock is set.
    package static func after(_ duration: Duration) -> Deadline {
        Deadline(duration, after: SystemTime.monotonicNanoseconds())
    }

    /// Returns the earlier of two deadlines.
    package static func earlier(_ one: Deadline, _ other: Deadline) -> Deadline {
        one.nanoseconds <= other.nanoseconds ? one : other
    }

    /// The time left, zero when the deadline has passed.
    func remaining(at now: Int64) -> Duration {
        self == .never ? .seconds(Int64.max) : .nanoseconds(max(0, nanoseconds - now))
    }

    func isPassed(at now: Int64) -> Bool { self != .never && nanoseconds <= now }

    /// The time left in milliseconds, rounded up, so that no pause ends before the deadline; nil for never.
    func milliseconds(at now: Int64) -> Int64? {
        if self == .never { return nil }
        return (max(0, nanoseconds - now) + 999_999) / 1_000_000
    }
}
