/// Formats durations for people.
package enum Span {
    /// Returns a duration such as `250 ms`, `12 s`, `3 min 20 s`, `5 h 2 min`, `9 d 4 h`.
    package static func text(_ milliseconds: Int64) -> String {
        guard milliseconds >= 0 else { return "-" + text(-max(milliseconds, -.max)) }
        let seconds = milliseconds / 1000
        return switch seconds {
        case 0: "\(milliseconds) ms"
        case ..<60: "\(seconds) s"
        case ..<3600: pair(seconds, 60, "min", 1, "s")
        case ..<86400: pair(seconds, 3600, "h", 60, "min")
        default: pair(seconds, 86400, "d", 3600, "h")
        }
    }

    private static func pair(
        _ seconds: Int64, _ large: Int64, _ largeName: String, _ small: Int64, _ smallName: String
    ) -> String {
        let rest = seconds % large / small
        return "\(seconds / large) \(largeName)" + (rest == 0 ? "" : " \(rest) \(smallName)")
    }
}
