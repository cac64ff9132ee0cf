import Handlers

/// Random numbers that follow from a seed, so that a failed run can be repeated.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var numbers: SplitMix

    package init(seed: UInt64) { numbers = SplitMix(seed: seed) }

    package mutating func next() -> UInt64 { numbers.next() }
}
