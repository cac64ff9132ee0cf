import Platform
import Synchronization

/// Tells a store of what other stores of the same database do: that they committed, came or left. It asks nobody and
/// has no timer; its thread is asleep until the others ring.
///
/// ```swift
/// let watcher = try slot.watchChanges { store.lookForWork() }
/// defer { watcher.cancel() }
/// ```
/// The callback runs on the watcher's thread, at once after a change, and again when something changed since it began,
/// but not more often than every ``pause``. After the last change there is always a call that began later. It may be
/// called without a change. A store's own changes are not told to its own watcher.
///
/// What dies between its commit and its ring is told by its seat (``ProcessSlot/watch(_:ended:)``), and a connection
/// that does not ring (another program's) is not told of.
package final class ChangeWatcher: Sendable {
    /// The least time from the end of one call to the beginning of the next, in milliseconds.
    package static let pause = 2

    private let work: ChangeWatch
    private let thread: WorkerThread

    init(_ work: ChangeWatch) throws(HandlerError) {
        self.work = work
        thread = try WorkerThread("changes", blocksSignals: true) { work.run() }
    }

    deinit { cancel() }

    /// Ends the watch. When this returns, no call runs and none will, unless it is the callback that calls this.
    package func cancel() {
        work.stop()
        thread.join()
    }
}

/// What the watcher's thread works with; it outlives the watcher when that goes within its own callback.
final class ChangeWatch: Sendable {
    private let slot: ProcessSlot
    private let changed: @Sendable () -> Void
    private let isStopped = Atomic<Bool>(false)
    /// What was told last.
    private let told: Atomic<UInt32>

    /// From here on nothing is missed, before the thread runs.
    init(_ slot: ProcessSlot, _ changed: @escaping @Sendable () -> Void) {
        self.slot = slot
        self.changed = changed
        told = Atomic(slot.countOfOthers)
    }

    func stop() {
        guard !isStopped.exchange(true, ordering: .sequentiallyConsistent) else { return }
        // A ring lasts, while a wake would be lost on a thread that is about to sleep. Others are told for nothing.
        slot.ring()
    }

    func run() {
        while true {
            // Read before both looks: a ring after either must not find this thread about to sleep on its count.
            let all = slot.countOfAll
            if isStopped.load(ordering: .sequentiallyConsistent) { return }
            if !tellIfChanged() { slot.waitForRing(after: all) }
        }
    }

    private func tellIfChanged() -> Bool {
        // Read before the call: what comes during it is told by the next.
        let count = slot.countOfOthers
        // A smaller count is one of our own rings seen half; it is complete with the next look.
        guard Int32(bitPattern: count &- told.load(ordering: .relaxed)) > 0 else { return false }
        told.store(count, ordering: .relaxed)
        changed()
        if !isStopped.load(ordering: .sequentiallyConsistent) {
            SystemThread.sleep(microseconds: UInt32(ChangeWatcher.pause) * 1000)
        }
        return true
    }
}
