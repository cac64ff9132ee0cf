import Synchronization

/// The request to end a loop that waits for descriptors.
///
/// It does not wake a ``NeighborLoop`` by the pipe: another program that reads the pipe would keep the loop, and who waits for its end,
/// for ever.
final class LoopStop: Sendable {
    private let isSet = Atomic<Bool>(false)
    private let signal: WakeSignal

    init() throws(HandlerError) { signal = try WakeSignal() }

    /// What wakes the loop.
    var descriptor: Int32 { signal.fileDescriptor }

    var isRaised: Bool { isSet.load(ordering: .sequentiallyConsistent) }

    func raise() {
        guard !isSet.exchange(true, ordering: .sequentiallyConsistent) else { return }
        signal.raise()
    }
}
