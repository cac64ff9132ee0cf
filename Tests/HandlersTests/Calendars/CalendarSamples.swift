import Testing

@testable import Handlers

extension Timestamp {
    /// Reads a time in UTC, such as `2026-03-29T01:00`.
    init(utc text: String) throws {
        let numbers = text.split { "-T:".contains($0) }.compactMap { Int64($0) }
        try #require(numbers.count == 5)
        let day = GregorianDay(year: numbers[0], month: numbers[1], day: numbers[2]).number
        self.init(milliseconds: ((day * 24 + numbers[3]) * 60 + numbers[4]) * 60_000)
    }

    /// The time in UTC up to its minutes; with seconds when there are any.
    var minutes: String { String(description.prefix(milliseconds % 60_000 == 0 ? 16 : 19)) }
}

extension CalendarRule {
    /// Returns the next times in UTC.
    func next(_ count: Int, after time: String) throws -> [String] {
        times(after: try Timestamp(utc: time), count: count).map(\.minutes)
    }
}

/// The file of a time zone of the system.
func zoneFile(_ name: String) -> [UInt8] { bytes(of: "/usr/share/zoneinfo/" + name) }
