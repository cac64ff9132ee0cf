public import Handlers
public import XMPPCore

/// A feature of an account: what it makes of the stanzas that arrive, what it asks for when a session begins, what it
/// announces, and what it stores.
///
/// A module is code and configuration, the same in every process; what it knows is in the store. Everything it does
/// happens inside a step, so it commits together with the count of what arrived.
///
/// ```swift
/// struct Attention: AccountModule {
///     static let name = "attention"
///     static let schema: Schema? = Schema(module: "attention", migrations: ["CREATE TABLE called(by TEXT, at INTEGER)"])
///     let features: Set<String> = ["urn:xmpp:attention:0"]
///
///     func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
///         guard message.source == .live, let from = message.message.from,
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
    /// The modules that must be there too and start before this one.
    static var dependencies: [any AccountModule.Type] { get }
    /// Whether it starts before the account's presence makes the server send waiting messages.
    static var startsBeforePresence: Bool { get }
    /// Its tables and its durable handlers; pass them to the store beside `Account.schemas`.
    static var schema: Schema? { get }

    /// The features of this module for service discovery (XEP-0030 section 3.1).
    var features: Set<String> { get }

    /// Returns the features of this module at this moment, if they depend on stored data;
    /// ``features`` unless said otherwise.
    ///
    /// Call ``Account/announceFeatures(in:)`` in the step that changes it.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - step: The step to read in.
    /// - Returns: Namespaces; those of all modules together are what disco says.
    /// - Throws: Any error; the presence then goes without capabilities, and the module that asked is reported as failed.
    func features(of account: Account, in step: borrowing Step) throws -> Set<String>

    /// Forgets what the end of a stream or of a session has made untrue.
    ///
    /// Called in the step that begins the next one, as a killed process could not do it earlier, and again when the
    /// account is logged out. Modules that depend on others are reset before them.
    ///
    /// - Parameters:
    ///   - scope: What has ended.
    ///   - account: The account.
    ///   - step: The step that begins the next one.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws

    /// Sends the module's requests for a new session, or for a new stream. After a resumption nothing need be asked
    /// again.
    ///
    /// - Parameters:
    ///   - scope: What begins.
    ///   - account: The account.
    ///   - step: The step in which it begins.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws

    /// Unwraps a message, such as a carbon copy. The module must check the sender.
    ///
    /// - Parameters:
    ///   - message: The message as it came.
    ///   - account: The account that received it.
    ///   - step: The step that counts it.
    /// - Returns: What is to be gone on with.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func unwrap(_ message: Message, for account: Account, in step: borrowing Step) throws -> UnwrappedMessage

    /// Looks at a message that is no copy of an earlier one.
    ///
    /// - Parameters:
    ///   - message: The message, taken out of what it came in.
    ///   - step: The step that counts it.
    /// - Returns: Whether it was for this module alone: no other module or listener gets it then.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool

    /// Looks at presence.
    ///
    /// - Parameters:
    ///   - presence: The presence.
    ///   - account: The account that received it.
    ///   - step: The step that counts it.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws

    /// Looks at what is left of a stanza that could not be read, and was counted.
    ///
    /// - Parameters:
    ///   - root: The stanza's own name and attributes, without contents.
    ///   - account: The account that received it.
    ///   - step: The step that counts it.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func receive(unreadable root: Element, for account: Account, in step: borrowing Step) throws

    /// Answers a request of another entity.
    ///
    /// - Parameters:
    ///   - request: An IQ of type `get` or `set`.
    ///   - account: The account that was asked.
    ///   - step: The step that counts it; the answer commits with it.
    /// - Returns: The answer; nil when the request is not this module's.
    /// - Throws: Any error; what it did is undone, and the answer is `internal-server-error`.
    func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer?

    /// Learns what the server offers in a new session, before ``start(_:of:in:)``. Not called when the server did not show it.
    ///
    /// - Parameters:
    ///   - features: The namespaces of its stream features (RFC 6120 section 4.3.2).
    ///   - account: The account.
    ///   - step: The step that stores the session.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func receive(offered features: Set<ForeignText>, for account: Account, in step: borrowing Step) throws

    /// Returns whether this account wrote a message of type `groupchat`.
    ///
    /// - Parameters:
    ///   - message: The message as the room sent it.
    ///   - originID: Its origin id (XEP-0359) when this account has sent a message with that id; nil otherwise.
    ///   - account: The account that received it.
    ///   - step: The step that counts the message.
    /// - Returns: True under the account's own nickname, or when the room has not sent that id back yet; nil when this module
    ///   does not know the room.
    /// - Throws: Any error; what it did is undone, ``AccountEvent/moduleFailed(_:_:)`` tells it and the next module is asked.
    func isOwn(
        _ message: Message, originID: ForeignText?, for account: Account, in step: borrowing Step
    ) throws -> Bool?

    /// Handles a deferred message: if the session is lost first, the message must arrive again from its archive or room.
    ///
    /// - Parameters:
    ///   - message: The message, see ``MessageReceived/deferAcknowledgement(in:)``.
    ///   - step: The step of the handler that deferred it.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func messageDeferred(_ message: MessageReceived, in step: borrowing Step) throws

    /// Handles the end of deferrals: every deferred message was acknowledged, or their session is lost.
    ///
    /// - Parameters:
    ///   - isLost: Whether the session is lost, so that the deferred messages must arrive again.
    ///   - account: The account.
    ///   - step: The step that handled the last one, or that gives up the session.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func deferralsEnded(isLost: Bool, of account: Account, in step: borrowing Step) throws

    /// Returns the marks of received messages that this module needs to recognize duplicates.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - step: The step to read in.
    /// - Returns: What the account must not forget yet.
    /// - Throws: Any error; then every mark is kept.
    func neededMarks(of account: Account, in step: borrowing Step) throws -> NeededMarks

    /// Adds to the available presence that the account sends.
    ///
    /// - Parameters:
    ///   - presence: The presence, changed in place.
    ///   - account: The account that sends it.
    ///   - step: The step in which it is sent.
    /// - Throws: Any error; its writes are undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func extend(_ presence: inout Element, of account: Account, in step: borrowing Step) throws

    /// Ends the module in a running session, for ``Account/remove(_:)``: asks the server to end what ``start(_:of:in:)``
    /// asked for. It is reset after that.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - step: The step in which it is removed.
    /// - Throws: Any error; what it did is undone and ``AccountEvent/moduleFailed(_:_:)`` tells it.
    func end(of account: Account, in step: borrowing Step) throws

    /// Stops the module, as the account is closed in this process or the module was removed. Modules that depend on others
    /// are stopped before them.
    ///
    /// - Parameter account: The account.
    func stop(_ account: Account)
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

