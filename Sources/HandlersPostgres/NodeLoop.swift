import Handlers
import Platform
import Synchronization

/// The work of a ``Node``: it renews its lease, looks for dead nodes, and passes notifications on in both directions.
///
/// Notifications only hurry the others: a look every few seconds finds what a lost one would have reported.
///
/// `@unchecked Sendable`: the table is used while its lock is held.
final class NodeLoop: @unchecked Sendable {
    private static let renewal = Duration.seconds(1)
    /// After how long it calls back without a sign.
    private static let longestSilence = Duration.seconds(5)
    /// For how long it leaves notifications where they are after it has read some: a flood of them is one.
    private static let pause = Duration.milliseconds(20)
    /// How often the clocks are compared, and what keeps a node from being fenced is reported.
    private static let reporting = Duration.seconds(60)

    private let options: PostgresSettings
    /// How often it looks for nodes that died.
    private let tick: Duration
    /// Nil while there is no connection.
    private let table: Mutex<NodeTable?>
    /// Stores what the node runs; nil while nothing was. A step waits for it, and so not for what the node does over its own connection.
    private let records: Mutex<RunningCallRecord?>
    private let currentNumber: Atomic<Int>
    private let fenced = Atomic<Bool>(false)
    private let isSharing = Atomic<Bool>(false)
    private let isStopping = Atomic<Bool>(false)
    private let hasNews = Atomic<Bool>(false)
    private let mayHaveDead = Atomic<Bool>(true)
    /// Whether what runs is stored, because a node has died a short time ago: what it ran is not known, and kills the next one, too.
    private let isCareful: Atomic<Bool>
    /// Whether there are other nodes, or were shortly before.
    private let others = Atomic<Bool>(true)
    /// How often commits came into doubt that any step may see; 0 once one has waited for the standby after them.
    private let doubts = Atomic<Int>(0)
    /// Whether the others have looked since the node was registered.
    private let known = Atomic<Bool>(false)
    /// The nodes that are being recovered here.
    private let recovering = Mutex<Set<Int64>>([])
    /// Whether something is stored.
    private let hasRecord = Atomic<Bool>(false)
    private let notifications = Atomic<UInt32>(0)
    private let signal: WakeSignal
    private let changed = Mutex<(@Sendable () -> Void)?>(nil)
    /// Held while it calls back.
    private let calling = Mutex<Void>(())
    private let callingThread = Atomic<UInt>(0)
    /// What others learn of.
    private let reports = Mutex(Reports())

    private struct Times {
        var nextLook = ContinuousClock.now
        var nextRenewal = ContinuousClock.now
        var nextCall = ContinuousClock.now + NodeLoop.longestSilence
        var nextReading = ContinuousClock.now
        var nextComparison = ContinuousClock.now + NodeLoop.reporting
    }

    private struct Reports {
        /// Nil until the store works.
        var log: (@Sendable (LogLevel, String) -> Void)?
        /// When it was reported what keeps a node from being fenced.
        var unfenced: [Int64: ContinuousClock.Instant] = [:]
    }

    init(_ options: PostgresSettings, tick: Duration = .milliseconds(100)) throws(HandlerError) {
        self.options = options
        self.tick = tick
        signal = try WakeSignal()
        var table = try NodeTable(options, isReconnection: false)
        currentNumber = Atomic(try table.register(isSharing: false))
        isCareful = Atomic(try table.hasRecentDeath())
        self.table = Mutex(table)
        records = Mutex(nil)
    }

    var number: Int { currentNumber.load(ordering: .sequentiallyConsistent) }
    /// Whether others have taken the node for dead, and it has not registered again.
    var isFenced: Bool { fenced.load(ordering: .sequentiallyConsistent) }
    /// Whether other nodes have the database open, or had it shortly before, as far as is known; also while a commit is in doubt.
    var hasOtherMachines: Bool { others.load(ordering: .acquiring) || countOfDoubts > 0 }
    /// How often commits came into doubt that a step may see, although they may not be on the standby.
    var countOfDoubts: Int { doubts.load(ordering: .sequentiallyConsistent) }
    /// Whether the other nodes know of this one, and so wait for what it has committed.
    var isKnown: Bool { known.load(ordering: .relaxed) }
    var countOfOthers: UInt32 { notifications.load(ordering: .relaxed) }

