import Timestamps

extension Timestamp {
    /// The time that a text says. Nil when it is no such text. Digits beyond milliseconds are cut off.
    ///
    /// ```swift
    /// Timestamp("2025-11-20T23:00:00+01:00")?.milliseconds   // 1763676000000
    /// try delay.value(of: "stamp", as: Timestamp.self)
    /// ```
    ///
    /// Source: XEP-0082 section 3.2. The other direction is `description`.
    ///
    /// - Parameter text: A date with a time and `Z` or an offset from UTC.
    public init?(_ text: some TextConvertible) {
        var rest = Array(text.foreignText.utf8)[...]
        guard let year = DateText.number(&rest, 4), DateText.accept(&rest, "-"),
            let month = DateText.number(&rest, 2),
            DateText.accept(&rest, "-"), let day = DateText.number(&rest, 2), DateText.accept(&rest, "T"),
            let hour = DateText.number(&rest, 2), DateText.accept(&rest, ":"),
            let minute = DateText.number(&rest, 2),
            DateText.accept(&rest, ":"), let second = DateText.number(&rest, 2),
            (1...12).contains(month), (1...31).contains(day), hour <= 24, minute < 60, second <= 60,
            let thousandths = DateText.fraction(&rest), let offset = DateText.zone(&rest), rest.isEmpty
        else { return nil }
        let days = GregorianDay(year: year, month: month, day: day).number
        self.init(
            milliseconds: ((days * 24 + hour) * 60 + minute - offset) * 60_000 + second * 1000 + thousandths)
    }
}

/// Reads the parts of dates and times (XEP-0082 section 3).
enum DateText {
    static func accept(_ rest: inout ArraySlice<UInt8>, _ character: Unicode.Scalar) -> Bool {
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
    static func fraction(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        guard accept(&rest, ".") else { return 0 }
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        guard !digits.isEmpty else { return nil }
        rest = rest.dropFirst(digits.count)
        let padded = (Array(digits) + [0x30, 0x30]).prefix(3)
        return padded.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }

    /// Minutes east of UTC.
    static func zone(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        if accept(&rest, "Z") { return 0 }
        let isEast = rest.first == UInt8(ascii: "+")
        guard isEast || rest.first == UInt8(ascii: "-") else { return nil }
        rest.removeFirst()
        guard let hours = number(&rest, 2), accept(&rest, ":"), let minutes = number(&rest, 2) else {
            return nil
        }
        return (hours * 60 + minutes) * (isEast ? 1 : -1)
    }
}
