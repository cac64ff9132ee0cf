public import Handlers
import Synchronization
public import XMPPCore
import XMPPTransport

/// Log of an account: lines with a level and a module, and the XML in both directions.
///
/// ```swift
/// let log = AccountLog(level: .info) { entry in print(entry) }
/// configuration.log = log
/// log.setLevel(.verbose, for: "connection")     // at any time, from any thread
/// log.setTrace(true, for: "session")            // single elements and values, apart from the level
/// log.showsSentXML = true
/// let store = try HandlerStore(path: "app.db", registry: .discovered(), schemas: Account.schemas, log: log.handlers)
/// ```
///
/// The sink is a closure, so any logging library takes its place in one line. For swift-log:
///
/// ```swift
/// AccountLog { entry in logger.log(level: Logger.Level(rawValue: "\(entry.level)") ?? .debug, "\(entry)") }
/// ```
///
/// | Module | About |
/// |---|---|
/// | `connection` | Finding and reaching a server, TLS |
/// | `login` | Proving who the account is |
/// | `session` | The session: started, resumed, suspended, lost |
/// | `handlers` | Handlers that did not finish, stanzas that were not understood |
/// | `store` | The database: opened, migrated, found to be a copy |
/// | `roster` | Contacts, subscriptions and blocked addresses |
/// | `rooms` | Rooms: asked, joined, left, checked |
/// | `archive` | Archives: where the catch-up begins, how far it is, why it waits |
/// | `messages` | Deliveries of messages, and carbon copies |
/// | `disco` | Service discovery |
/// | `push` | Registrations for notifications |
/// | `pubsub` | Nodes: requests, events, preconditions that were not met |
/// | `omemo` | Encryption: devices, bundles, sessions started and repaired, messages that cannot be read |
/// | `upload` | Files on their way to a web server (product `Upload`) |
/// | `xml` | The XML itself, which has its own two switches |
///
/// A program's own modules have names of their own.
///
/// Passwords, tokens, what SASL exchanges and keys are masked before an entry is made: a sink never sees them. One log may
/// serve several accounts.
public final class AccountLog: Sendable {
    /// The subject of an entry, by its name.
    package struct Module: Hashable, Sendable {
        package let name: String
        package init(_ name: String) { self.name = name }

        package static let connection = Module("connection")
        package static let login = Module("login")
        package static let session = Module("session")
        package static let handlers = Module("handlers")
        package static let store = Module("store")
        package static let xml = Module("xml")
    }

    /// Line of the log.
    ///
    /// ```swift
    /// let log = AccountLog { entry in if entry.level >= .warning { print(entry) } }
    /// ```
    public struct Entry: Sendable, CustomStringConvertible {
        /// Level of the entry.
        public let level: LogLevel
        /// Whether it follows single bytes, elements and values: shown by ``AccountLog/setTrace(_:for:)``, whatever the level.
        package let isTrace: Bool
        /// Subject of the entry.
        public let module: String
        /// Account of the entry. Nil for entries of a store, which may serve several accounts.
        public let account: JID?
        /// The message in one line, escaped as by `ForeignText.visible` of `XMPPCore`, whatever a peer sent.
        public let message: String

        /// Level, module, account and message.
        public var description: String {
            "\(isTrace ? "trace" : "\(level)") \(module)\(account.map { " \($0)" } ?? ""): \(message)"
        }
    }

    private struct Settings {
        var level: LogLevel
        var levels: [String: LogLevel] = [:]
        var traces: Set<String> = []
        var showsSent = false
        var showsReceived = false
    }

    private let settings: Mutex<Settings>
    private let sink: @Sendable (Entry) -> Void

    /// Makes a log, which shows no XML yet.
    ///
    /// - Parameters:
    ///   - level: What matters less is left out.
    ///   - sink: Takes the entries, on the account's own threads, so it must not wait for the account.
    public init(level: LogLevel = .info, sink: @escaping @Sendable (Entry) -> Void) {
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
    public func setLevel(_ level: LogLevel?, for module: String) {
        settings.withLock { $0.levels[module] = level }
    }

    /// Switches the trace of a module: single elements and values. It is independent of the level and of other modules.
    ///
    /// - Parameters:
    ///   - isOn: Whether it does.
    ///   - module: Whose entries.
    public func setTrace(_ isOn: Bool, for module: String) {
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
            sink: { entry in self.write(entry.level, Self.module(of: entry.subject), nil, entry.message) })
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
        settings.withLock { level >= $0.levels[module.name] ?? $0.level }
    }

    func traces(_ module: Module) -> Bool { settings.withLock { $0.traces.contains(module.name) } }

    /// Logs XML if it is switched on, regardless of the level.
    package func show(_ xml: String, sent isSent: Bool, _ account: JID) {
        write(.verbose, .xml, account, (isSent ? "sent " : "received ") + xml, isTrace: true)
    }

    func write(
        _ level: LogLevel, _ module: Module, _ account: JID?, _ message: String, isTrace: Bool = false
    ) {
        let line = VisibleText(message).description
        sink(Entry(level: level, isTrace: isTrace, module: module.name, account: account, message: line))
    }
}

extension AccountConfiguration {
    func log(_ level: LogLevel, _ module: AccountLog.Module, _ message: @autoclosure () -> String) {
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
    /// account.log(.info, "weather", "asks for the weather", after: step)
    /// ```
    ///
    /// - Parameters:
    ///   - level: How much it matters.
    ///   - module: What it is about.
    ///   - message: One sentence; made only when it is wanted. What a peer wrote in it is made visible.
    ///   - step: The step that it was decided in.
    public func log(
        _ level: LogLevel, _ module: String, _ message: @autoclosure () -> String, after step: borrowing Step
    ) {
        log(level, AccountLog.Module(module), message(), after: step)
    }

    package func log(
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
    public func trace(_ module: String, _ message: @autoclosure () -> String, after step: borrowing Step) {
        trace(AccountLog.Module(module), message(), after: step)
    }

    package func trace(
        _ module: AccountLog.Module, _ message: @autoclosure () -> String, after step: borrowing Step
    ) {
        guard let log = configuration.log, log.traces(module) else { return }
        let (jid, message) = (configuration.jid, message())
        step.afterCommit { log.write(.verbose, module, jid, message, isTrace: true) }
    }
}

extension AccountLog: TranscriptLog {}
