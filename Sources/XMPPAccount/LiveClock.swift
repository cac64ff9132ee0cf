import Handlers
import Synchronization

/// The time an account has been connected, in all processes together: what timeouts of requests are counted in.
///
/// It stands still while there is no stream, so a process that was frozen for an hour does not find everything
/// expired when it thaws.
final class LiveClock: Sendable {
    /// How often the live time is stored while something waits for it, in milliseconds: a kill forgets at most so much.
    static let storedEvery: Int64 = 10_000

    private struct State {
        var base: Int64 = 0
        /// Up to when `base` counts; nil while the clock stands still.
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

    /// Counts what passed since the last time, but no more than `limit`: the rest was no time in which anything ran.
    func credit(atMost limit: Int64) {
        let now = time.milliseconds()
        state.withLock { state in
            guard let since = state.since else { return }
            state = State(base: state.base + min(max(0, now - since), limit), since: now)
        }
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
