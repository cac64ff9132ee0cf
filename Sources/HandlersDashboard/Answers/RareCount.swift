import Synchronization

/// The number of all handlers, counted no more often than every 5 s, and no more than a twentieth of the time.
final class RareCount: Sendable {
    private struct Counted {
        let value: Int64
        let next: ContinuousClock.Instant
    }

    private let counted = Mutex<Counted?>(nil)

    /// Returns what was counted last, or counts.
    func value(_ count: () throws -> Int64) throws -> Int64 {
        let start = ContinuousClock.now
        if let last = counted.withLock({ $0 }), start < last.next { return last.value }
        let value = try count()
        let taken = ContinuousClock.now - start
        counted.withLock { $0 = Counted(value: value, next: start + max(.seconds(5), taken * 20)) }
        return value
    }
}
