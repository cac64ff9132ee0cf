import Handlers
import Synchronization

/// The time an account has been connected, in all processes together: what timeouts of requests are counted in.
///
/// It stands still while there is no stream, so a process that was frozen for an hour does not find everything
/// expired when it thaws.
final class ConnectedClock: Sendable {
    /// The interval of storing the connected time while something waits for it, in milliseconds: a kill loses at most this.
    static let storedEvery: Int64 = 10_000

    /// The delay after which the process counts as frozen, in milliseconds.
    static let frozenAfter: Int64 = 1000

    private struct State {
        var base: Int64 = 0
        /// The time up to which `base` counts; nil while the clock is stopped.
        var since: Int64?
        /// The most that counts of what passes from then on, in milliseconds.
        var limit: Int64 = 0

        func milliseconds(at now: Int64) -> Int64? {
            since.map { base + min(max(0, now - $0), limit) }
        }
    }

    private let state = Mutex(State())
    private let time: TimeSource

    init(time: TimeSource) { self.time = time }

    /// Begins to run from the stored value.
    func start(at base: Int64) {
        let now = time.monotonicMilliseconds()
        state.withLock { $0 = State(base: base, since: now, limit: limit(planned: 0)) }
    }

    /// Counts what passed, as far as it was planned, and says how long is planned from now on, in milliseconds. What takes
    /// longer was no time in which anything ran: the process was frozen, asleep in a wait or in the middle of a step.
    func plan(_ planned: Int64) {
        let now = time.monotonicMilliseconds()
        state.withLock { state in
            guard let counted = state.milliseconds(at: now) else { return }
            state = State(base: counted, since: now, limit: limit(planned: planned))
        }
    }

    /// A clock turned by hand is not frozen, however far it is turned.
    private func limit(planned: Int64) -> Int64 {
        time.onTurn == nil ? TimeSource.sum(planned, Self.frozenAfter) : .max
    }

    /// Stands still.
    func stop() {
        let value = milliseconds
        state.withLock { if let value { $0 = State(base: value) } }
    }

    /// The connected time; nil while the clock is stopped and the stored value is valid.
    var milliseconds: Int64? {
        let now = time.monotonicMilliseconds()
        return state.withLock { $0.milliseconds(at: now) }
    }
}