/// The marks of handled messages that a module needs, so that duplicates of those messages are recognized.
///
/// ```swift
/// let marks = NeededMarks(since: lastMessageAt - .seconds(60))
/// ```
public struct NeededMarks: Hashable, Sendable {
    /// Whether every mark is needed for now.
    public var areAllNeeded: Bool
    /// The marks of every sender from this time on; nil for none.
    public var since: Timestamp?
    /// The marks of single senders by bare address, each from a time on.
    public var senders: [JID: Timestamp]

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

/// Event of a module, sent to the program after the commit; see ``Account/events(of:)``.
///
/// ```swift
/// struct Called: ModuleEvent { let by: JID }
/// account.report(Called(by: juliet), after: step)
/// ```
public protocol ModuleEvent: Sendable {}

extension AccountModule {
    public static var dependencies: [any AccountModule.Type] { [] }
    public static var startsBeforePresence: Bool { false }
    public static var schema: Schema? { nil }
    public var features: Set<String> { [] }
    public func features(of account: Account, in step: borrowing Step) throws -> Set<String> { features }
    public func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {}
    public func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {}
    public func unwrap(
        _ message: Message, for account: Account, in step: borrowing Step
    ) throws -> UnwrappedMessage { .untouched }
    public func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool { false }
    public func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {}
    public func receive(unreadable root: Element, for account: Account, in step: borrowing Step) throws {}
    public func answer(
        _ request: IQ, for account: Account, in step: borrowing Step
    ) throws -> ModuleAnswer? { nil }
    public func receive(offered features: Set<ForeignText>, for account: Account, in step: borrowing Step)
        throws
    {}
    public func isOwn(
        _ message: Message, originID: ForeignText?, for account: Account, in step: borrowing Step
    ) throws -> Bool? { nil }
    public func messageDeferred(_ message: MessageReceived, in step: borrowing Step) throws {}
    public func deferralsEnded(isLost: Bool, of account: Account, in step: borrowing Step) throws {}
    public func neededMarks(of account: Account, in step: borrowing Step) throws -> NeededMarks {
        NeededMarks()
    }
    public func extend(_ presence: inout Element, of account: Account, in step: borrowing Step) throws {}
    public func end(of account: Account, in step: borrowing Step) throws {}
    public func stop(_ account: Account) {}
}

extension Account {
    /// Returns a module of this account.
    ///
    /// - Parameter type: The module; inferred where the context says it.
    /// - Returns: The module as it was configured.
    /// - Throws: ``AccountError`` `missingModule` when it was not configured.
    public func module<Module: AccountModule>(_ type: Module.Type = Module.self) throws -> Module {
        guard let module = modules.first(of: type) else {
            throw AccountError(
                .missingModule,
                "the account \(configuration.jid) has no module '\(type.name)'; add it to configuration.modules in every process"
            )
        }
        return module
    }

    /// Events of a module from now on. Every listener has its own sequence; what an event reports is committed already.
    ///
    /// ```swift
    /// for await change in account.events(of: RosterChange.self) { … }
    /// ```
    ///
    /// It has the limits of ``events`` and no place for ``AccountEvent/dropped(count:)``; a listener that must know of a gap
    /// takes ``AccountEvent/module(_:)`` from ``events``.
    ///
    /// - Parameter type: The type of the events.
    /// - Returns: The module's events; the sequence finishes on ``close()``.
    public func events<Event: ModuleEvent>(of type: Event.Type) -> AsyncStream<Event> {
        hub.listen { if case .module(let event) = $0 { event as? Event } else { nil } }
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
