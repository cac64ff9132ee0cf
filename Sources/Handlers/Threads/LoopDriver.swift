package import Platform

/// A loop that works in turns and never waits; a driver waits for it.
///
/// ```text
///   driver:  turn ──▶ Pause(descriptors, milliseconds) ──▶ wait ──▶ turn ──▶ … ──▶ nil
/// ```
/// The driver decides where the turns run and what a wait is: a thread and poll(2), or a simulated world.
package protocol DrivenLoop: AnyObject {
    /// Handles everything that is ready.
    ///
    /// - Parameter found: The descriptors of the last pause, with the result of the wait; empty before the first turn.
    /// - Returns: What to wait for before the next turn; nil after the last turn.
    func turn(_ found: [PollEntry]) -> Pause?

    /// The signal of ``LoopDriver/makeSignal()`` that ends its pauses; nil when it has descriptors for that.
    var signal: WakeSignal? { get }
}

extension DrivenLoop {
    package var signal: WakeSignal? { nil }
}

/// Calls the turns of loops, one turn of a loop at a time.
package protocol LoopDriver: Sendable {
    /// Starts to call the turns of a loop.
    ///
    /// - Parameters:
    ///   - name: What debuggers and the system show for a thread of its own; at most 15 bytes.
    ///   - blocksSignals: Whether the application's signal handlers never run on that thread.
    ///   - make: Makes the loop where its turns run.
    /// - Throws: ``HandlerError`` `resourcesExhausted`.
    func start(
        _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop

    /// Starts to call the turns of a loop that never works for long, so that it can share a thread with others.
    ///
    /// - Parameter make: Makes the loop where its turns run.
    /// - Throws: ``HandlerError`` `resourcesExhausted`.
    func startShared(_ make: @escaping @Sendable () -> any DrivenLoop) throws(HandlerError) -> any RunningLoop

    /// Makes the signal of a loop that ``start(_:blocksSignals:_:)`` will run.
    func makeSignal() throws(HandlerError) -> WakeSignal

    /// Makes the signal of a loop that ``startShared(_:)`` will run.
    func makeSharedSignal() throws(HandlerError) -> WakeSignal
}

extension LoopDriver {
    package func makeSignal() throws(HandlerError) -> WakeSignal { try WakeSignal() }

    package func makeSharedSignal() throws(HandlerError) -> WakeSignal { try makeSignal() }

    /// Starts it like any other loop.
    package func startShared(
        _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop {
        try start("shared loop", blocksSignals: true, make)
    }
}

/// A loop whose turns are called.
package protocol RunningLoop: Sendable {
    /// Waits until the last turn has ended; called on the thread of the turns it returns at once.
    func join()
}

extension WorkerThread: RunningLoop {}

/// Gives each loop a thread of its own, and all shared loops of the process one.
package struct ThreadDriver: LoopDriver {
    package init() {}

    package func start(
        _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop {
        try WorkerThread(name, blocksSignals: blocksSignals) {
            let loop = make()
            var found: [PollEntry] = []
            while var pause = loop.turn(found) {
                pause.wait()
                found = pause.entries
            }
        }
    }

    package func startShared(
        _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop { try SharedThreads.process.startShared(make) }

    package func makeSharedSignal() -> WakeSignal { SharedThreads.process.makeSignal() }
}
