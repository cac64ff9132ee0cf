/// What a run of a world follows from: equal recipes give equal runs, on every machine and in every build.
package struct WorldRecipe: Hashable, Sendable {
    package var seed: UInt64
    /// The number of processes after which the faults stop, from 1.
    package var lives: Int
    /// The numbers of the incidents that happen; nil for all.
    package var incidents: Set<Int>?

    package init(seed: UInt64, lives: Int = 20, incidents: Set<Int>? = nil) {
        (self.seed, self.lives, self.incidents) = (seed, lives, incidents)
    }

    /// Looks for a shorter run that fails too, by leaving incidents out.
    ///
    /// - Parameters:
    ///   - last: The number of the last incident of this run.
    ///   - fails: Makes a run and returns the number of its last incident; nil if nothing is wrong in it. It may give up by
    ///     returning nil from then on.
    /// - Returns: The recipe with the fewest incidents that was found.
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
