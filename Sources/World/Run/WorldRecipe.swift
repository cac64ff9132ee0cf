import HandlersTestKit

/// The inputs that determine a run of a world. Equal recipes give equal runs, on every machine and in every build.
package struct WorldRecipe: Hashable, Sendable {
    package var seed: UInt64
    /// The number of processes after which the faults stop, from 1.
    package var lives: Int
    /// The numbers of the incidents that happen; nil for all.
    package var incidents: Set<Int>?

    /// Whether the power can fail in its world.
    package var canLosePower: Bool {
        var random = SeededGenerator(seed: seed)
        return SimulatedWorld.Climate(using: &random).powerLosses > 0
    }

    package init(seed: UInt64, lives: Int = 20, incidents: Set<Int>? = nil) {
        (self.seed, self.lives, self.incidents) = (seed, lives, incidents)
    }

    /// Searches for a shorter failing run by leaving out incidents.
    ///
    /// - Parameters:
    ///   - last: The number of the last incident of this run.
    ///   - fails: Runs a recipe and returns the number of its last incident, or nil if the run has no violation. To stop the
    ///     search, it returns nil from then on.
    /// - Returns: The failing recipe with the fewest incidents that was found.
    package func shortened(last: Int, fails: (WorldRecipe) -> Int?) -> WorldRecipe {
        var shortest = self
        var kept = (incidents ?? Set(1...max(1, last))).sorted()
        var size = kept.count
        while size > 0 {
            var start = 0
            while start < kept.count {
                var fewer = kept
                fewer.removeSubrange(start..<min(start + size, kept.count))
                var recipe = self
                recipe.incidents = Set(fewer)
                if let last = fails(recipe) {
                    kept = fewer.filter { $0 <= last }
                    shortest.incidents = Set(kept)
                } else {
                    start += size
                }
            }
            size /= 2
        }
        return shortest
    }
}
