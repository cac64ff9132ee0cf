import HandlersTestKit

/// What befalls the processes, the network and the server in a run, in the order of a seed.
///
/// Incidents are numbered from 1 and draw from numbers of their own, so that a run can be repeated with some of them only.
struct Incidents {
    /// The number of the last one, also if it was left out.
    private(set) var last = 0
    /// What decides about the one that happens.
    var details: SeededGenerator
    private var random: SeededGenerator
    private let chosen: Set<Int>?
    private let seed: UInt64

    /// - Parameter chosen: The numbers of those that happen; nil for all.
    init(seed: UInt64, chosen: Set<Int>?) {
        (self.seed, self.chosen) = (seed, chosen)
        (random, details) = (SeededGenerator(seed: seed), SeededGenerator(seed: seed))
    }

    /// Whether one happens now.
    ///
    /// - Parameter oneIn: Once in so many times; 0 for never.
    mutating func strikes(_ oneIn: Int) -> Bool {
        guard oneIn > 0, Int.random(in: 0..<oneIn, using: &random) == 0 else { return false }
        last += 1
        details = SeededGenerator(seed: seed ^ UInt64(last) &* 0x9e37_79b9_7f4a_7c15)
        return chosen?.contains(last) != false
    }
}
