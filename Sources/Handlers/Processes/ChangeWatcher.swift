import Platform
import Synchronization

/// Watcher of the other stores of a database: it reports that they committed, came or left. It has no timer; its thread
/// sleeps until the next notification.
///
/// ```swift
/// let watcher = try slot.watchChanges { signal.raise() }
/// defer { watcher.cancel() }
/// ```
/// The callback runs on the watcher's thread after a change, and again if something changed since it started, at most
/// once in ``pause``. After the last change there is always a call that started later. It may be called without a
/// change. A store's own changes do not call its own watcher.
///
/// A store that dies between its commit and its notification is noticed by its slot (``ProcessSlot/watch(_:ended:)``).
/// A connection of another program sends no notification and is not noticed.
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

/// The state of the watcher's thread; it outlives a watcher that is released in its own callback.
final class ChangeWatch: Sendable {
    private let slot: ProcessSlot
    private let changed: @Sendable () -> Void
    private let isStopped = Atomic<Bool>(false)
    /// Count at the last call.
    private let seen: Atomic<UInt32>

    /// From here on nothing is missed, before the thread runs.
    init(_ slot: ProcessSlot, _ changed: @escaping @Sendable () -> Void) {
        self.slot = slot
        self.changed = changed
        seen = Atomic(slot.countOfOthers)
    }

    func stop() {
        guard !isStopped.exchange(true, ordering: .sequentiallyConsistent) else { return }
        // A notification lasts; a wake would be lost on a thread that is about to sleep. The others look without need.
        slot.notifyOthers()
    }

    func run() {
        while true {
            // Read before both looks: a notification after either must not find this thread about to sleep on its count.
            let all = slot.countOfAll
            if isStopped.load(ordering: .sequentiallyConsistent) { return }
            if !callIfChanged() { slot.waitForChange(after: all) }
        }
    }

    private func callIfChanged() -> Bool {
        // Read before the call: what comes during it is told by the next.
        let count = slot.countOfOthers
        // A smaller count is one of our own notifications, half seen; it is complete at the next look.
        guard Int32(bitPattern: count &- seen.load(ordering: .relaxed)) > 0 else { return false }
        seen.store(count, ordering: .relaxed)
        changed()
        if !isStopped.load(ordering: .sequentiallyConsistent) {
            SystemThread.sleep(microseconds: UInt32(ChangeWatcher.pause) * 1000)
        }
        return true
    }
}
