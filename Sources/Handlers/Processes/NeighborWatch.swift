import Platform
import Synchronization

/// Watch of the other stores of a database; see ``ProcessSlot/watchOthers(_:_:)``.
final class NeighborWatch: ProcessWatch {
    private let stop: NeighborStop
    private let loop: any RunningLoop

    init(
        _ slot: ProcessSlot, _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) {
        let stop = try NeighborStop()
        let edges = try Self.edges(of: stop, slot.signal)
        // From here on nothing is missed, before the first turn.
        let (seen, neighbors) = (slot.countOfOthers, Neighbors(slot, edges))
        loop = try driver.startShared {
            NeighborLoop(slot, edges, stop, seen: seen, neighbors: neighbors, changed)
        }
        self.stop = stop
    }

    deinit { cancel() }

    func cancel() {
        stop.raise()
        loop.join()
    }

    private static func edges(of stop: NeighborStop, _ pipe: SignalPipe?) throws(HandlerError) -> EdgeWatch {
        do throws(Errno) {
            let edges = try EdgeWatch()
            try edges.add(stop.descriptor)
            if let pipe { try edges.add(pipe.descriptor) }
            return edges
        } catch { throw SlotFileErrors.cannotWatch(error) }
    }
}

/// The request to end a ``NeighborLoop``.
///
/// It does not wake the loop by the pipe: another program that reads the pipe would keep the loop, and who waits for its end, for ever.
final class NeighborStop: Sendable {
    private let isSet = Atomic<Bool>(false)
    private let signal: WakeSignal

    init() throws(HandlerError) { signal = try WakeSignal() }

    /// What wakes the loop.
    var descriptor: Int32 { signal.fileDescriptor }

    var isRaised: Bool { isSet.load(ordering: .sequentiallyConsistent) }

    func raise() {
        guard !isSet.exchange(true, ordering: .sequentiallyConsistent) else { return }
        signal.raise()
    }
}
