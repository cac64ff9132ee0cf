import Timestamps

/// A day of the calendar as XMPP writes it, without a time.
///
/// ```swift
/// let signed = try element.value(of: "date", as: CalendarDate.self)
/// "\(signed)"        // "1776-07-04"
/// ```
///
/// Source: XEP-0082 section 3.1.
public struct CalendarDate: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The year, 0 to 9999.
    public let year: Int
    /// The month, 1 to 12.
    public let month: Int
    /// The day of the month, 1 to 31.
    public let day: Int

    /// Makes a date.
    ///
    /// - Parameters:
    ///   - year: 0 to 9999.
    ///   - month: 1 to 12.
    ///   - day: 1 up to the last day of that month.
    /// - Returns: Nil when the calendar has no such day.
    public init?(year: Int, month: Int, day: Int) {
        guard (0...9999).contains(year), (1...12).contains(month), (1...31).contains(day) else { return nil }
        // A day that the month does not have is one of the next month.
        let given = (Int64(year), Int64(month), Int64(day))
        guard GregorianDay(year: given.0, month: given.1, day: given.2).date == given else { return nil }
        (self.year, self.month, self.day) = (year, month, day)
    }

    /// Returns whether `left` is earlier.
    public static func < (left: CalendarDate, right: CalendarDate) -> Bool {
        (left.year, left.month, left.day) < (right.year, right.month, right.day)
    }

    /// The date as `CCYY-MM-DD`.
    public var description: String {
        "\(GregorianDay(year: Int64(year), month: Int64(month), day: Int64(day)))"
    }
}

extension CalendarDate: ForeignValue {
    public static var expectation: String { "a date such as 2025-11-20" }

    /// Reads `CCYY-MM-DD`.
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) {
        var rest = Array(text.collapsed.utf8)[...]
        guard let year = DateText.number(&rest, 4), DateText.take(&rest, "-"),
            let month = DateText.number(&rest, 2), DateText.take(&rest, "-"),
            let day = DateText.number(&rest, 2), rest.isEmpty
        else { return nil }
        self.init(year: Int(year), month: Int(month), day: Int(day))
    }
}
