/// Both sides in turns, so that whatever else the machine does is spread over both.
///
/// The turns are short, because a disk that others use has quick and slow moments: both sides then get as many of each.
struct Rounds {
    private static let rounds = 601
    private static let slice = Duration.milliseconds(6)

    /// The median rates, in operations per second.
    let ours: Double
    let reference: Double

    /// Runs A B A B … for some seconds.
    ///
    /// - Parameters:
    ///   - count: How many operations one call of a side does.
    init(count: Int, ours: () throws -> Void, reference: () throws -> Void) throws {
        var rates: (ours: [Double], reference: [Double]) = ([], [])
        // The first calls prepare statements and fill caches.
        try ours()
        try reference()
        for _ in 0..<Self.rounds {
            rates.ours.append(Double(count) * (try Self.callsPerSecond(ours)))
            rates.reference.append(Double(count) * (try Self.callsPerSecond(reference)))
        }
        self.ours = rates.ours.median
        self.reference = rates.reference.median
    }

    private static func callsPerSecond(_ body: () throws -> Void) rethrows -> Double {
        let start = ContinuousClock.now
        var calls = 0
        var elapsed = Duration.zero
        repeat {
            try body()
            calls += 1
            elapsed = ContinuousClock.now - start
        } while elapsed < slice
        return Double(calls) / (elapsed / .seconds(1))
    }
}

extension [Double] {
    /// The middle one; of an even number, the upper one of the two. There must be one.
    var median: Double { sorted()[count / 2] }
}
