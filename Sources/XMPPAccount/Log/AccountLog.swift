public import Handlers
import Synchronization
public import XMPPCore
import XMPPTransport

/// Log of an account: lines with a level and a module, and the XML in both directions.
///
/// ```swift
/// let log = AccountLog(level: .info) { entry in print(entry) }
/// configuration.log = log
/// log.setLevel(.verbose, for: .connection)     // at any time, from any thread
/// log.setTrace(true, for: .session)            // single elements and values, apart from the level
/// log.showsSentXML = true
/// let store = try HandlerStore(path: "app.db", registry: .discovered(), schemas: Account.schemas, log: log.handlers)
/// ```
///
/// The sink is a closure, so any logging library takes its place in one line. For swift-log:
///
/// ```swift
/// AccountLog { entry in logger.log(level: Logger.Level(rawValue: entry.level.name) ?? .debug, "\(entry)") }
/// ```
///
/// Passwords, tokens, what SASL exchanges and keys are masked before an entry is made: a sink never sees them. One log may
/// serve several accounts.
public final class AccountLog: Sendable {
    /// The module of an entry. Open: later versions may add modules.
    ///
    /// ```swift
    /// log.setLevel(.warning, for: .roster)
    /// log.setTrace(true, for: .session)
    /// ```
    public struct Module: Hashable, Sendable, CustomStringConvertible {
        /// The name in lower case.
        public let description: String

        /// Names a module, of a program's own too.
        ///
        /// - Parameter description: The name in lower case.
        public init(description: String) { self.description = description }

        /// Finding and reaching a server, TLS.
        public static let connection = Module(description: "connection")
        /// Proving who the account is.
        public static let login = Module(description: "login")
        /// The session: started, resumed, suspended, lost.
        public static let session = Module(description: "session")
        /// Handlers that did not finish, stanzas that were not understood.
        public static let handlers = Module(description: "handlers")
        /// The database: opened, migrated, found to be a copy.
        public static let store = Module(description: "store")
        /// Contacts, subscriptions and blocked addresses.
        public static let roster = Module(description: "roster")
        /// Rooms: asked, joined, left, checked.
        public static let rooms = Module(description: "rooms")
        /// Archives: where the catch-up begins, how far it is, why it waits.
        public static let archive = Module(description: "archive")
        /// Deliveries of messages, and carbon copies.
        public static let messages = Module(description: "messages")
        /// Service discovery.
        public static let disco = Module(description: "disco")
        /// Registrations for notifications.
        public static let push = Module(description: "push")
        /// Nodes: requests, events, preconditions that were not met.
        public static let pubsub = Module(description: "pubsub")
        /// Encryption: devices, bundles, sessions started and repaired, messages that cannot be read.
        public static let omemo = Module(description: "omemo")
        /// Files on their way to a web server (product `Upload`).
        public static let upload = Module(description: "upload")
        /// The XML itself, which has its own two switches.
        public static let xml = Module(description: "xml")
    }

    /// One line.
    ///
    /// ```swift
    /// let log = AccountLog { entry in if entry.level >= .warning { print(entry) } }
    /// ```
    public struct Entry: Sendable, CustomStringConvertible {
        /// Level of the entry.
        public let level: LogLevel
        /// Whether it follows single bytes, elements and values: shown by ``AccountLog/setTrace(_:for:)``, whatever the level.
        public let isTrace: Bool
        /// Subject of the entry.
        public let module: Module
        /// Account of the entry; nil for entries of a store, which may serve several accounts.
        public let account: JID?
        /// The message in one line, escaped by ``/XMPPCore/VisibleText``, whatever a peer sent.
        public let message: String

        /// Level, module, account and message.
        public var description: String {
            "\(isTrace ? "trace" : level.name) \(module)\(account.map { " \($0)" } ?? ""): \(message)"
        }
    }

    /// Takes an entry. It is called on the account's own threads, so it must not wait for the account.
    public typealias Sink = @Sendable (Entry) -> Void

    private struct Settings {
        var level: LogLevel
        var levels: [Module: LogLevel] = [:]
        var traces: Set<Module> = []
        var showsSent = false
        var showsReceived = false
    }

    private let settings: Mutex<Settings>
    private let sink: Sink

    /// Makes a log, which shows no XML yet.
    ///
    /// - Parameters:
    ///   - level: What matters less is left out.
    ///   - sink: Takes the entries.
    public init(level: LogLevel = .info, sink: @escaping Sink) {
        settings = Mutex(Settings(level: level))
        self.sink = sink
    }

