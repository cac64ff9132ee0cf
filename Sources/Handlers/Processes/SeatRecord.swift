import Synchronization

/// What a process runs at a moment: a handler, and what it was called with.
package struct Mark: Hashable, Sendable {
    /// The handler's row; never 0, which stands for "nothing".
    package let handler: Int64
    /// Tells one call of the handler from another.
    package let digest: UInt64

    package init(handler: Int64, digest: UInt64) {
        self.handler = handler
        self.digest = digest
    }
}

/// One seat as it lies in the shared file: memory that several processes have mapped, and that outlives them.
package struct SeatRecord: ~Copyable {
    /// The distance from one record to the next, in bytes: one cache line, so that seats do not slow each other.
    package static let stride = 64

    /// 1 from the moment the seat is taken until its holder leaves or its leases were recovered.
    let isDirty: Atomic<UInt64>
    /// The byte that the holder keeps locked for as long as it lives; drawn anew by each holder.
    let life: Atomic<Int64>
    /// For display only: ids are used again, and have a meaning within one container only.
    let processID: Atomic<Int64>
    /// ``Mark/handler``, 0 while there is none.
    let handler: Atomic<Int64>
    /// ``Mark/digest``.
    let digest: Atomic<UInt64>
    /// The ``FileNumber`` of the database as the holder sees it; 0 for not known.
    let inode: Atomic<Int64>

    /// A seat nobody has vouched for: it may have left leases that this file knows nothing of.
    static let unknown: [Int64] = [1, SeatFile.nobody, 0, 0, 0, 0, 0, 0]

    /// Whether a holder can have left these words: the row and the digest can be any, the last two are not used.
    static func isPossible(_ words: ArraySlice<Int64>) -> Bool {
        let words = Array(words)
        return (0...1).contains(words[0]) && (0...(1 << 62)).contains(words[1])
            && Int32(exactly: words[2]) != nil && words[6] == 0 && words[7] == 0
    }

    /// Only the seat's holder writes, one call at a time.
    /// - Parameter torn: Runs where half of the mark is written; for tests.
    package func write(_ mark: Mark, torn: () -> Void = {}) {
        // A process can die between any two stores, so the handler is 0 while the digest is not yet its own.
        handler.store(0, ordering: .relaxed)
        digest.store(mark.digest, ordering: .releasing)
        torn()
        handler.store(mark.handler, ordering: .releasing)
    }

    func clearMark() { handler.store(0, ordering: .releasing) }

    /// The mark of a holder that is dead.
    package var mark: Mark? {
        let handler = handler.load(ordering: .acquiring)
        return handler == 0 ? nil : Mark(handler: handler, digest: digest.load(ordering: .acquiring))
    }

    /// After this nothing of the last holder is left to find.
    func makeClean() {
        clearMark()
        isDirty.store(0, ordering: .releasing)
    }
}
