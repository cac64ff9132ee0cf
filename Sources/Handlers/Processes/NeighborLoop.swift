import Platform

/// Loop that notices that other stores of the database commit, come, leave or die. It costs no thread and no lock of its own.
///
/// ```text
///   another store notifies ──▶ SignalPipe  ──┐
///   another process ends ────▶ ProcessExit ──┴──▶ EdgeWatch ──▶ turn ──▶ look at the count and the locks ──▶ changed()
///   a second has passed ───────────────────────────────────────▶ turn
/// ```
/// The regular look is for what has no descriptor: exec, a process of another container, a signal that was lost.
final class NeighborLoop: DrivenLoop {
    /// The least time from the end of one call to the beginning of the next, in milliseconds.
    static let rest: Int64 = 2
    /// The interval of looks while there are other stores, in milliseconds.
    static let lookInterval: Int64 = 1000
    /// The interval of looks without other stores, in milliseconds: one may have come whose signal was lost.
    static let loneInterval: Int64 = 10_000
    /// The interval of looks where the stores have no pipe, in milliseconds.
    static let pollInterval: Int64 = 100

    private let slot: ProcessSlot
    private let edges: EdgeWatch
    private let stop: LoopStop
    private let changed: () -> Void
    private var neighbors: Neighbors
    /// ``ProcessSlot/countOfOthers`` at the last call.
    private var seen: UInt32
    /// When to look again, by the monotonic clock in milliseconds.
    private var nextLook: Int64

    /// - Parameters:
    ///   - seen: The count from which on a change is reported.
    ///   - neighbors: The stores whose end is reported.
    init(
        _ slot: ProcessSlot, _ edges: EdgeWatch, _ stop: LoopStop, seen: UInt32, neighbors: Neighbors,
        _ changed: @escaping () -> Void
    ) {
        (self.slot, self.edges, self.stop) = (slot, edges, stop)
        (self.seen, self.neighbors, self.changed) = (seen, neighbors, changed)
        nextLook = Self.nextLook(beside: neighbors)
    }

    func turn(_ found: [PollEntry]) -> Pause? {
        // First: what is raised from here on, by a stop too, ends the next pause.
        let ready = edges.take()
        if stop.isRaised { return nil }
        let isChanged = takeChange()
        let hasExited = neighbors.exited(ready)
        let hasEnded = (isChanged || hasExited || Self.now() >= nextLook) && look()
        guard isChanged || hasEnded else { return pause() }
        changed()
        return Pause([], milliseconds: Self.rest)
    }

    /// Returns whether another store has notified since the last call.
    private func takeChange() -> Bool {
        let count = slot.countOfOthers
        // A smaller count is one of our own notifications, half seen; it is complete at the next look.
        guard Int32(bitPattern: count &- seen) > 0 else { return false }
        seen = count
        return true
    }

    private func look() -> Bool {
        defer { nextLook = Self.nextLook(beside: neighbors) }
        return neighbors.look()
    }

    private static func nextLook(beside neighbors: Neighbors) -> Int64 {
        now() + (neighbors.isEmpty ? loneInterval : lookInterval)
    }

    private func pause() -> Pause {
        var pause = Pause([PollEntry(edges.descriptor)])
        if slot.signal == nil { pause.limit(to: Self.pollInterval) }
        pause.limit(to: max(0, nextLook - Self.now()))
        return pause
    }

    private static func now() -> Int64 { SystemTime.monotonicNanoseconds() / 1_000_000 }
}