    /// The lowest level that is logged, for modules without a level of their own.
    public var level: LogLevel {
        get { settings.withLock { $0.level } }
        set { settings.withLock { $0.level = newValue } }
    }

    /// Gives a module its own level; nil takes it away again.
    ///
    /// - Parameters:
    ///   - level: What matters less is left out; nil for ``level``.
    ///   - module: Whose entries.
    public func setLevel(_ level: LogLevel?, for module: Module) {
        settings.withLock { $0.levels[module] = level }
    }

    /// Switches the trace of a module: single elements and values. It is independent of the level and of other modules.
    ///
    /// - Parameters:
    ///   - isOn: Whether it does.
    ///   - module: Whose entries.
    public func setTrace(_ isOn: Bool, for module: Module) {
        settings.withLock { settings in
            if isOn { settings.traces.insert(module) } else { settings.traces.remove(module) }
        }
    }

    /// Log of a store and its handlers, for ``/Handlers/HandlerStore``.
    ///
    /// ```swift
    /// let store = try HandlerStore(
    ///     path: "app.db", registry: .discovered(), schemas: Account.schemas, log: log.handlers)
    /// ```
    public var handlers: HandlerLog {
        HandlerLog(
            isWanted: { level, subject in self.shows(level, Self.module(of: subject)) },
            sink: { entry in
                self.write(entry.level, Self.module(of: entry.subject), nil, entry.message)
            })
    }

    private static func module(of subject: HandlerLog.Subject) -> Module {
        subject == .store ? .store : .handlers
    }

    /// Whether what the account sends is shown.
    public var showsSentXML: Bool {
        get { settings.withLock { $0.showsSent } }
        set { settings.withLock { $0.showsSent = newValue } }
    }

    /// Whether what the account receives is shown.
    public var showsReceivedXML: Bool {
        get { settings.withLock { $0.showsReceived } }
        set { settings.withLock { $0.showsReceived = newValue } }
    }

    // MARK: Writing

    func shows(_ level: LogLevel, _ module: Module) -> Bool {
        settings.withLock { level >= $0.levels[module] ?? $0.level }
    }

    func traces(_ module: Module) -> Bool { settings.withLock { $0.traces.contains(module) } }

    /// Logs XML if it is switched on, regardless of the level.
    package func show(_ xml: String, sent isSent: Bool, _ account: JID) {
        write(.verbose, .xml, account, (isSent ? "sent " : "received ") + xml, isTrace: true)
    }

    func write(
        _ level: LogLevel, _ module: Module, _ account: JID?, _ message: String, isTrace: Bool = false
    ) {
        let line = VisibleText(message).description
        sink(Entry(level: level, isTrace: isTrace, module: module, account: account, message: line))
    }
}

extension AccountConfiguration {
    func log(
        _ level: LogLevel, _ module: AccountLog.Module, _ message: @autoclosure () -> String
    ) {
        guard let log, log.shows(level, module) else { return }
        log.write(level, module, jid, message())
    }

    func trace(_ module: AccountLog.Module, _ message: @autoclosure () -> String) {
        guard let log, log.traces(module) else { return }
        log.write(.verbose, module, jid, message(), isTrace: true)
    }
}

extension Account {
    /// Writes to the log after the step has committed.
    ///
    /// ```swift
    /// account.log(.info, .roster, "asks for the roster", after: step)
    /// ```
    ///
    /// - Parameters:
    ///   - level: How much it matters.
    ///   - module: What it is about.
    ///   - message: One sentence; made only when it is wanted. What a peer wrote in it is made visible.
    ///   - step: The step that it was decided in.
    public func log(
        _ level: LogLevel, _ module: AccountLog.Module, _ message: @autoclosure () -> String,
        after step: borrowing Step
    ) {
        guard let log = configuration.log, log.shows(level, module) else { return }
        let (jid, message) = (configuration.jid, message())
        step.afterCommit { log.write(level, module, jid, message) }
    }

    /// Writes an element or value to the log after the step has committed; see ``AccountLog/setTrace(_:for:)``.
    ///
    /// - Parameters:
    ///   - module: What it is about.
    ///   - message: What to show; made only when it is wanted.
    ///   - step: The step that it belongs to.
    public func trace(
        _ module: AccountLog.Module, _ message: @autoclosure () -> String, after step: borrowing Step
    ) {
        guard let log = configuration.log, log.traces(module) else { return }
        let (jid, message) = (configuration.jid, message())
        step.afterCommit { log.write(.verbose, module, jid, message, isTrace: true) }
    }
}

extension AccountLog: TranscriptLog {}
