import Handlers
import Platform
import Synchronization

/// Watch of the other nodes of a store, on a connection and a thread of its own.
final class NodeWatch: ProcessWatch {
    private let stop: WatchStop
    private let thread: SystemThread

    /// - Parameters:
    ///   - node: The node that watches.
    ///   - count: Called for each notification of another node.
    ///   - changed: Called after another node has committed or died, and now and then without a sign.
    init(
        _ options: PostgresSettings, node: Int, count: @escaping @Sendable () -> Void,
        _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) {
        let stop = try WatchStop()
        let loop = NodeWatchLoop(options, node: node, stop: stop, count: count, changed)
        // From here on nothing is missed.
        try loop.listen()
        self.stop = stop
        do throws(Errno) {
            thread = try SystemThread("node-watch", blocksSignals: true) { loop.run() }
        } catch {
            throw HandlerError(
                .resourcesExhausted,
                "no thread could be started (\(error)); raise the process's limit of threads")
        }
    }

    deinit { cancel() }

    func cancel() {
        stop.raise()
        thread.join()
    }
}

/// The request to end a ``NodeWatchLoop``.
final class WatchStop: Sendable {
    private let isSet = Atomic<Bool>(false)
    private let signal: WakeSignal

    init() throws(HandlerError) { signal = try WakeSignal() }

    var isRaised: Bool { isSet.load(ordering: .sequentiallyConsistent) }

    func raise() {
        isSet.store(true, ordering: .sequentiallyConsistent)
        signal.raise()
    }

    /// Waits until it is raised or a descriptor can be read.
    func wait(for descriptor: Int32, milliseconds: Int32) {
        var entries = [PollEntry(signal.fileDescriptor), PollEntry(descriptor)]
        _ = try? PollEntry.wait(&entries, milliseconds: milliseconds)
    }
}

/// The loop of a ``NodeWatch``.
///
/// Notifications only hurry it: a look every few seconds finds what a lost one would have told.
///
/// `@unchecked Sendable`: made on one thread, and used by the one of the watch from then on.
private final class NodeWatchLoop: @unchecked Sendable {
    /// How often it looks for nodes that died, in milliseconds.
    private static let tick: Int32 = 100
    /// After how many looks it calls back without a sign.
    private static let longestSilence = 50

    private let options: PostgresSettings
    private let node: Int
    private let stop: WatchStop
    private let count: @Sendable () -> Void
    private let changed: @Sendable () -> Void
    /// Nil while there is no connection.
    private var connection: PostgresConnection?

    init(
        _ options: PostgresSettings, node: Int, stop: WatchStop, count: @escaping @Sendable () -> Void,
        _ changed: @escaping @Sendable () -> Void
    ) {
        (self.options, self.node, self.stop) = (options, node, stop)
        (self.count, self.changed) = (count, changed)
    }

    func listen() throws(HandlerError) {
        let connection = PostgresConnection(options, isReader: false)
        try connection.executeOnce("LISTEN \(PostgresNodes.channel)")
        self.connection = connection
    }

    func run() {
        var silence = 0
        while !stop.isRaised {
            do throws(HandlerError) {
                guard let connection else {
                    // What happened meanwhile was told to nobody.
                    try listen()
                    changed()
                    continue
                }
                stop.wait(for: connection.descriptor, milliseconds: Self.tick)
                if stop.isRaised { return }
                silence += 1
                let isNotified = try takeNotifications(connection)
                let isAnyDead = isNotified ? true : try hasDead(connection)
                guard isAnyDead || silence >= Self.longestSilence else { continue }
                silence = 0
                changed()
            } catch {
                connection = nil
                stop.wait(for: -1, milliseconds: Self.tick)
            }
        }
    }

    private func takeNotifications(_ connection: PostgresConnection) throws(HandlerError) -> Bool {
        let others = try connection.takeNotifications().filter { $0 != "\(node)" }
        for _ in others { count() }
        return !others.isEmpty
    }

    /// Whether a node is there whose lock nobody holds.
    private func hasDead(_ connection: PostgresConnection) throws(HandlerError) -> Bool {
        try connection.firstOnce(
            """
            SELECT 1 FROM node WHERE id <> ? AND NOT EXISTS (
                SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND classid::bigint << 32 | objid::bigint = ? | node.id)
            """, [node, PostgresNodes.lockBase]
        ) { _ in true } ?? false
    }
}
