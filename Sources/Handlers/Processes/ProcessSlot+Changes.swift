extension ProcessSlot {
    /// Notifies the other stores of a commit. Call it after the commit.
    ///
    /// Two additions in memory and one system call that never blocks.
    package func notifyOthers() {
        // First, so that no own notification counts as one of the others.
        ownNotifications.add(1, ordering: .sequentiallyConsistent)
        // Before the signal: a store that it wakes must find the new count.
        file.changeCounter.pointee.add(1, ordering: .sequentiallyConsistent)
        signal?.raise()
    }

    /// Calls back after another store of this database has committed, come, left or died.
    ///
    /// ```swift
    /// let watch = try slot.watchOthers(ThreadDriver()) { signal.raise() }
    /// defer { watch.cancel() }
    /// ```
    /// The callback runs in a turn of a shared loop, so it must be short. It runs after a change, and again if something changed
    /// since it started, at most once in ``NeighborLoop/rest`` milliseconds. After the last change there is always a call that
    /// started later. It may be called without a change. A store's own changes do not call its own watch.
    ///
    /// A notification and the end of a process are noticed at once, and any other end within ``NeighborLoop/lookInterval``. A
    /// connection of another program sends no notification and is not noticed.
    ///
    /// - Returns: The watch, which ends when it is canceled or released.
    /// - Throws: ``HandlerError`` `resourcesExhausted` when the process has no thread or file descriptor left.
    package func watchOthers(
        _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        try NeighborWatch(self, driver, changed)
    }

    /// Number of notifications by other stores, modulo 2^32. It is never too high, and exact while no own notification
    /// is under way.
    package var countOfOthers: UInt32 {
        let all = file.changeCounter.pointee.load(ordering: .sequentiallyConsistent)
        return all &- ownNotifications.load(ordering: .sequentiallyConsistent)
    }
}
