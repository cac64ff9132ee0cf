import Synchronization

/// The parts of a program that a store wakes: its runners, its listeners and the consumers of its events.
///
/// Apart from the store: the watch of other processes wakes them without keeping the store, which would otherwise be closed on the
/// thread of the watch.
final class StoreListeners: Sendable {
    /// One structure: the type of a lock is made at run time, which a short process notices.
    private struct State {
        /// The runners of this process, oldest first.
        var runners: [(runner: ObjectIdentifier, hooks: RunnerHooks)] = []
        /// Callbacks to invoke after other processes have committed.
        var neighborListeners: [ObjectIdentifier: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())
    /// The loop of these runners, which keep it.
    private let dueListener = Mutex(WeakListener())
    /// Signal for consumers of events.
    let news = News()
    /// Signals for those who wait for the endings of handlers.
    let endings = EndingNews()

    func addRunner(_ runner: AnyObject, _ hooks: RunnerHooks) {
        state.withLock { $0.runners.append((ObjectIdentifier(runner), hooks)) }
    }

    func removeRunner(_ runner: AnyObject) {
        state.withLock { $0.runners.removeAll { $0.runner == ObjectIdentifier(runner) } }
    }

    /// Returns the listener that all runners share.
    ///
    /// - Parameter make: Makes it for the first of them.
    func dueListener<L: DueListener>(_ make: () throws(HandlerError) -> L) throws(HandlerError) -> L {
        try dueListener.withLock { (listener) throws(HandlerError) in
            if let known = listener.value as? L { return known }
            let new = try make()
            listener.value = new
            return new
        }
    }

    func addNeighborListener(_ listener: AnyObject, _ action: @escaping @Sendable () -> Void) {
        state.withLock { $0.neighborListeners[ObjectIdentifier(listener)] = action }
    }

    func removeNeighborListener(_ listener: AnyObject) {
        state.withLock { _ = $0.neighborListeners.removeValue(forKey: ObjectIdentifier(listener)) }
    }

    /// Reports a final failure to one runner: the first that serves the scope, else the first of all.
    func report(_ failure: HandlerFailure) {
        let hooks = hooks
        (hooks.first { $0.serves(failure.scope) } ?? hooks.first)?.failed(failure)
    }

    /// The functions of all runners, oldest first.
    var hooks: [RunnerHooks] { state.withLock { $0.runners.map(\.hooks) } }

    /// Reports rows that a step has committed.
    func addDue(_ new: NewDue) { dueListener.withLock { $0.value }?.add(new) }

    /// Reports that rows may be due in any scope.
    func addAllDue() {
        var new = NewDue()
        new.isAnywhere = true
        addDue(new)
    }

    /// Reports that handlers may have places in lanes that no process uses.
    func lookAtPlaces() { dueListener.withLock { $0.value }?.lookAtPlaces() }

    /// Wakes everything after other processes have committed, left or died.
    func wakeAll() {
        news.announce()
        endings.announceAll()
        addAllDue()
        for listener in state.withLock({ Array($0.neighborListeners.values) }) { listener() }
    }
}

/// The functions of a runner that a store calls, outside of steps.
struct RunnerHooks: Sendable {
    /// Whether it serves a scope; nil is the program as a whole.
    let serves: @Sendable (HandlerScope?) -> Bool
    /// A handler failed for good.
    let failed: @Sendable (HandlerFailure) -> Void
    /// Stops, and gives back all that it holds.
    let suspend: @Sendable () -> Void
    /// Goes on as it was.
    let resume: @Sendable () throws -> Void
}

private struct WeakListener {
    weak var value: (any DueListener)?
}
