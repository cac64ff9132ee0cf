import Platform
import Synchronization

/// Watcher of the end of every other store that has the database open, with one sleeping thread for each.
///
/// A store that dies may have left leases, and may have committed without a notification.
final class NeighborWatch: Sendable {
    private struct State {
        var ended: (@Sendable () -> Void)?
        /// By the alive byte of the watched store: its slot may be reclaimed at once.
        var watches: [Int64: any ProcessWatch] = [:]
    }

    private let slot: any ProcessPresence
    private let state = Mutex(State())

    init(_ slot: any ProcessPresence) { self.slot = slot }

    /// Starts to watch, and looks for the first time.
    func start(_ ended: @escaping @Sendable () -> Void) {
        state.withLock { $0.ended = ended }
        look()
    }

    /// Watches new stores, and drops the watches of those that ended.
    ///
    /// Where the system gives no thread, the one in question is not watched until the next look.
    func look() {
        let aliveBytes = Set(slot.aliveBytes)
        // Let go outside the lock: that waits for a callback, which comes here.
        let (ended, known, old) = state.withLock { state in
            let old = state.watches
            state.watches = old.filter { aliveBytes.contains($0.key) }
            return (state.ended, Set(state.watches.keys), old)
        }
        defer { withExtendedLifetime(old) {} }
        guard let ended else { return }
        for aliveByte in aliveBytes.subtracting(known) {
            guard let watch = try? slot.watch(aliveByte: aliveByte, ended: ended) else { continue }
            let other = state.withLock { $0.watches.updateValue(watch, forKey: aliveByte) }
            withExtendedLifetime(other) {}
        }
    }
}
