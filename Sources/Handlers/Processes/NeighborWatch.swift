import Platform
import Synchronization

/// Watch of the other stores of a database; see ``ProcessSlot/watchOthers(_:_:)``.
final class NeighborWatch: ProcessWatch {
    private let stop: NeighborStop
    private let loop: any RunningLoop

    init(
        _ slot: ProcessSlot, _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) {
        let stop = try NeighborStop(slot.signal)
        let edges = try Self.edges(of: stop)
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

    private static func edges(of stop: NeighborStop) throws(HandlerError) -> EdgeWatch {
        do throws(Errno) {
            let edges = try EdgeWatch()
            try edges.add(stop.descriptor)
            return edges
        } catch {
            throw SlotFileErrors.cannotWatch(error)
        }
    }
}

/// The request to end a ``NeighborLoop``.
final class NeighborStop: Sendable {
    private let isSet = Atomic<Bool>(false)
    private let pipe: SignalPipe?
    /// Wakes the loop where the stores have no pipe.
    private let signal: WakeSignal?

    init(_ pipe: SignalPipe?) throws(HandlerError) {
        self.pipe = pipe
        signal = pipe == nil ? try WakeSignal() : nil
    }

    /// What wakes the loop.
    var descriptor: Int32 { pipe?.descriptor ?? signal?.fileDescriptor ?? -1 }

    var isRaised: Bool { isSet.load(ordering: .sequentiallyConsistent) }

    /// Other stores that the pipe wakes find no change.
    func raise() {
        guard !isSet.exchange(true, ordering: .sequentiallyConsistent) else { return }
        pipe?.raise()
        signal?.raise()
    }
}
