import Handlers
import Synchronization

/// The time an account has been connected, in all processes together: what timeouts of requests are counted in.
///
/// It does not advance while there is no stream, so a process that was frozen for an hour does not find everything
/// expired when it thaws.
final class ConnectedClock: Sendable {
    /// The interval of storing the connected time while a deadline is near: a kill loses at most this then.
    static let storedEvery = Duration.seconds(10)

    /// The delay after which the process counts as frozen.
    static let frozenAfter = Duration.seconds(1)

    private struct State {
        /// The connected time that was counted.
        var base = Duration.zero
        /// The time of the monotonic clock up to which `base` counts; nil while the clock is stopped.
        var since: Duration?
        /// The most that counts of what passes from then on.
        var limit = Duration.zero

        func connectedTime(at now: Duration) -> Duration? {
            since.map { base + min(max(.zero, now - $0), limit) }
        }
    }

    private let state = Mutex(State())
    private let time: TimeSource

    init(time: TimeSource) { self.time = time }

    /// Starts at the stored connected time.
    func start(at base: Duration) {
        let now = time.wholeMonotonic()
        state.withLock { $0 = State(base: base, since: now, limit: limit(planned: .zero)) }
    }

    /// Counts the time that passed, as far as it was planned, and records the time that is planned from now on. The process did
    /// not run for the rest of the time: it was frozen, in a wait or in the middle of a step.
    func plan(_ planned: Duration) {
        let now = time.wholeMonotonic()
        state.withLock { state in
            guard let counted = state.connectedTime(at: now) else { return }
            state = State(base: counted, since: now, limit: limit(planned: planned))
        }
    }

    /// A clock turned by hand is not frozen, however far it is turned.
    private func limit(planned: Duration) -> Duration {
        time.onTurn == nil ? TimeSource.sum(planned, Self.frozenAfter) : .milliseconds(Int64.max)
    }

    /// Does not advance.
    func stop() {
        let value = connectedTime
        state.withLock { if let value { $0 = State(base: value) } }
    }

    /// The connected time; nil while the clock is stopped and the stored value is valid.
    var connectedTime: Duration? {
        let now = time.wholeMonotonic()
        return state.withLock { $0.connectedTime(at: now) }
    }
}
