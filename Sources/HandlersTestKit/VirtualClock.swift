public import Handlers
import Synchronization

/// A clock that advances only when a test advances it.
///
/// ```swift
/// let clock = VirtualClock()
/// let store = try HandlerStore(path: path, registry: registry, time: clock.timeSource)
/// let runner = try HandlerRunner(store)
/// let id = try store.step { try $0.schedule(Remind(customer: "Ada").durable, after: .seconds(3600)) }
/// clock.advance(by: .seconds(3600))
/// try runner.runDue()      // calls the handler
/// ```
///
/// ``withTestStore(registry:schemas:role:clock:configuration:isolation:_:)`` makes all three. An account takes the clock as
/// `AccountConfiguration.time`.
///
/// It has two hands, as a machine has: the monotonic one, which ``advance(by:)`` alone moves, and the wall, which
/// ``setWall(_:)`` may also set back, as a user or a time server does.
public final class VirtualClock: Sendable {
    private struct State {
        var wall: Timestamp
        var monotonic = Duration.zero
        var observers: [@Sendable () -> Void] = []
    }

    private let state: Mutex<State>

    /// Makes a clock.
    ///
    /// - Parameter wall: What the wall shows at first. The monotonic hand starts at 0.
    public init(wall: Timestamp = Timestamp(milliseconds: 1_750_000_000_000)) {
        state = Mutex(State(wall: wall))
    }

    /// Time of the wall clock.
    public var wall: Timestamp { state.withLock { $0.wall } }

    /// What the monotonic hand shows: by how much the clock was advanced.
    package var monotonic: Duration { state.withLock { $0.monotonic } }

    /// Both hands in the form that a store and an account take.
    public var timeSource: TimeSource {
        TimeSource(monotonic: { self.monotonic }, wall: { self.wall }, onTurn: { self.onTurn($0) })
    }

    /// Moves both hands forward, then calls the observers in their order.
    ///
    /// - Parameter duration: Zero or more; a part of a millisecond is dropped.
    public func advance(by duration: Duration) {
        let passed = Duration.milliseconds(duration.milliseconds)
        turn {
            $0.wall = $0.wall + passed
            $0.monotonic += passed
        }
    }

    /// Sets the wall alone, forwards or backwards.
    ///
    /// - Parameter time: What it shows then.
    public func setWall(_ time: Timestamp) {
        turn { $0.wall = time }
    }

    /// Registers something to run after every turn, on the thread that turns the clock.
    ///
    /// It stays registered as long as the clock lives, so it should hold what it wakes weakly.
    ///
    /// - Parameter action: Runs on that thread, and should return soon.
    package func onTurn(_ action: @escaping @Sendable () -> Void) {
        state.withLock { $0.observers.append(action) }
    }

    private func turn(_ change: (inout sending State) -> Void) {
        let observers = state.withLock { state in
            change(&state)
            return state.observers
        }
        // Outside the lock: an observer may read the clock.
        for observer in observers { observer() }
    }
}
