import Platform

/// Watch of the other stores of a database; see ``ProcessSlot/watchOthers(_:_:)``.
final class NeighborWatch: ProcessWatch {
    private let stop: LoopStop
    private let loop: any RunningLoop

    init(
        _ slot: ProcessSlot, _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) {
        let stop = try LoopStop()
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

    private static func edges(of stop: LoopStop, _ pipe: SignalPipe?) throws(HandlerError) -> EdgeWatch {
        do throws(Errno) {
            let edges = try EdgeWatch()
            try edges.add(stop.descriptor)
            if let pipe { try edges.add(pipe.descriptor) }
            return edges
        } catch { throw SlotFileErrors.cannotWatch(error) }
    }
}
