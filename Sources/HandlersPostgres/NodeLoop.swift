import Handlers
import Platform
import Synchronization

/// The work of a ``Node``: it renews its lease, looks for dead nodes, and passes notifications on in both directions.
///
/// Notifications only hurry the others: a look every few seconds finds what a lost one would have told.
///
/// `@unchecked Sendable`: the table is used while its lock is held.
final class NodeLoop: @unchecked Sendable {
    /// How often it looks for nodes that died.
    private static let tick = Duration.milliseconds(100)
    private static let renewal = Duration.seconds(1)
    /// After how long it calls back without a sign.
    private static let longestSilence = Duration.seconds(5)

    private let options: PostgresSettings
    /// Nil while there is no connection.
    private let table: Mutex<NodeTable?>
    private let currentNumber: Atomic<Int>
    private let fenced = Atomic<Bool>(false)
    private let isStopping = Atomic<Bool>(false)
    private let hasNews = Atomic<Bool>(false)
    private let mayHaveDead = Atomic<Bool>(true)
    private let notifications = Atomic<UInt32>(0)
    private let signal: WakeSignal
    private let changed = Mutex<(@Sendable () -> Void)?>(nil)
    /// Held while it calls back.
    private let calling = Mutex<Void>(())
    private let callingThread = Atomic<UInt>(0)

    private struct Times {
        var nextLook = ContinuousClock.now
        var nextRenewal = ContinuousClock.now
        var nextCall = ContinuousClock.now + NodeLoop.longestSilence
    }

    init(_ options: PostgresSettings) throws(HandlerError) {
        self.options = options
        signal = try WakeSignal()
        var table = try NodeTable(options)
        currentNumber = Atomic(try table.register())
        self.table = Mutex(table)
    }

    var number: Int { currentNumber.load(ordering: .sequentiallyConsistent) }
    /// Whether others have taken the node for dead, and it has not registered anew.
    var isFenced: Bool { fenced.load(ordering: .sequentiallyConsistent) }
    var countOfOthers: UInt32 { notifications.load(ordering: .relaxed) }

    /// Uses the connection, which is made anew if there is none.
    private func using<R>(_ body: (inout NodeTable) throws(HandlerError) -> R) throws(HandlerError) -> R {
        try table.withLock { (table) throws(HandlerError) in
            var current: NodeTable
            if let known = table.take() { current = known } else { current = try NodeTable(options) }
            do throws(HandlerError) {
                let result = try body(&current)
                table = current
                return result
            } catch {
                // With its connection a node loses its lock, so not for less.
                if error.code != .databaseUnavailable { table = current }
                throw error
            }
        }
    }

    // MARK: The own node

    func registerAnew() throws(HandlerError) -> Int {
        let new = try using { (table) throws(HandlerError) in try table.register() }
        currentNumber.store(new, ordering: .sequentiallyConsistent)
        fenced.store(false, ordering: .sequentiallyConsistent)
        return new
    }

    func stop() {
        isStopping.store(true, ordering: .sequentiallyConsistent)
        signal.raise()
    }

    /// Removes the node, once nothing else uses it.
    func leave() {
        table.withLock { table in
            // What cannot be removed is recovered by others.
            if hasNews.exchange(false, ordering: .sequentiallyConsistent) { try? table?.notify(from: number) }
            try? table?.remove(number)
            table = nil
        }
    }

    func notifyOthers() {
        hasNews.store(true, ordering: .sequentiallyConsistent)
        signal.raise()
    }

    // MARK: The others

    func livingNodes() throws(HandlerError) -> [Int] {
        try using { (table) throws(HandlerError) in try table.livingNodes() }
    }

    /// Whether a node may commit, as far as is known: without the database nobody can.
    func isAlive(_ node: Int) -> Bool {
        (try? using { (table) throws(HandlerError) in try table.isAlive(node) }) ?? true
    }

    /// The nodes that this one is to recover.
    func beginRecoveries() -> [(node: Int64, runningCall: RunningCall?)] {
        guard mayHaveDead.exchange(false, ordering: .sequentiallyConsistent) else { return [] }
        do throws(HandlerError) {
            return try using { (table) throws(HandlerError) in
                _ = try table.bury(besides: number)
                var begun: [(node: Int64, runningCall: RunningCall?)] = []
                for next in try table.fenced() where try table.beginRecovery(of: next.node) {
                    begun.append(next)
                }
                return begun
            }
        } catch {
            // The loop finds them again.
            return []
        }
    }

    func endRecovery(of node: Int64, isDone: Bool) {
        if !isDone { mayHaveDead.store(true, ordering: .sequentiallyConsistent) }
        try? using { (table) throws(HandlerError) in
            if isDone { try table.removeRecovered(node) }
            try table.endRecovery(of: node)
        }
    }

    // MARK: Watching

    func watch(_ changed: @escaping @Sendable () -> Void) { self.changed.withLock { $0 = changed } }

    /// Calls back no longer. When this returns, no call runs, unless it was called inside one.
    func endWatch() {
        changed.withLock { $0 = nil }
        guard callingThread.load(ordering: .sequentiallyConsistent) != ThreadID.current.number else { return }
        calling.withLock { _ in }
    }

    private func callBack() {
        calling.withLock { _ in
            callingThread.store(ThreadID.current.number, ordering: .sequentiallyConsistent)
            changed.withLock { $0 }?()
            callingThread.store(0, ordering: .sequentiallyConsistent)
        }
    }

    // MARK: Turns

    func run() {
        var times = Times()
        while true {
            signal.clear()
            if isStopping.load(ordering: .sequentiallyConsistent) { return }
            var descriptor: Int32 = -1
            do throws(HandlerError) {
                let isChanged = try using { (table) throws(HandlerError) in
                    descriptor = table.descriptor
                    return try turn(&table, &times)
                }
                if isChanged || ContinuousClock.now >= times.nextCall {
                    times.nextCall = .now + Self.longestSilence
                    callBack()
                }
            } catch {
                // There is no connection, or it fails: what happens meanwhile is found at the next call.
                times.nextCall = .now
            }
            var entries = [PollEntry(signal.fileDescriptor), PollEntry(descriptor)]
            _ = try? PollEntry.wait(&entries, milliseconds: Int32(Self.tick.milliseconds))
        }
    }

    /// - Returns: Whether others have committed or died.
    private func turn(_ table: inout NodeTable, _ times: inout Times) throws(HandlerError) -> Bool {
        if hasNews.exchange(false, ordering: .sequentiallyConsistent) {
            do throws(HandlerError) {
                try table.notify(from: number)
            } catch {
                hasNews.store(true, ordering: .sequentiallyConsistent)
                throw error
            }
        }
        let notified = try table.notifications(besides: number)
        notifications.add(UInt32(truncatingIfNeeded: notified), ordering: .relaxed)
        var isChanged = notified > 0
        if ContinuousClock.now >= times.nextRenewal, !isFenced {
            times.nextRenewal = .now + Self.renewal
            if try !table.renew(number) {
                fenced.store(true, ordering: .sequentiallyConsistent)
                isChanged = true
            }
        }
        if ContinuousClock.now >= times.nextLook {
            times.nextLook = .now + Self.tick
            if !isFenced { try table.lock(number) }
            if try table.bury(besides: number) {
                mayHaveDead.store(true, ordering: .sequentiallyConsistent)
                isChanged = true
            }
        }
        return isChanged
    }
}
