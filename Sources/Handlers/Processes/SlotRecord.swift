import Synchronization

/// Call that a process runs: a handler and the fingerprint of its input.
package struct RunningCall: Hashable, Sendable {
    /// The handler's row; never 0, which means "nothing".
    package let handler: Int64
    /// Distinguishes one call of the handler from another.
    package let digest: UInt64

    package init(handler: Int64, digest: UInt64) {
        self.handler = handler
        self.digest = digest
    }
}

/// Record of one slot in the shared file, which several processes have mapped and which outlives them.
package struct SlotRecord: ~Copyable {
    /// The distance from one record to the next, in bytes: one cache line, so that slots do not slow each other.
    package static let stride = 64

    /// 1 from the time the slot is locked until its store leaves or its leases were recovered.
    let isDirty: Atomic<UInt64>
    /// Random byte that the store keeps locked while it is alive; each store chooses another one.
    let aliveByte: Atomic<Int64>
    /// For display only: ids are used again, and have a meaning within one container only.
    let processID: Atomic<Int64>
    /// ``RunningCall/handler``, 0 while there is none.
    let handler: Atomic<Int64>
    /// ``RunningCall/digest``.
    let digest: Atomic<UInt64>
    /// ``FileNumber`` of the database as the store sees it; 0 if unknown.
    let inode: Atomic<Int64>

    /// Record of a slot in a new file: leases of an earlier store may be left.
    static let unknown: [Int64] = [1, SlotFile.nobody, 0, 0, 0, 0, 0, 0]

    /// Returns whether a holder can have left these words: the row and the digest can be any, the last two are not used.
    static func isPossible(_ words: ArraySlice<Int64>) -> Bool {
        let words = Array(words)
        return (0...1).contains(words[0]) && (0...(1 << 62)).contains(words[1])
            && Int32(exactly: words[2]) != nil && words[6] == 0 && words[7] == 0
    }

    /// Writes the running call. Only the slot's store writes, one call at a time.
    /// - Parameter torn: Runs where half of the mark is written; for tests.
    package func write(_ runningCall: RunningCall, torn: () -> Void = {}) {
        // A process can die between any two stores, so the handler is 0 while the digest is not yet its own.
        handler.store(0, ordering: .relaxed)
        digest.store(runningCall.digest, ordering: .releasing)
        torn()
        handler.store(runningCall.handler, ordering: .releasing)
    }

    func clearRunningCall() { handler.store(0, ordering: .releasing) }

    /// Call that a dead store was running.
    package var runningCall: RunningCall? {
        let handler = handler.load(ordering: .acquiring)
        return handler == 0 ? nil : RunningCall(handler: handler, digest: digest.load(ordering: .acquiring))
    }

    /// Removes everything that the last store has left.
    func makeClean() {
        clearRunningCall()
        isDirty.store(0, ordering: .releasing)
    }
}
