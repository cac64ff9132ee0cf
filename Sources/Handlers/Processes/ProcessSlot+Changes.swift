extension ProcessSlot {
    /// Tells the other stores that this one has committed something. To be called after the commit.
    ///
    /// One addition in shared memory and one system call that never blocks.
    package func ring() {
        // First, so that a ring is never taken for one of the others.
        ownRings.add(1, ordering: .sequentiallyConsistent)
        file.bell.raise()
    }

    /// Calls back when another store of this database committed, came or left.
    ///
    /// - Throws: ``HandlerError`` with code `databaseUnavailable` when the system gives no thread.
    package func watchChanges(
        _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        try ChangeWatcher(ChangeWatch(self, changed))
    }

    /// How often any store rang, modulo 2^32.
    var countOfAll: UInt32 { file.bell.value }

    /// How often the others rang, modulo 2^32; never more than they did, and exact when no ring of our own is under way.
    package var countOfOthers: UInt32 {
        let all = countOfAll
        return all &- ownRings.load(ordering: .sequentiallyConsistent)
    }

    func waitForRing(after count: UInt32) { file.bell.wait(whileValueIs: count) }
}
