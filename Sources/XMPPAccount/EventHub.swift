import Synchronization

/// Delivers events to any number of listeners, to each in order; a slow one does not delay others.
final class EventHub: Sendable {
    private struct State {
        var next = 0
        var listeners: [Int: Listener] = [:]
        var isFinished = false
    }

    /// A listener to all or some of the events.
    private struct Listener {
        let receive: @Sendable (AccountEvent) -> Void
        let finish: @Sendable () -> Void
    }

    /// How many events wait for one listener that is slow or does not look. Of more the oldest are dropped,
    /// which is logged and reported to the listener.
    static let waiting = 10_000
    /// The maximum size of these in bytes, as ``AccountEvent/weight`` estimates it. The newest event is kept at any size.
    static let waitingBytes = 2 << 20

    private let state = Mutex(State())
    private let configuration: AccountConfiguration

    init(_ configuration: AccountConfiguration) { self.configuration = configuration }

    /// - Parameters:
    ///   - gap: What a listener gets at the place of so many dropped events; nil for nothing.
    ///   - pick: What a listener gets of an event; nil for nothing.
    func listen<Picked: Sendable>(
        gap: @escaping @Sendable (Int) -> Picked? = { _ in nil },
        _ pick: @escaping @Sendable (AccountEvent) -> Picked?
    ) -> AsyncStream<Picked> {
        let key = state.withLock { state in
            state.next += 1
            return state.next
        }
        let queue = EventQueue<Picked>(gap: gap) { [weak self] in
            self?.state.withLock { _ = $0.listeners.removeValue(forKey: key) }
        }
        let configuration = configuration
        let listener = Listener(
            receive: { [weak queue] event in
                guard let picked = pick(event), let queue else { return }
                let dropped = queue.append(picked, weight: event.weight)
                for event in dropped { configuration.logDropped(event) }
            },
            finish: { [weak queue] in queue?.finish() })
        let isOpen = state.withLock { state in
            if !state.isFinished { state.listeners[key] = listener }
            return !state.isFinished
        }
        if !isOpen { queue.finish() }
        return AsyncStream { await queue.next() }
    }

    func send(_ event: AccountEvent) {
        configuration.log(event)
        let listeners = state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.receive(event) }
    }

    func finish() {
        let listeners = state.withLock { state in
            state.isFinished = true
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }
}

/// The events that wait for one listener. `AsyncStream` limits their number and not their size.
private final class EventQueue<Event: Sendable>: Sendable {
    private struct State {
        /// Nil before `first`: those were taken or dropped. Now and then they are removed together.
        var events: [(event: Event, weight: Int)?] = []
        var first = 0
        var weight = 0
        /// How many events were dropped since the listener took one. The gap is before the first event.
        var dropped = 0
        var waiters: [CheckedContinuation<Event?, Never>] = []
        var isFinished = false

        mutating func removeFirst() -> Event? {
            guard first < events.count, let entry = events[first] else { return nil }
            events[first] = nil
            first += 1
            weight -= entry.weight
            if first > events.count / 2 {
                events.removeFirst(first)
                first = 0
            }
            return entry.event
        }

        var isTooLong: Bool {
            let count = events.count - first
            return count > EventHub.waiting || count > 1 && weight > EventHub.waitingBytes
        }
    }

    private let state = Mutex(State())
    private let gap: @Sendable (Int) -> Event?
    private let onEnd: @Sendable () -> Void

    /// - Parameters:
    ///   - gap: What the listener gets at the place of so many dropped events; nil for nothing.
    ///   - onEnd: Called when nobody can ask for an event any more.
    init(gap: @escaping @Sendable (Int) -> Event?, onEnd: @escaping @Sendable () -> Void) {
        (self.gap, self.onEnd) = (gap, onEnd)
    }

    deinit { onEnd() }

    /// - Returns: The events that were dropped.
    func append(_ event: Event, weight: Int) -> [Event] {
        let (waiter, dropped) = state.withLock { state -> (CheckedContinuation<Event?, Never>?, [Event]) in
            guard !state.isFinished else { return (nil, []) }
            guard state.waiters.isEmpty else { return (state.waiters.removeFirst(), []) }
            state.events.append((event, weight))
            state.weight += weight
            var dropped: [Event] = []
            while state.isTooLong, let oldest = state.removeFirst() { dropped.append(oldest) }
            state.dropped += dropped.count
            return (nil, dropped)
        }
        waiter?.resume(returning: event)
        return dropped
    }

    /// - Returns: The next event; nil once there are no more, and when the task was canceled.
    func next() async -> Event? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                while true {
                    let (dropped, event) = state.withLock { state -> (Int, Event??) in
                        if state.dropped > 0 {
                            defer { state.dropped = 0 }
                            return (state.dropped, .none)
                        }
                        if let event = state.removeFirst() { return (0, event) }
                        if state.isFinished { return (0, .some(nil)) }
                        state.waiters.append(continuation)
                        return (0, .none)
                    }
                    if let event { return continuation.resume(returning: event) }
                    if dropped == 0 { return }
                    // Outside of the lock: the listener may use the account.
                    if let event = gap(dropped) { return continuation.resume(returning: event) }
                }
            }
        } onCancel: {
            finish()
        }
    }

    /// No more events are appended; those that wait stay.
    func finish() {
        let waiters = state.withLock { state in
            state.isFinished = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume(returning: nil) }
    }
}
