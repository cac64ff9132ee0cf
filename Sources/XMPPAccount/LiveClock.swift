import Synchronization

/// The time an account has been connected, in all processes together: what timeouts of requests are counted in.
///
/// It stands still while there is no stream, so a process that was frozen for an hour does not find everything
/// expired when it thaws.
final class LiveClock: Sendable {
    private struct State {
        var base: Int64 = 0
        var since: Int64?
    }

    private let state = Mutex(State())
    private let time: TimeSource

    init(time: TimeSource) { self.time = time }

    /// Begins to run from the stored value.
    func start(at base: Int64) {
        let now = time.milliseconds()
        state.withLock { $0 = State(base: base, since: now) }
    }

    /// Stands still.
    func stop() {
        let value = milliseconds
        state.withLock { if let value { $0 = State(base: value, since: nil) } }
    }

    /// The live time, or nil while the clock stands still, when the stored value holds.
    var milliseconds: Int64? {
        let now = time.milliseconds()
        return state.withLock { state in state.since.map { state.base + max(0, now - $0) } }
    }
}
