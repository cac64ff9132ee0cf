/// A point in time of the wall clock, in whole milliseconds since 1970, UTC.
///
/// Names that end in `At` are such points. A `timeout` is a `Duration` of connected time instead, except where it says another
/// clock.
///
/// ```swift
/// let end = step.now + .seconds(60)
/// let age: Duration = step.now - end
/// try step.execute("INSERT INTO visit(at) VALUES (?)", step.now)
/// ```
///
/// It is stored and encoded as the number of milliseconds. A sum beyond what that number holds is the latest or the
/// earliest time, so times of others cannot make a sum overflow.
public struct Timestamp: Hashable, Comparable, Sendable {
    /// Milliseconds since 1970, UTC; negative before.
    public let milliseconds: Int64

    /// Makes a point in time.
    ///
    /// - Parameter milliseconds: Milliseconds since 1970, UTC.
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Whether `left` is earlier.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// The time that is `duration` after `time`. A part of a millisecond is dropped.
    public static func + (time: Timestamp, duration: Duration) -> Timestamp { time.moved(by: duration, 1) }

    /// The time that is `duration` before `time`. A part of a millisecond is dropped.
    public static func - (time: Timestamp, duration: Duration) -> Timestamp { time.moved(by: duration, -1) }

    /// How long `later` is after `earlier`; negative when it is before.
    public static func - (later: Timestamp, earlier: Timestamp) -> Duration {
        .milliseconds(later.milliseconds) - .milliseconds(earlier.milliseconds)
    }

    private func moved(by duration: Duration, _ sign: Int128) -> Timestamp {
        let (seconds, attoseconds) = duration.components
        let whole = Int128(seconds) * 1000 + Int128(attoseconds / 1_000_000_000_000_000)
        return Timestamp(milliseconds: Int64(clamping: Int128(milliseconds) + sign * whole))
    }
}

extension Timestamp: CodedAsOneValue, Codable {
    package init(coded: Int64) { milliseconds = coded }
    package var coded: Int64 { milliseconds }
}

extension Timestamp: CustomStringConvertible {
    /// The time in UTC with milliseconds, such as `2025-11-20T22:00:00.123Z`. For the years 0 to 9999 (XEP-0082 section 3.2).
    public var description: String {
        let milliseconds = min(max(milliseconds, Self.writable.lowerBound), Self.writable.upperBound)
        let seconds = GregorianDay.floorDivide(milliseconds, 1000)
        let day = GregorianDay(number: GregorianDay.floorDivide(seconds, 86400))
        let inDay = seconds - day.number * 86400
        let padded = GregorianDay.padded
        let time = [inDay / 3600, inDay / 60 % 60, inDay % 60].map { padded($0, 2) }.joined(separator: ":")
        return "\(day)T\(time).\(padded(milliseconds - seconds * 1000, 3))Z"
    }

    /// The years 0000 to 9999: a year has four digits (XEP-0082 section 3.1).
    private static let writable: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999
}
