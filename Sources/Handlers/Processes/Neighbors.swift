import Platform

/// The other stores that have the database open, as they were at the last look.
///
/// The lock of its alive byte shows whether a store is there. The end of its process is only a reason to look: a forked child may
/// keep the lock, and in another container the id means another process.
struct Neighbors: Sendable {
    private let slot: ProcessSlot
    private let edges: EdgeWatch
    private var aliveBytes: Set<Int64> = []
    /// By alive byte; those of other processes whose end the system reports.
    private var exits: [Int64: ProcessExit] = [:]

    /// Looks for the first time.
    ///
    /// - Parameter edges: Finds the descriptors that are for ``exited(_:)``.
    init(_ slot: ProcessSlot, _ edges: EdgeWatch) {
        (self.slot, self.edges) = (slot, edges)
        _ = look()
    }

    var isEmpty: Bool { aliveBytes.isEmpty }

    /// Looks at all slots. Returns whether a store has ended since the last look.
    mutating func look() -> Bool {
        let found = slot.neighbors
        let ended = aliveBytes.subtracting(found.keys)
        for aliveByte in ended { forget(aliveByte) }
        for (aliveByte, process) in found where aliveBytes.insert(aliveByte).inserted {
            exits[aliveByte] = exit(of: process)
        }
        return !ended.isEmpty
    }

    private mutating func forget(_ aliveByte: Int64) {
        aliveBytes.remove(aliveByte)
        endWatch(aliveByte)
    }

    private mutating func endWatch(_ aliveByte: Int64) {
        if let exit = exits.removeValue(forKey: aliveByte) { edges.remove(exit.descriptor) }
    }

    /// Two stores of one process report their ends themselves.
    private func exit(of process: Int32) -> ProcessExit? {
        guard process != ThisProcess.id, let exit = ProcessExit(of: process) else { return nil }
        return (try? edges.add(exit.descriptor)) == nil ? nil : exit
    }

    /// Stops to watch the processes that have ended. Returns whether there was one.
    mutating func exited(_ descriptors: [Int32]) -> Bool {
        let ended = exits.filter { descriptors.contains($0.value.descriptor) }
        for aliveByte in ended.keys { endWatch(aliveByte) }
        return !ended.isEmpty
    }
}
