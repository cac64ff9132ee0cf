extension ZoneFooter {
    /// Reads a POSIX `TZ` string, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    init(_ text: ArraySlice<UInt8>) throws(MalformedZone) {
        var reader = FooterReader(rest: text)
        try reader.skipName()
        standard = -(try reader.time(hours: 24))
        guard !reader.isAtEnd else {
            saving = nil
            return
        }
        try reader.skipName()
        let offset = reader.isBefore(",") ? standard + 3600 : -(try reader.time(hours: 24))
        try reader.take(",")
        let start = try reader.moment()
        try reader.take(",")
        saving = Saving(offset: offset, start: start, end: try reader.moment())
        guard reader.isAtEnd else { throw FooterReader.failure }
    }
}

/// Takes parts from the start of a POSIX `TZ` string.
private struct FooterReader {
    private(set) var rest: ArraySlice<UInt8>

    static var failure: MalformedZone { MalformedZone(description: "the rule at its end is wrong") }

    init(rest: ArraySlice<UInt8>) { self.rest = rest }

    var isAtEnd: Bool { rest.isEmpty }

    func isBefore(_ character: Unicode.Scalar) -> Bool { rest.first == UInt8(ascii: character) }

    mutating func take(_ character: Unicode.Scalar) throws(MalformedZone) {
        guard takes(character) else { throw Self.failure }
    }

    private mutating func takes(_ character: Unicode.Scalar) -> Bool {
        guard isBefore(character) else { return false }
        rest = rest.dropFirst()
        return true
    }

    /// Skips three or more letters, or letters, digits and signs in angle brackets.
    mutating func skipName() throws(MalformedZone) {
        let isQuoted = takes("<")
        let name = rest.prefix {
            Self.isLetter($0) || isQuoted && (Self.isDigit($0) || $0 == 0x2b || $0 == 0x2d)
        }
        guard name.count >= 3 else { throw Self.failure }
        rest = rest.dropFirst(name.count)
        if isQuoted { try take(">") }
    }

    /// Takes a time such as `3`, `-1:30` or `+24:00:00`.
    ///
    /// - Parameter hours: The most hours.
    /// - Returns: Seconds.
    mutating func time(hours: Int64) throws(MalformedZone) -> Int64 {
        let isNegative = takes("-")
        if !isNegative { _ = takes("+") }
        var seconds = try number(0...hours) * 3600
        if takes(":") { seconds += try number(0...59) * 60 }
        if takes(":") { seconds += try number(0...59) }
        return isNegative ? -seconds : seconds
    }

    /// Takes a day and a time, such as `M3.5.0/3`, `J60` or `0/0`. The time is 02:00 when it is missing.
    mutating func moment() throws(MalformedZone) -> YearlyMoment {
        let day = try day()
        // From -167 to 167 hours since version 3 (RFC 9636 section 3.3.1).
        return YearlyMoment(day: day, time: takes("/") ? try time(hours: 167) : 7200)
    }

    private mutating func day() throws(MalformedZone) -> YearlyMoment.Day {
        if takes("J") { return .withoutLeapDay(try number(1...365)) }
        guard takes("M") else { return .withLeapDay(try number(0...365)) }
        let month = try number(1...12)
        try take(".")
        let week = try number(1...5)
        try take(".")
        return .weekday(try number(0...6), week: week, month: month)
    }

    private mutating func number(_ range: ClosedRange<Int64>) throws(MalformedZone) -> Int64 {
        let digits = rest.prefix { Self.isDigit($0) }
        guard 1...3 ~= digits.count else { throw Self.failure }
        rest = rest.dropFirst(digits.count)
        let number = digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
        guard range ~= number else { throw Self.failure }
        return number
    }

    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
    private static func isLetter(_ byte: UInt8) -> Bool { 0x61...0x7a ~= byte | 0x20 }
}
