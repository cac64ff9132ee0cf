extension ProcessSlot {
    /// Notifies the other stores of a commit. Call it after the commit.
    ///
    /// One addition in shared memory and one system call that never blocks.
    package func notifyOthers() {
        // First, so that no own notification counts as one of the others.
        ownNotifications.add(1, ordering: .sequentiallyConsistent)
        file.changeCounter.raise()
    }

    /// Calls back when another store of this database committed, came or left.
    ///
    /// - Throws: ``HandlerError`` with code `databaseUnavailable` when the system gives no thread.
    package func watchChanges(
        _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        try ChangeWatcher(ChangeWatch(self, changed))
    }

    /// Number of notifications by all stores, modulo 2^32.
    var countOfAll: UInt32 { file.changeCounter.value }

    /// Number of notifications by other stores, modulo 2^32. It is never too high, and exact while no own notification
    /// is under way.
    package var countOfOthers: UInt32 {
        let all = countOfAll
        return all &- ownNotifications.load(ordering: .sequentiallyConsistent)
    }

    func waitForChange(after count: UInt32) { file.changeCounter.wait(whileValueIs: count) }
}
