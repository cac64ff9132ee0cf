import Synchronization

/// What handlers keep in memory from one call to the next: the suspended runs of workflows.
///
/// It is here only after a commit, with the number of the call that committed. It is lent only to the call that follows that one, so a
/// handler that another process has called since does without it.
final class KeptRuns: Sendable {
    fileprivate struct Kept {
        let run: any AnyObject & Sendable
        let call: Int64
        let size: Int
        /// When it was kept, as a number.
        let turn: Int
    }

    fileprivate struct State {
        var limit = KeptRuns.standardLimit
        var runs: [AnyHandlerID: Kept] = [:]
        var size = 0
        /// The handlers in the order in which they were kept; those that were kept again, or are gone, are still there.
        var order: [(id: AnyHandlerID, turn: Int)] = []
        var oldest = 0
        var turn = 0
    }

    /// The limit for a program that sets none, in bytes.
    static let standardLimit = 64 << 20

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.runs.count } }

    /// Sets how many bytes the runs may need together; 0 keeps none.
    func setLimit(_ limit: Int) {
        let dropped = state.withLock { state in
            state.limit = limit
            return state.makeRoom()
        }
        withExtendedLifetime(dropped) {}
    }

    /// Returns the run that the call of that number has left, which is not kept any more.
    func take(_ id: AnyHandlerID, afterCall call: Int64) -> (any AnyObject & Sendable)? {
        let kept = state.withLock { $0.remove(id) }
        return kept?.call == call ? kept?.run : nil
    }

    /// Keeps a run whose step has committed, and drops those that were not called for the longest time.
    func keep(_ run: any AnyObject & Sendable, ofSize size: Int, of id: AnyHandlerID, afterCall call: Int64) {
        // What is dropped runs code of the program: not with the lock held.
        let dropped = state.withLock { state -> [any AnyObject & Sendable] in
            let old = state.remove(id)
            // A later call may have committed meanwhile.
            if let old, old.call > call {
                state.insert(old, id)
                return [run]
            }
            state.insert(Kept(run: run, call: call, size: size, turn: state.turn), id)
            return (old.map { [$0.run] } ?? []) + state.makeRoom()
        }
        withExtendedLifetime(dropped) {}
    }

    func drop(_ id: AnyHandlerID) {
        let dropped = state.withLock { $0.remove(id) }
        withExtendedLifetime(dropped) {}
    }
}

extension KeptRuns.State {
    fileprivate mutating func remove(_ id: AnyHandlerID) -> KeptRuns.Kept? {
        guard let kept = runs.removeValue(forKey: id) else { return nil }
        size -= kept.size
        return kept
    }

    fileprivate mutating func insert(_ kept: KeptRuns.Kept, _ id: AnyHandlerID) {
        runs[id] = kept
        size += kept.size
        order.append((id, kept.turn))
        turn += 1
        // Most of what is there may be gone.
        guard order.count > 64, order.count > 4 * runs.count else { return }
        order = order[oldest...].filter { runs[$0.id]?.turn == $0.turn }
        oldest = 0
    }

    fileprivate mutating func makeRoom() -> [any AnyObject & Sendable] {
        var dropped: [any AnyObject & Sendable] = []
        while size > limit, oldest < order.count {
            let (id, turn) = order[oldest]
            oldest += 1
            if runs[id]?.turn == turn, let kept = remove(id) { dropped.append(kept.run) }
        }
        return dropped
    }
}
