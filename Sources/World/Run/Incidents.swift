import HandlersTestKit

/// The faults and outside events of a run, in an order that a seed decides.
///
/// Incidents are numbered from 1. Their random numbers are separate, so that a run can be repeated with some of them only.
struct Incidents {
    /// The number of the last incident, even if it was left out.
    private(set) var last = 0
    /// The random numbers for the details of the current incident.
    var details: SeededGenerator
    private var random: SeededGenerator
    private let chosen: Set<Int>?
    private let seed: UInt64

    /// - Parameter chosen: The numbers of the incidents that happen; nil for all.
    init(seed: UInt64, chosen: Set<Int>?) {
        (self.seed, self.chosen) = (seed, chosen)
        (random, details) = (SeededGenerator(seed: seed), SeededGenerator(seed: seed))
    }

    /// Decides whether an incident happens now.
    ///
    /// - Parameter oneIn: The probability is one in this number; 0 for never.
    mutating func strikes(_ oneIn: Int) -> Bool {
        guard oneIn > 0, Int.random(in: 0..<oneIn, using: &random) == 0 else { return false }
        last += 1
        details = SeededGenerator(seed: seed ^ UInt64(last) &* 0x9e37_79b9_7f4a_7c15)
        return chosen?.contains(last) != false
    }
}
