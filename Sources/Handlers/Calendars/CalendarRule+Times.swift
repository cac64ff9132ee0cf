extension CalendarRule {
    /// Returns the next time of the rule.
    ///
    /// ```swift
    /// let rule = try CalendarRule("0 9 * * 1-5", in: "Europe/Zurich")
    /// if let time = rule.next(after: step.now) { print("next at \(time)") }
    /// ```
    ///
    /// - Parameter time: Any time. One before the year 0 counts as the start of that year.
    /// - Returns: The first time of the rule that is later than `time`; nil when none follows in the years to 9999.
    public func next(after time: Timestamp) -> Timestamp? {
        let second = max(time.milliseconds, Self.years.lowerBound).floored(by: 1000)
        let next = fields.followsRealTime ? nextShown(after: second) : nextReached(after: second)
        guard let next, next <= Self.years.upperBound / 1000 else { return nil }
        return Timestamp(milliseconds: next * 1000)
    }

    /// Returns the next times of the rule.
    ///
    /// ```swift
    /// let rule = try CalendarRule("0 9 * * 1-5", in: "Europe/Zurich")
    /// for time in rule.times(after: step.now, count: 3) { print(time) }
    /// ```
    ///
    /// - Parameters:
    ///   - time: Any time. One before the year 0 counts as the start of that year.
    ///   - count: How many, from 0.
    /// - Returns: The first `count` times of the rule that are later than `time`, oldest first; fewer when the year 9999 ends before.
    public func times(after time: Timestamp, count: Int) -> [Timestamp] {
        times(after: time, upTo: Timestamp(milliseconds: .max), atMost: count)
    }

    /// Returns the newest times with `start < time <= end`, at most `count`, oldest first.
    ///
    /// A long span is not enumerated: a window that ends at `end` is widened until it holds enough times, and is then narrowed
    /// until it holds no more than twice as many.
    func latest(_ count: Int, after start: Timestamp, upTo end: Timestamp) -> [Timestamp] {
        // No more minutes are in the years to 9999, so that neither product overflows.
        let count = min(count, 1 << 33)
        let first = max(start.milliseconds, Self.years.lowerBound)
        let last = min(end.milliseconds, Self.years.upperBound)
        guard count > 0, first < last else { return [] }
        func found(after early: Int64, atMost limit: Int) -> Int {
            self.count(after: .init(milliseconds: early), upTo: end, atMost: limit)
        }
        var width = Int64(count) * 60_000
        var (tooLate, early) = (last, max(first, last - width))
        while early > first, found(after: early, atMost: count) < count {
            width *= 2
            (tooLate, early) = (early, max(first, last - width))
        }
        while found(after: early, atMost: 2 * count + 1) > 2 * count {
            let middle = early + (tooLate - early) / 2
            if found(after: middle, atMost: count) < count { tooLate = middle } else { early = middle }
        }
        return times(after: .init(milliseconds: early), upTo: end, atMost: 2 * count).suffix(count)
    }

    /// Returns how many times of the rule are later than `start` and not later than `end`; `limit` for more.
    func count(after start: Timestamp, upTo end: Timestamp, atMost limit: Int) -> Int {
        var (time, count) = (start, 0)
        while count < limit, let next = next(after: time), next <= end {
            count += 1
            time = next
        }
        return count
    }

    private func times(after start: Timestamp, upTo end: Timestamp, atMost limit: Int) -> [Timestamp] {
        var times: [Timestamp] = []
        while times.count < limit, let next = next(after: times.last ?? start), next <= end {
            times.append(next)
        }
        return times
    }

    /// The years 0 to 9999 in UTC, in milliseconds since 1970: what ``Timestamp`` can write.
    private static let years: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    /// Returns the first second after `second` in which the local clock shows a time of the rule.
    private func nextShown(after second: Int64) -> Int64? {
        var from = second + 1
        while from <= Self.years.upperBound / 1000 {
            let span = zone.span(at: from)
            // A zone's offset may have seconds: the clock shows a time when its minute starts.
            let minute = (from + span.offset + 59).floored(by: 60)
            guard let match = fields.next(from: minute) else { return nil }
            if match * 60 - span.offset < span.end { return match * 60 - span.offset }
            from = span.end
        }
        return nil
    }

    /// Returns the first second after `second` in which the local clock reaches or passes a time of the rule for the first time.
    private func nextReached(after second: Int64) -> Int64? {
        let reached = zone.latestLocalTime(upTo: second)
        return fields.next(from: reached.floored(by: 60) + 1).map { zone.firstTime(reaching: $0 * 60) }
    }
}