    /// Uses the connection, which is opened if there is none.
    private func using<R>(_ body: (inout NodeTable) throws(HandlerError) -> R) throws(HandlerError) -> R {
        var complaints: [(node: Int64, reason: String)] = []
        // Without the lock: what is called may use the store.
        defer { for complaint in complaints { report(complaint.node, complaint.reason) } }
        return try table.withLock { (table) throws(HandlerError) in
            let wasConnected = table != nil
            var current: NodeTable
            if let known = table.take() {
                current = known
            } else {
                current = try NodeTable(options, isReconnection: true)
            }
            do throws(HandlerError) {
                let result = try body(&current)
                complaints = current.takeComplaints()
                table = current
                return result
            } catch {
                complaints = current.takeComplaints()
                // Others see that a node's connection ends, so not for less.
                if error.code != .databaseUnavailable {
                    table = current
                } else if wasConnected {
                    // Before they look twice there is a new one.
                    signal.raise()
                }
                throw error
            }
        }
    }

    // MARK: The own node

    func registerAgain() throws(HandlerError) -> Int {
        try using { (table) throws(HandlerError) in
            known.store(false, ordering: .relaxed)
            let new = try table.register(isSharing: isSharing.load(ordering: .relaxed))
            // While the loop cannot look: it would take its own node for another one.
            currentNumber.store(new, ordering: .sequentiallyConsistent)
            fenced.store(false, ordering: .sequentiallyConsistent)
            return new
        }
    }

    func doubtCommits() { doubts.add(1, ordering: .sequentiallyConsistent) }

    /// Called once a commit waits for the standby that was started after that many doubts.
    func endDoubts(_ count: Int) {
        _ = doubts.compareExchange(expected: count, desired: 0, ordering: .sequentiallyConsistent)
    }

    func withdraw() {
        fenced.store(true, ordering: .sequentiallyConsistent)
        // No node has the number 0, so its steps are refused also where the row cannot be removed.
        let old = currentNumber.exchange(0, ordering: .sequentiallyConsistent)
        table.withLock { table in
            do throws(HandlerError) {
                try table?.remove(old)
            } catch {
                table = nil
            }
        }
    }

    /// Stores what the node runs, after deaths. A failure is ignored: the handler is found at a later kill.
    func record(_ runningCall: RunningCall) {
        if isCareful.load(ordering: .relaxed) { store(runningCall) } else { clearRecord() }
    }

    /// Stores that the node runs nothing: before a step is committed or undone, in which all handlers have returned.
    func clearRecord() {
        if hasRecord.load(ordering: .relaxed) { store(nil) }
    }

    private func store(_ runningCall: RunningCall?) {
        hasRecord.store(runningCall != nil, ordering: .relaxed)
        records.withLock { records in
            do throws(HandlerError) {
                if records == nil { records = try RunningCallRecord(options) }
                try records?.store(runningCall, of: number)
            } catch {
                records = nil
            }
        }
    }

    func stop() {
        isStopping.store(true, ordering: .sequentiallyConsistent)
        signal.raise()
    }

    /// Lets go of the connection, once nothing else uses it: others find the node dead.
    func disconnect() {
        records.withLock { $0 = nil }
        table.withLock { $0 = nil }
    }

