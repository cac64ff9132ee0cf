import XMPPCore

/// The stamp of a stanza that is sent again (XEP-0203).
enum Delay {
    private static let marker = Array("<delay xmlns='\(Namespaces.delay)'".utf8)

    /// Adds `<delay/>` as the last child of a serialized stanza that has none of ours yet.
    ///
    /// The bytes are our own serializer's, so the stanza ends in its end tag or in `/>`.
    static func stamped(_ xml: [UInt8], milliseconds: Int64) -> [UInt8] {
        guard !contains(xml, marker) else { return xml }
        let delay = marker + Array(" stamp='\(timestamp(milliseconds))'/>".utf8)
        if xml.suffix(2) == Array("/>".utf8)[...] {
            let name = xml.dropFirst().prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "/") }
            return Array(xml[..<(xml.count - 2)]) + Array(">".utf8) + delay + Array("</".utf8) + name
                + Array(">".utf8)
        }
        guard let end = xml.lastIndex(of: UInt8(ascii: "<")) else { return xml }
        return xml[..<end] + delay + xml[end...]
    }

    /// The XEP-0082 form of a time in milliseconds since 1970, UTC.
    static func timestamp(_ milliseconds: Int64) -> String {
        let seconds = milliseconds / 1000
        let (year, month, day) = civilDate(daysSince1970: seconds / 86400)
        let inDay = seconds % 86400
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let thousandths = String(1000 + milliseconds % 1000).dropFirst()
        return
            "\(year)-\(two(month))-\(two(day))T\(two(inDay / 3600)):\(two(inDay / 60 % 60)):\(two(inDay % 60)).\(thousandths)Z"
    }

    /// The Gregorian date of a day; the year is counted from March so that the leap day comes last.
    private static func civilDate(daysSince1970 days: Int64) -> (Int64, Int64, Int64) {
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, day)
    }

    private static func contains(_ bytes: [UInt8], _ needle: [UInt8]) -> Bool {
        guard bytes.count >= needle.count else { return false }
        return (0...(bytes.count - needle.count)).contains { bytes[$0..<($0 + needle.count)] == needle[...] }
    }
}
