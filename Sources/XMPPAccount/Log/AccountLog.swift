import Synchronization
public import XMPPCore

/// Where an account tells what it does: lines with a level and a module, and the XML in both directions.
///
/// ```swift
/// let log = AccountLog(level: .info) { entry in print(entry) }
/// configuration.log = log
/// log.setLevel(.verbose, for: .connection)     // at any time, from any thread
/// log.showsSentXML = true
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
    /// How much it matters.
    ///
    /// ```swift
    /// let log = AccountLog(level: .verbose) { print($0) }
    /// ```
    public enum Level: Int, Hashable, Sendable, Comparable, CaseIterable {
        /// Single bytes and elements.
        case trace
        /// What was tried and why.
        case verbose
        /// What was decided: connected, resumed, suspended, set aside.
        case info
        /// Something is wrong, and the account goes on.
        case warning
        /// The account stopped.
        case error

        /// The level in lower case.
        public var name: String { "\(self)" }

        public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    /// What an entry is about. Open: later versions may add modules.
    ///
    /// ```swift
    /// log.setLevel(.trace, for: .session)
    /// ```
    public struct Module: Hashable, Sendable, CustomStringConvertible {
        /// The name in lower case.
        public let description: String
        /// Finding and reaching a server, TLS.
        public static let connection = Module(description: "connection")
        /// Proving who the account is.
        public static let login = Module(description: "login")
        /// The session: begun, resumed, suspended, lost.
        public static let session = Module(description: "session")
        /// Handlers that were set aside, stanzas that were not understood.
        public static let handlers = Module(description: "handlers")
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
        /// How much it matters.
        public let level: Level
        /// What it is about.
        public let module: Module
        /// Whose it is.
        public let account: JID
        /// What happened; one line, made visible by ``/XMPPCore/VisibleText``, whatever a peer sent.
        public let message: String

        /// Level, module, account and message.
        public var description: String { "\(level.name) \(module) \(account): \(message)" }
    }

    /// Takes an entry. It is called on the account's own threads, so it must not wait for the account.
    public typealias Sink = @Sendable (Entry) -> Void

    private struct Settings {
        var level: Level
        var levels: [Module: Level] = [:]
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
    public init(level: Level = .info, sink: @escaping Sink) {
        settings = Mutex(Settings(level: level))
        self.sink = sink
    }

    /// What matters less is left out, in modules without a level of their own.
    public var level: Level {
        get { settings.withLock { $0.level } }
        set { settings.withLock { $0.level = newValue } }
    }

    /// Gives a module its own level; nil takes it away again.
    ///
    /// - Parameters:
    ///   - level: What matters less is left out; nil for ``level``.
    ///   - module: Whose entries.
    public func setLevel(_ level: Level?, for module: Module) {
        settings.withLock { $0.levels[module] = level }
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

    func note(_ level: Level, _ module: Module, _ account: JID, _ message: () -> String) {
        guard settings.withLock({ level >= $0.levels[module] ?? $0.level }) else { return }
        write(level, module, account, message())
    }

    /// The XML is shown by its switch, whatever the level.
    func show(_ xml: String, sent isSent: Bool, _ account: JID) {
        write(.trace, .xml, account, (isSent ? "sent " : "received ") + xml)
    }

    private func write(_ level: Level, _ module: Module, _ account: JID, _ message: String) {
        let line = VisibleText(message).description
        sink(Entry(level: level, module: module, account: account, message: line))
    }
}

extension AccountConfiguration {
    package func note(
        _ level: AccountLog.Level, _ module: AccountLog.Module, _ message: @autoclosure () -> String
    ) {
        log?.note(level, module, jid, message)
    }
}
