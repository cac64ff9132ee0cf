/// A time as XMPP writes it, in milliseconds since 1970, UTC.
///
/// ```swift
/// DateTime.text(1_763_676_000_123)                   // "2025-11-20T22:00:00.123Z"
/// DateTime.milliseconds("2025-11-20T23:00:00+01:00") // 1763676000000
/// try delay.value(of: "stamp", as: DateTime.self).milliseconds
/// ```
///
/// Source: XEP-0082 section 3.2.
public struct DateTime: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// Milliseconds since 1970, UTC.
    public var milliseconds: Int64

    /// Makes a time.
    ///
    /// - Parameter milliseconds: Milliseconds since 1970, UTC.
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Whether `left` is earlier.
    public static func < (left: DateTime, right: DateTime) -> Bool { left.milliseconds < right.milliseconds }

    /// The time in UTC, as ``text(_:)`` writes it.
    public var description: String { Self.text(milliseconds) }

    /// The text of a time.
    ///
    /// - Parameter milliseconds: Milliseconds since 1970, of the years 0 to 9999.
    /// - Returns: The time in UTC, with three digits behind the seconds.
    public static func text(_ milliseconds: Int64) -> String {
        // A year has four digits (XEP-0082 section 3.1).
        let milliseconds = min(max(milliseconds, writable.lowerBound), writable.upperBound)
        let seconds = floorDivide(milliseconds, 1000)
        let days = floorDivide(seconds, 86400)
        let (year, month, day) = date(ofDay: days)
        let inDay = seconds - days * 86400
        let time = [inDay / 3600, inDay / 60 % 60, inDay % 60].map { padded($0, 2) }.joined(separator: ":")
        let thousandths = padded(milliseconds - seconds * 1000, 3)
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(time).\(thousandths)Z"
    }

    /// The years 0000 to 9999.
    private static let writable: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    /// The time that a text says; nil when it is no such text. Digits beyond milliseconds are cut off.
    ///
    /// - Parameter text: A date with a time and `Z` or an offset from UTC.
    /// - Returns: Milliseconds since 1970, UTC.
    public static func milliseconds(_ text: some TextConvertible) -> Int64? {
        var rest = Array(text.foreignText.utf8)[...]
        guard let year = number(&rest, 4), take(&rest, "-"), let month = number(&rest, 2), take(&rest, "-"),
            let day = number(&rest, 2), take(&rest, "T"), let hour = number(&rest, 2), take(&rest, ":"),
            let minute = number(&rest, 2), take(&rest, ":"), let second = number(&rest, 2),
            (1...12).contains(month), (1...31).contains(day), hour <= 24, minute < 60, second <= 60,
            let thousandths = fraction(&rest), let offset = zone(&rest), rest.isEmpty
        else { return nil }
        let days = self.day(year: year, month: month, day: day)
        return ((days * 24 + hour) * 60 + minute - offset) * 60_000 + second * 1000 + thousandths
    }

    // MARK: Reading

    static func take(_ rest: inout ArraySlice<UInt8>, _ character: Unicode.Scalar) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        rest.removeFirst()
        return true
    }

    static func number(_ rest: inout ArraySlice<UInt8>, _ count: Int) -> Int64? {
        let digits = rest.prefix(count)
        guard digits.count == count, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        rest = rest.dropFirst(count)
        return digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }

    /// What follows the seconds, in milliseconds; 0 when nothing does.
    private static func fraction(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        guard take(&rest, ".") else { return 0 }
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        guard !digits.isEmpty else { return nil }
        rest = rest.dropFirst(digits.count)
        let padded = (Array(digits) + [0x30, 0x30]).prefix(3)
        return padded.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }

    /// Minutes east of UTC.
    private static func zone(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        if take(&rest, "Z") { return 0 }
        let isEast = rest.first == UInt8(ascii: "+")
        guard isEast || rest.first == UInt8(ascii: "-") else { return nil }
        rest.removeFirst()
        guard let hours = number(&rest, 2), take(&rest, ":"), let minutes = number(&rest, 2) else {
            return nil
        }
        return (hours * 60 + minutes) * (isEast ? 1 : -1)
    }

    // MARK: The calendar

    private static func floorDivide(_ value: Int64, _ divisor: Int64) -> Int64 {
        let quotient = value / divisor
        return value % divisor < 0 ? quotient - 1 : quotient
    }

    static func padded(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// The Gregorian date of a day counted from 1970; the year is counted from March so that the leap day comes last.
    static func date(ofDay days: Int64) -> (Int64, Int64, Int64) {
        let shifted = days + 719_468
        let era = floorDivide(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * month + 2) / 5 + 1
        let civilMonth = month < 10 ? month + 3 : month - 9
        return (yearOfEra + era * 400 + (civilMonth <= 2 ? 1 : 0), civilMonth, day)
    }

    static func day(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = floorDivide(shifted, 400)
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
