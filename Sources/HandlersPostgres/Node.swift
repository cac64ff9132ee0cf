import Handlers
import Platform

/// A store's place among those that have the database open, on any machine.
final class Node: StorePresence {
    /// What the connection of the steps asks, too.
    let loop: NodeLoop
    private let thread: SystemThread

    /// Registers a new node, and keeps it alive on a thread of its own.
    init(_ options: PostgresSettings) throws(HandlerError) {
        let loop = try NodeLoop(options)
        self.loop = loop
        do throws(Errno) {
            thread = try SystemThread("node", blocksSignals: true) { loop.run() }
        } catch {
            loop.leave()
            throw HandlerError(
                .resourcesExhausted,
                "no thread could be started (\(error)); raise the process's limit of threads")
        }
    }

    /// A store that could not give back what it holds does not leave: others recover it.
    deinit {
        end()
        loop.disconnect()
    }

    private func end() {
        loop.stop()
        thread.join()
    }

    var number: Int { loop.number }
    var isFenced: Bool { loop.isFenced }
    var hasOtherMachines: Bool { loop.hasOtherMachines }

    func isAlive(slot: Int) -> Bool { loop.isAlive(slot) }

    func share(_ isSharing: Bool) throws(HandlerError) { try loop.share(isSharing) }
    func sharingSlots() throws(HandlerError) -> [Int] { try loop.sharingNodes() }

    func record(_ runningCall: RunningCall) { loop.record(runningCall) }
    /// The record stays until the next one, or until the step ends: so it costs one statement for each handler of a group. The price is
    /// that a death in the rest of its step counts for the handler that ran last in it.
    func clearRunningCall() {}

    func leave() {
        end()
        loop.leave()
    }

    func notifyOthers() { loop.notifyOthers() }
    var countOfOthers: UInt32 { loop.countOfOthers }

    func recoverDead<E>(_ body: (_ slot: Int, _ runningCall: RunningCall?) throws(E) -> Void) throws(E) {
        var started = loop.startRecoveries()[...]
        // What is not recovered here is left to others, and to the next time.
        defer { for (node, _) in started { loop.endRecovery(of: node, isDone: false) } }
        while let (node, runningCall) = started.first {
            try body(Int(node), runningCall)
            loop.endRecovery(of: node, isDone: true)
            started.removeFirst()
        }
    }

    func watchOthers(
        _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        loop.watch(changed)
        return NodeWatch(loop)
    }
}

/// A watch of the other nodes, which the loop of the own one calls.
private final class NodeWatch: ProcessWatch {
    /// What the connection of the steps asks, too.
    let loop: NodeLoop

    init(_ loop: NodeLoop) { self.loop = loop }

    deinit { cancel() }

    func cancel() { loop.endWatch() }
}
