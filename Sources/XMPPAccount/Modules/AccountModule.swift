public import Handlers
public import XMPPCore

/// A feature of an account: what it makes of the stanzas that arrive, what it asks for when a session begins, what it
/// announces, and what it stores.
///
/// A module is code and configuration, the same in every process; what it knows is in the store. Everything it
/// stores happens inside a step, so it commits together with the count of what arrived.
///
/// ```swift
/// struct Attention: AccountModule {
///     static let name = "attention"
///     static let schema = Schema(module: "attention", migrations: ["CREATE TABLE called(by TEXT, at INTEGER)"])
///
///     func register(in hooks: inout ModuleHooks) {
///         hooks.schema = Self.schema
///         hooks.features = ["urn:xmpp:attention:0"]
///         hooks.receiveMessage = receive
///     }
///
///     private func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
///         guard message.source == .direct, let from = message.message.from,
///             message.message.element.child("attention", "urn:xmpp:attention:0") != nil
///         else { return false }
///         try step.execute("INSERT INTO called(by, at) VALUES (?, ?)", from.bare.description, step.now)
///         return true
///     }
/// }
/// configuration.modules = .standard + [Attention()]
/// ```
public protocol AccountModule: Sendable {
    /// The module's name; unique in an account, stored, and never changed.
    static var name: String { get }

    /// Registers what the module does. Called once, when an account gets the module.
    ///
    /// - Parameter hooks: The hooks of this module, changed in place. Those that stay unset do nothing.
    func register(in hooks: inout ModuleHooks)
}

/// A module of this library: programs make it and name its type, and only the account installs it.
package protocol LibraryModule: AccountModule {
    /// ``AccountModule/name``.
    static var moduleName: String { get }
    /// As ``AccountModule/register(in:)``.
    func install(in hooks: inout ModuleHooks)
}

extension LibraryModule {
    public static var name: String { moduleName }
    public func register(in hooks: inout ModuleHooks) { install(in: &hooks) }
}

/// The scope that has ended or starts.
///
/// ```swift
/// func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
///     guard scope == .session else { return }  // what the server keeps for a session is asked for once
///     try account.send(.iq(IQ(type: .set, id: StanzaID.random(), payload: enable)), then: Enabled().durable, in: step)
/// }
/// ```
public enum ModuleScope: Hashable, Sendable {
    /// A stream: the session goes on over another connection.
    case stream
    /// A session, and its last stream with it.
    case session
}

/// The result of unwrapping a message that may carry another one.
///
/// ```swift
/// func unwrapped(_ message: Message, inner: Message, id: ForeignText) -> UnwrappedMessage {
///     guard message.from == archive, let time = inner.delay else { return .refused("not from the archive") }
///     return .message(inner, .archive(archive, id: id, storedAt: time))
/// }
/// ```
public enum UnwrappedMessage: Sendable {
    /// It carries none that this module knows of.
    case untouched
    /// The message inside.
    case message(Message, MessageReceived.Source)
    /// It was for the module alone.
    case taken
    /// The sender is not allowed to send it; nothing was changed.
    case refused(String)
}

/// A module's answer to a request.
///
/// ```swift
/// let answer: ModuleAnswer = request.type == .get ? .result(time) : .error(StanzaError(.notAllowed))
/// ```
public enum ModuleAnswer: Sendable {
    /// Success, with what the result carries; nil for nothing.
    case result(Element?)
    /// Failure, and why.
    case error(StanzaError)
}

/// Marks of handled messages that a module needs to recognize duplicates.
///
/// ```swift
/// let marks = NeededMarks(since: lastMessageAt - .seconds(60))
/// ```
public struct NeededMarks: Hashable, Sendable {
    /// Whether every mark is needed for now.
    package var areAllNeeded: Bool
    /// The marks of every sender from this time on; nil for none.
    package var since: Timestamp?
    /// The marks of single senders by bare address, each from a time on.
    package var senders: [JID: Timestamp]

    /// Makes a value; by default no mark is needed.
    ///
    /// - Parameters:
    ///   - areAllNeeded: Whether every mark is needed for now.
    ///   - since: The marks of every sender from this time on; nil for none.
    ///   - senders: The marks of single senders by bare address, each from a time on.
    public init(areAllNeeded: Bool = false, since: Timestamp? = nil, senders: [JID: Timestamp] = [:]) {
        self.areAllNeeded = areAllNeeded
        self.since = since
        self.senders = senders
    }

    mutating func add(_ other: NeededMarks) {
        areAllNeeded = areAllNeeded || other.areAllNeeded
        since = [since, other.since].compactMap { $0 }.min()
        senders.merge(other.senders, uniquingKeysWith: min)
    }
}

/// Event of a module, sent to the program after the commit. See ``Account/events(of:dropped:)``.
///
/// ```swift
/// struct Called: ModuleEvent { let by: JID }
/// account.report(Called(by: juliet), after: step)
/// ```
public protocol ModuleEvent: Sendable {}

extension Account {
    /// Returns a module of this account.
    ///
    /// - Parameter type: The module; inferred where the context says it.
    /// - Returns: The module as it was configured.
    /// - Throws: ``AccountError`` `missingModule` when it was not configured.
    public func module<Module: AccountModule>(_ type: Module.Type = Module.self) throws -> Module {
        guard let module = modules.first(of: type) else { throw missing(type) }
        return module
    }

    func missing(_ type: any AccountModule.Type) -> AccountError {
        AccountError(
            .missingModule,
            "the account \(configuration.jid) has no module '\(type.name)'; add it to configuration.modules in every process"
        )
    }

    /// Events of a module from now on. Every listener has its own sequence; what an event reports is committed already.
    ///
    /// ```swift
    /// for await change in account.events(of: RosterChange.self) { … }
    /// ```
    ///
    /// It has the limits of ``events``.
    ///
    /// - Parameters:
    ///   - type: The type of the events.
    ///   - dropped: Called with the number of dropped events before the sequence continues after them.
    /// - Returns: The module's events; the sequence finishes on ``close()``.
    public func events<Event: ModuleEvent>(
        of type: Event.Type, dropped: @escaping @Sendable (_ count: Int) -> Void = { _ in }
    ) -> AsyncStream<Event> {
        hub.listen(
            gap: { count in
                dropped(count)
                return nil
            }, { if case .module(let event) = $0 { event as? Event } else { nil } })
    }

    /// Reports an event to listeners after this step has committed.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - step: The step; a kill between its commit and the telling leaves it untold, so it may only repeat what is
    ///     stored.
    public func report(_ event: any ModuleEvent, after step: borrowing Step) {
        let hub = hub
        step.afterCommit { hub.send(.module(event)) }
    }

    /// Reports an event to listeners at once, outside of any step, such as the progress of a transfer.
    package func report(_ event: any ModuleEvent) { hub.send(.module(event)) }
}