    /// Removes the node, once nothing else uses it.
    func leave() {
        records.withLock { $0 = nil }
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

    func share(_ isSharing: Bool) throws(HandlerError) {
        self.isSharing.store(isSharing, ordering: .relaxed)
        try using { (table) throws(HandlerError) in try table.share(isSharing, number) }
    }

    func sharingNodes() throws(HandlerError) -> [Int] {
        try using { (table) throws(HandlerError) in try table.sharingNodes() }
    }

    /// Whether a node may commit, as far as is known: without the database nobody can.
    func isAlive(_ node: Int) -> Bool {
        (try? using { (table) throws(HandlerError) in try table.isAlive(node) }) ?? true
    }

    /// The nodes that this one is to recover.
    func startRecoveries() -> [(node: Int64, runningCall: RunningCall?)] {
        guard mayHaveDead.exchange(false, ordering: .sequentiallyConsistent) else { return [] }
        do throws(HandlerError) {
            return try using { (table) throws(HandlerError) in
                _ = try table.bury(besides: number)
                if !table.suspects.isEmpty {
                    // The second look decides whether they are dead.
                    SystemThread.sleep(microseconds: UInt32(tick.milliseconds * 1000))
                    _ = try table.bury(besides: number)
                }
                // Also where another node recovers them: what runs next may be what they died of.
                if try table.hasRecentDeath() { isCareful.store(true, ordering: .relaxed) }
                var started: [(node: Int64, runningCall: RunningCall?)] = []
                // The row keeps other machines out, and not other threads of this one.
                for next in try table.fenced() where !recovering.withLock({ $0.contains(next.node) }) {
                    guard try table.startRecovery(of: next.node, by: number) else { continue }
                    started.append(next)
                }
                // Only now: what a failure has cut off is started again.
                recovering.withLock { $0.formUnion(started.map(\.node)) }
                return started
            }
        } catch {
            // The loop finds them again.
            return []
        }
    }

    func endRecovery(of node: Int64, isDone: Bool) {
        if !isDone { mayHaveDead.store(true, ordering: .sequentiallyConsistent) }
        defer { recovering.withLock { _ = $0.remove(node) } }
        try? using { (table) throws(HandlerError) in
            if isDone { try table.removeRecovered(node) }
            isCareful.store(true, ordering: .relaxed)
            try table.endRecovery(of: node, by: number)
        }
    }

    // MARK: Reports

    /// Has what it finds be logged from now on, and compares the clocks.
    func report(to log: @escaping @Sendable (LogLevel, String) -> Void) {
        reports.withLock { $0.log = log }
        compareClocks()
    }

    private func compareClocks() {
        guard let complaint = options.clock.complaint(options.name) else { return }
        reports.withLock { $0.log }?(.warning, complaint)
    }

    /// Reports what hinders the fence of a dead node, once a minute.
    private func report(_ node: Int64, _ reason: String) {
        let log = reports.withLock { reports -> (@Sendable (LogLevel, String) -> Void)? in
            let now = ContinuousClock.now
            if let last = reports.unfenced[node], now < last + Self.reporting { return nil }
            reports.unfenced[node] = now
            return reports.log
        }
        log?(
            .error,
            "node \(node) of \(options.name) is dead and cannot be fenced (\(reason)); what it holds is not free until it is"
        )
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
            var (descriptor, wait) = (Int32(-1), tick)
            do throws(HandlerError) {
                let isChanged = try using { (table) throws(HandlerError) in
                    let isChanged = try turn(&table, &times)
                    if ContinuousClock.now >= times.nextReading {
                        descriptor = table.descriptor
                    } else {
                        wait = Self.pause
                    }
                    return isChanged
                }
                if isChanged || ContinuousClock.now >= times.nextCall {
                    times.nextCall = .now + Self.longestSilence
                    callBack()
                }
                if ContinuousClock.now >= times.nextComparison {
                    times.nextComparison = .now + Self.reporting
                    compareClocks()
                }
            } catch {
                // There is no connection, or it fails: what happens meanwhile is found at the next call.
                times.nextCall = .now
            }
            var entries = [PollEntry(signal.fileDescriptor), PollEntry(descriptor)]
            _ = try? PollEntry.wait(&entries, milliseconds: Int32(wait.milliseconds))
        }
    }

    /// - Returns: Whether others have committed.
    private func readNotifications(_ table: inout NodeTable, _ times: inout Times) throws(HandlerError)
        -> Bool
    {
        guard ContinuousClock.now >= times.nextReading else { return false }
        let notified = try table.notifications(besides: number)
        guard notified > 0 else { return false }
        times.nextReading = .now + Self.pause
        notifications.add(UInt32(truncatingIfNeeded: notified), ordering: .relaxed)
        return true
    }

    /// - Returns: Whether others have committed or died.
    private func turn(_ table: inout NodeTable, _ times: inout Times) throws(HandlerError) -> Bool {
        // First: nothing else may keep it from that.
        if !isFenced { try table.hold(number) }
        var isChanged = try readNotifications(&table, &times)
        if ContinuousClock.now >= times.nextRenewal, !isFenced {
            times.nextRenewal = .now + Self.renewal
            if try !table.renew(number) {
                fenced.store(true, ordering: .sequentiallyConsistent)
                isChanged = true
            }
        }
        if ContinuousClock.now >= times.nextLook {
            times.nextLook = .now + tick
            let isCareful = try table.hasRecentDeath()
            self.isCareful.store(isCareful, ordering: .relaxed)
            if !isCareful, !hasRecord.load(ordering: .relaxed) { records.withLock { $0 = nil } }
            if try table.bury(besides: number) {
                mayHaveDead.store(true, ordering: .sequentiallyConsistent)
                isChanged = true
            }
            let hasOthers = table.hasOthers
            // Known before they are gone: what they have committed last may wait for the standby.
            if !hasOthers, others.load(ordering: .relaxed) { doubtCommits() }
            others.store(hasOthers, ordering: .releasing)
            known.store(table.isKnown, ordering: .relaxed)
        }
        if hasNews.exchange(false, ordering: .sequentiallyConsistent) {
            do throws(HandlerError) {
                try table.notify(from: number)
            } catch {
                // Others find it without a notification, within seconds; a queue that is full stays so for longer.
                if error.code == .databaseUnavailable { throw error }
            }
        }
        return isChanged
    }
}
