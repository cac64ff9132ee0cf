/// Log of a store and its handlers: quarantined and parked handlers, leases freed after a process died, copied
/// databases.
///
/// ```swift
/// let store = try HandlerStore(
///     path: "app.db", registry: .discovered(), log: HandlerLog { entry in print(entry.level, entry.message) })
/// ```
///
/// A program with an account gives the store its account's log, `AccountLog.handlers`, so that there is one log with one set of
/// levels.
public struct HandlerLog: Sendable {
    /// Subject of an entry.
    ///
    /// ```swift
    /// let log = HandlerLog { entry in if entry.subject == .store { print(entry.message) } }
    /// ```
    public enum Subject: String, Hashable, Sendable, CaseIterable {
        /// The database: opened, migrated, found to be a copy.
        case store
        /// Handlers: quarantined, parked, freed, called again.
        case handlers
    }

    /// An entry of the log.
    ///
    /// ```swift
    /// let log = HandlerLog { entry in if entry.level >= .warning { print(entry.message) } }
    /// ```
    public struct Entry: Hashable, Sendable {
        /// Level of the entry.
        public let level: LogLevel
        /// Subject of the entry.
        public let subject: Subject
        /// The message. It may hold text of a peer, so escape it before it reaches a terminal.
        public let message: String
    }

    private let isWanted: @Sendable (LogLevel, Subject) -> Bool
    private let sink: @Sendable (Entry) -> Void

    /// Makes a log.
    ///
    /// - Parameters:
    ///   - isWanted: Whether entries of that level and subject are wanted, asked before one is made; all are where nothing is
    ///     said.
    ///   - sink: Takes the entries, on whatever thread commits; it must not use the store.
    public init(
        isWanted: @escaping @Sendable (LogLevel, Subject) -> Bool = { _, _ in true },
        sink: @escaping @Sendable (Entry) -> Void
    ) {
        (self.isWanted, self.sink) = (isWanted, sink)
    }

    func write(_ level: LogLevel, _ subject: Subject, _ message: () -> String) {
        guard isWanted(level, subject) else { return }
        sink(Entry(level: level, subject: subject, message: message()))
    }
}

/// Level of a log entry.
///
/// ```swift
/// if entry.level >= .warning { print(entry) }
/// ```
public enum LogLevel: Hashable, Sendable, Comparable, CaseIterable {
    /// Attempts and their reasons.
    case verbose
    /// Decisions: connected, resumed, suspended, called again.
    case info
    /// An error after which the program continues.
    case warning
    /// Something ended for good: an account stopped, a handler failed.
    case error
}

extension Transaction {
    /// Writes to the log once the step is committed; made only when it is wanted.
    func log(_ level: LogLevel, _ subject: HandlerLog.Subject, _ message: @escaping () -> String) {
        guard let log else { return }
        afterCommit.append { log.write(level, subject, message) }
    }
}

extension HandlerCalls {
    /// Logs how a call that did not finish goes on.
    func log(_ unfinished: UnfinishedCall, _ handler: StoredHandler) {
        guard transaction.log != nil else { return }
        let name = handler.id.map { "'\(handler.name)' (\($0))" } ?? "'\(handler.name)'"
        let runs = unfinished.runs
        switch unfinished.disposition {
        case .ended: break
        case .queued: log(.verbose, .handlers) { "\(name) waits for a runner" }
        case .retrying(let time, let reason):
            log(.info, .handlers) { "\(name) failed in run \(runs), again at \(time): \(reason)" }
        case .parked(let reason): log(.warning, .handlers) { "\(name) is parked: \(reason)" }
        case .quarantined(let reason):
            log(.error, .handlers) { "\(name) is in quarantine after \(runs) runs: \(reason)" }
        case .failed(let reason):
            log(.error, .handlers) { "\(name) failed for good, its invalidation runs: \(reason)" }
        }
    }
}
