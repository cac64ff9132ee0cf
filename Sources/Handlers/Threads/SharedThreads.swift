import Synchronization

/// Runs loops on a few threads, each of which calls the turns of many.
///
/// ```text
///   loop ──╮
///   loop ──┼──▶ thread:  wait ──▶ turns up to their steps ──▶ one COMMIT ──▶ the rest of the turns ──▶ wait
///   loop ──╯
/// ```
package final class SharedThreads: LoopDriver {
    /// The thread of this process for loops that never work for long. Any number of stores costs this one, and closed stores
    /// leave none.
    static let process = SharedThreads(1, "shared loops", blocksSignals: true)

    private let places: [SharedThread.Place]

    /// - Parameters:
    ///   - count: The number of threads, from 1.
    ///   - name: What debuggers and the system show for them; at most 15 bytes.
    ///   - blocksSignals: Whether the application's signal handlers never run on them.
    ///   - workers: Call the turns, while ``WorkThreads/isNeeded``; nil if no turn takes long.
    package init(_ count: Int, _ name: String, blocksSignals: Bool, workers: WorkThreads? = nil) {
        places = (0..<count).map { _ in
            SharedThread.Place(name, blocksSignals: blocksSignals, workers: workers)
        }
    }

    /// Runs the loop on the thread with the fewest loops.
    package func start(
        _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop {
        let place = places.min { $0.count.load(ordering: .relaxed) < $1.count.load(ordering: .relaxed) }
        // There is at least one.
        return try SharedThread.start(at: place!, make)
    }

    package func startShared(
        _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop { try Self.process.start("", blocksSignals: true, make) }

    package func makeSignal() -> WakeSignal { WakeSignal(of: LoopSignal()) }
}
