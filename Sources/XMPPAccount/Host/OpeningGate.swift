import Synchronization

/// Limits the streams that are opened at the same time, so that a server that does not answer costs its own accounts alone.
///
/// An opening mostly waits: for TCP, TLS or an answer. So each server has places of its own. In all there are as many as the process
/// has descriptors and threads for. When these become few, a server may take no more than are left, and the next server finds one.
///
/// ```text
/// server a:  wait, wait ──▶ at most `limit` inside ──╮
/// server b:  ─────────────▶ at most `limit` inside ──┼──▶ at most `total` inside
/// server c:  wait ────────▶ at most `limit` inside ──╯
/// ```
final class OpeningGate: Sendable {
    private struct Wait {
        let number: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        /// The number of tasks inside, of each server.
        var inside: [ServerPlace: Int] = [:]
        /// The number of tasks that may be inside besides.
        var free: Int
        /// Tasks that wait, of each server, in the order in which they came.
        var waiting: [ServerPlace: ArraySlice<Wait>] = [:]
        /// The servers in `waiting`, each once; the next to be let in is first.
        var turns: ArraySlice<ServerPlace> = []
        var lastNumber = 0
        /// Waits that were canceled before they started.
        var canceled: Set<Int> = []
    }

    /// The total is at most so many times the limit of a server.
    static let servers = 16

    /// The number of tasks of one server that are inside at the same time.
    let limit: Int
    private let state: Mutex<State>
    private let total: Mutex<Int>

    /// - Parameters:
    ///   - limit: The number of tasks of one server that are inside at the same time, from 1.
    ///   - total: The number of tasks of all servers; nil for the most.
    init(_ limit: Int, total: Int? = nil) {
        self.limit = limit
        let total = total ?? limit * Self.servers
        self.total = Mutex(total)
        state = Mutex(State(free: total))
    }

    /// Changes how many tasks of all servers are inside at the same time.
    ///
    /// - Parameter spare: The number for which there are descriptors; at least the limit of a server is allowed, and at most
    ///   ``servers`` times that.
    func setTotal(_ spare: Int) {
        let new = min(max(spare, limit), limit * Self.servers)
        let change = total.withLock { total in
            defer { total = new }
            return new - total
        }
        if change == 0 { return }
        state.withLock { state in
            state.free += change
            while letNextIn(&state) {}
        }
    }

    /// Waits until a task of a server may enter; ``leave(_:)`` must follow.
    ///
    /// - Throws: `CancellationError` when the task is canceled meanwhile; it has not entered then.
    func enter(_ server: ServerPlace) async throws(CancellationError) {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let hasEntered = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    if state.canceled.remove(number) != nil { return false }
                    if state.waiting[server]?.isEmpty ?? true, mayEnter(server, state) {
                        enter(server, &state)
                        return true
                    }
                    if state.waiting[server] == nil { state.turns.append(server) }
                    state.waiting[server, default: []].append(
                        Wait(number: number, continuation: continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                guard let index = state.waiting[server]?.firstIndex(where: { $0.number == number }) else {
                    state.canceled.insert(number)
                    return nil as CheckedContinuation<Bool, Never>?
                }
                // The server keeps its turn, in which it is found that none waits.
                return state.waiting[server]?.remove(at: index).continuation
            }
            continuation?.resume(returning: false)
        }
        state.withLock { _ = $0.canceled.remove(number) }
        if !hasEntered { throw CancellationError() }
    }

    /// The number of tasks of a server that are inside, and of those that wait.
    func count(of server: ServerPlace) -> (inside: Int, waiting: Int) {
        state.withLock { ($0.inside[server] ?? 0, $0.waiting[server]?.count ?? 0) }
    }

    func leave(_ server: ServerPlace) {
        state.withLock { state in
            let left = (state.inside[server] ?? 1) - 1
            state.inside[server] = left > 0 ? left : nil
            state.free += 1
            // Two may enter: one more of another server, and then one of this server, of which fewer are inside.
            while letNextIn(&state) {}
        }
    }

    /// A server may take as many places as are left, so that one is left for another server, however many take what they can.
    private func mayEnter(_ server: ServerPlace, _ state: State) -> Bool {
        (state.inside[server] ?? 0) < min(limit, state.free)
    }

    private func enter(_ server: ServerPlace, _ state: inout State) {
        state.inside[server, default: 0] += 1
        state.free -= 1
    }

    /// Lets a task of the first server in that may enter; the servers before it keep their order.
    ///
    /// - Returns: Whether there was one.
    private func letNextIn(_ state: inout State) -> Bool {
        for _ in 0..<state.turns.count {
            guard let server = state.turns.popFirst() else { return false }
            guard let first = state.waiting[server]?.first else {
                state.waiting[server] = nil
                continue
            }
            state.turns.append(server)
            guard mayEnter(server, state) else { continue }
            state.waiting[server]?.removeFirst()
            enter(server, &state)
            // With the lock held: a task that is canceled meanwhile finds that it has entered, and leaves.
            first.continuation.resume(returning: true)
            return true
        }
        return false
    }
}
