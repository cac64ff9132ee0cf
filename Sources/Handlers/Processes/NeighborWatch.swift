import Platform
import Synchronization

/// Waits for the end of every other store that has the database open, each on a thread that is asleep in the kernel.
///
/// One that dies may have leased handlers, and may have committed something of which it did not tell any more.
final class NeighborWatch: Sendable {
    private struct State {
        var ended: (@Sendable () -> Void)?
        /// By the life of the one that is watched: its seat may be taken anew at once.
        var watches: [Int64: any ProcessWatch] = [:]
    }

    private let slot: any ProcessPresence
    private let state = Mutex(State())

    init(_ slot: any ProcessPresence) { self.slot = slot }

    /// Begins to watch, and looks for the first time.
    func start(_ ended: @escaping @Sendable () -> Void) {
        state.withLock { $0.ended = ended }
        look()
    }

    /// Watches those that have come, and lets go of those that have gone.
    ///
    /// Where the system gives no thread, the one in question is not watched until the next look.
    func look() {
        let lives = Set(slot.lives)
        // Let go outside the lock: that waits for a callback, which comes here.
        let (ended, known, old) = state.withLock { state in
            let old = state.watches
            state.watches = old.filter { lives.contains($0.key) }
            return (state.ended, Set(state.watches.keys), old)
        }
        defer { withExtendedLifetime(old) {} }
        guard let ended else { return }
        for life in lives.subtracting(known) {
            guard let watch = try? slot.watch(life: life, ended: ended) else { continue }
            let other = state.withLock { $0.watches.updateValue(watch, forKey: life) }
            withExtendedLifetime(other) {}
        }
    }
}
