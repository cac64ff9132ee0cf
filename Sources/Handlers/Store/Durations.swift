/// A histogram of durations, with buckets from half a millisecond to an hour.
///
/// ```swift
/// var durations = Durations()
/// durations.add(.milliseconds(12))
/// print(durations.quantile(0.99) ?? .zero)  // 25 ms: no more than that
/// ```
public struct Durations: Hashable, Sendable {
    /// The upper bounds of the buckets in microseconds; what is longer is in a last one without a bound.
    package static let bounds: [Int64] = [
        500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000, 3_600_000_000,
    ]

    /// The number of durations in each bucket, of which the last has no bound.
    public private(set) var counts = [Int64](repeating: 0, count: Durations.bounds.count + 1)
    /// The sum of all durations in microseconds.
    private(set) var microseconds: Int64 = 0

    /// Makes a histogram of no durations.
    public init() {}

    /// The number of durations.
    public var count: Int64 { counts.reduce(0, &+) }
    /// The sum of all durations.
    public var sum: Duration { .microseconds(microseconds) }

    /// Adds a duration; a negative one counts as 0.
    ///
    /// - Parameter duration: The duration.
    public mutating func add(_ duration: Duration) {
        let taken = max(0, min(duration.milliseconds, 1 << 40)) &* 1000
        let exact = duration < .seconds(3600) ? max(0, duration.microseconds) : taken
        counts[Self.bounds.firstIndex { exact <= $0 } ?? Self.bounds.count] &+= 1
        microseconds &+= exact
    }

    /// Adds those of another histogram.
    ///
    /// - Parameter other: The other one.
    public mutating func add(_ other: Durations) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
        microseconds &+= other.microseconds
    }

    /// Takes away those of another histogram, which were added before.
    mutating func subtract(_ other: Durations) {
        for index in counts.indices { counts[index] &-= other.counts[index] }
        microseconds &-= other.microseconds
    }

    /// Returns a bound that a part of the durations does not exceed.
    ///
    /// - Parameter part: The part, from 0 to 1.
    /// - Returns: The upper bound of the bucket; an hour for what is longer. Nil without durations.
    public func quantile(_ part: Double) -> Duration? {
        let count = count
        guard count > 0 else { return nil }
        let wanted = max(1, Int64((Double(count) * min(max(part, 0), 1)).rounded(.up)))
        var seen: Int64 = 0
        for (index, number) in counts.enumerated() {
            seen &+= number
            if seen >= wanted {
                return .microseconds(Self.bounds[min(index, Self.bounds.count - 1)])
            }
        }
        return nil
    }

    // MARK: Stored

    /// The sum and the counts, each with 8 bytes, the lowest first.
    var bytes: [UInt8] {
        ([microseconds] + counts).flatMap { number in
            withUnsafeBytes(of: number.littleEndian) { Array($0) }
        }
    }

    /// Reads what ``bytes`` has written; what is not that has no durations.
    init(_ bytes: [UInt8]) {
        guard bytes.count == 8 * (counts.count + 1) else { return }
        let numbers = stride(from: 0, to: bytes.count, by: 8).map { start -> Int64 in
            var number: Int64 = 0
            for byte in bytes[start..<(start + 8)].reversed() { number = number << 8 | Int64(byte) }
            return number
        }
        // A database may be damaged.
        guard numbers.allSatisfy({ 0...(1 << 52) ~= $0 }) else { return }
        (microseconds, counts) = (numbers[0], Array(numbers[1...]))
    }
}

extension Duration {
    fileprivate var microseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds &* 1_000_000 &+ attoseconds / 1_000_000_000_000
    }
}
