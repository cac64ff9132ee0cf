import Handlers
import Platform

/// A store's place among those that have the database open, on any machine.
final class Node: ProcessPresence {
    private let loop: NodeLoop
    private let thread: SystemThread

    let narrowedFiles: [String] = []
    let fileNumber: Int64? = nil

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

    deinit { leave() }

    var number: Int { loop.number }
    var isFenced: Bool { loop.isFenced }

    func isAlive(slot: Int) -> Bool { loop.isAlive(slot) }

    func livingSlots() throws(HandlerError) -> [Int] { try loop.livingNodes() }

    /// Registers the store anew after others have taken it for dead.
    ///
    /// - Returns: Its new number.
    func registerAnew() throws(HandlerError) -> Int { try loop.registerAnew() }

    // What runs in a step is not known to others; see docs/reference/postgres.md.
    func record(_ runningCall: RunningCall) {}
    func clearRunningCall() {}

    func leave() {
        loop.stop()
        thread.join()
        loop.leave()
    }

    func notifyOthers() { loop.notifyOthers() }
    var countOfOthers: UInt32 { loop.countOfOthers }

    func recoverDead<E>(_ body: (_ slot: Int, _ runningCall: RunningCall?) throws(E) -> Void) throws(E) {
        for (node, runningCall) in loop.beginRecoveries() {
            do throws(E) {
                try body(Int(node), runningCall)
            } catch {
                loop.endRecovery(of: node, isDone: false)
                throw error
            }
            loop.endRecovery(of: node, isDone: true)
        }
    }

    var hasUnrecovered: Bool { false }
    /// For files, which a node has not.
    func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E) {}
    func isSeenOtherwise(than inode: Int64) -> Bool { false }

    func watchOthers(
        _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        loop.watch(changed)
        return NodeWatch(loop)
    }
}

/// A watch of the other nodes, which the loop of the own one calls.
private final class NodeWatch: ProcessWatch {
    private let loop: NodeLoop

    init(_ loop: NodeLoop) { self.loop = loop }

    deinit { cancel() }

    func cancel() { loop.endWatch() }
}
