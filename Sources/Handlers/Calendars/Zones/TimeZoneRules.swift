/// The offsets of a time zone at all times.
///
/// Local times are seconds that the local clock shows, counted from 1970 as if they were UTC. All times are whole seconds.
final class TimeZoneRules: Sendable {
    /// A period in which the offset stays the same.
    struct Span {
        /// The first second, in UTC.
        let start: Int64
        /// The first second of the next span, in UTC.
        let end: Int64
        /// Seconds that the local clock is ahead of UTC.
        let offset: Int64
    }

    /// Times beyond these are in the first or the last span. Sums of such times and of offsets do not overflow.
    static let allTimes: ClosedRange<Int64> = -(1 << 60)...(1 << 60)
    /// Seconds that no offset exceeds, ahead of UTC or behind it (RFC 9636 section 3.2: from -25 to 26 hours).
    static let longestOffset: Int64 = 26 * 3600

    /// The starts of all spans but the first one, in UTC, ascending.
    private let transitions: [Int64]
    /// The offset before the first transition, and after each.
    private let offsets: [Int32]
    /// The rule for the time after the last transition; nil when its offset stays.
    private let footer: ZoneFooter?

    static let utc = TimeZoneRules(transitions: [], offsets: [0], footer: nil)

    /// - Parameters:
    ///   - transitions: In UTC, ascending, within ``allTimes``.
    ///   - offsets: One more than transitions, each at most ``longestOffset``.
    init(transitions: [Int64], offsets: [Int32], footer: ZoneFooter?) {
        self.transitions = transitions
        self.offsets = offsets
        self.footer = footer
    }

    /// Returns how many seconds the local clock is ahead of UTC.
    ///
    /// - Parameter time: In UTC.
    func offset(at time: Int64) -> Int64 { span(at: time).offset }

    /// Returns the span that a time is in.
    ///
    /// - Parameter time: In UTC.
    func span(at time: Int64) -> Span {
        let index = transitionCount(upTo: time)
        let start = index == 0 ? Self.allTimes.lowerBound : transitions[index - 1]
        guard index == transitions.count else {
            return Span(start: start, end: transitions[index], offset: Int64(offsets[index]))
        }
        guard let footer else {
            return Span(start: start, end: Self.allTimes.upperBound, offset: Int64(offsets[index]))
        }
        let span = footer.span(at: time)
        return Span(start: max(start, span.start), end: span.end, offset: span.offset)
    }

    private func transitionCount(upTo time: Int64) -> Int {
        var (low, high) = (0, transitions.count)
        while low < high {
            let middle = (low + high) / 2
            if transitions[middle] <= time { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Returns the first time, in UTC, at which the local clock shows `local` or a later time.
    ///
    /// For a local time that comes twice this is the first one, and for a skipped one the first moment after the gap.
    func firstTime(reaching local: Int64) -> Int64 {
        var span = span(at: local - Self.longestOffset)
        while span.end - 1 + span.offset < local, span.end < Self.allTimes.upperBound {
            span = self.span(at: span.end)
        }
        return max(span.start, local - span.offset)
    }

    /// Returns the latest local time that the clock has shown up to a time.
    ///
    /// After the clock was put back this is later than what it shows.
    ///
    /// - Parameter time: In UTC.
    func latestLocalTime(upTo time: Int64) -> Int64 {
        var span = span(at: time)
        var latest = time + span.offset
        while span.start > time - 2 * Self.longestOffset {
            span = self.span(at: span.start - 1)
            latest = max(latest, span.end - 1 + span.offset)
        }
        return latest
    }
}
