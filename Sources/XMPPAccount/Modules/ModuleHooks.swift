public import Handlers
public import XMPPCore

/// The hooks of a module: what the account calls, and what it has to know before.
///
/// A hook runs inside a step. If it throws, its writes are undone, ``AccountEvent/moduleFailed(_:_:)`` reports the error,
/// and the step goes on, unless the hook says otherwise.
///
/// ```swift
/// func register(in hooks: inout ModuleHooks) {
///     hooks.features = ["urn:xmpp:attention:0"]
///     hooks.start = { scope, account, step in
///         guard scope == .session else { return }  // what the server keeps for a session is requested once
///         try account.send(.iq(enable), then: Enabled().durable, in: step)
///     }
/// }
/// ```
public struct ModuleHooks: Sendable {
    // MARK: What the module is

    /// The modules that must be there too and start before this one.
    public var dependencies: [any AccountModule.Type] = []
    /// Whether the module starts before the account's presence makes the server send waiting messages.
    public var startsBeforePresence = false
    /// The tables of the module and its durable handlers. The store must have been opened with them.
    public var schema: Schema?
    /// The features of the module for service discovery (XEP-0030 section 3.1).
    public var features: Set<String> = []

    /// Returns the features at this moment, if they depend on stored data. Replaces ``features``.
    ///
    /// Call ``Account/announceFeatures(in:)`` in the step that changes it. If the hook throws, presence is sent without
    /// capabilities, and the module that requested the features is reported as failed.
    public var currentFeatures:
        (@Sendable (_ account: Account, _ step: borrowing Step) throws -> Set<String>)?

    // MARK: Sessions and streams

    /// Removes what the end of a stream or of a session has made untrue.
    ///
    /// Called in the step that starts the next one, as a killed process could not do it earlier, and again when the
    /// account is logged out. Modules that depend on others are reset before them.
    public var reset:
        (@Sendable (_ ended: ModuleScope, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Receives what the server offers in a new session, before ``start``: the namespaces of its stream features
    /// (RFC 6120 section 4.3.2). Not called if the server did not show them.
    public var receiveOffer:
        (@Sendable (_ offered: Set<ForeignText>, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Sends the module's requests for a new session, or for a new stream. After a resumption nothing need be requested
    /// again.
    public var start:
        (@Sendable (_ scope: ModuleScope, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Adds to the available presence that the account sends.
    public var extendPresence:
        (@Sendable (_ presence: inout Element, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Adds to a message that the account sends, which is none to a whole room.
    package var extendMessage:
        (@Sendable (_ message: inout Element, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Ends the module in a running session, for ``Account/remove(_:)``: requests the end of what ``start`` requested. The
    /// module is reset after that.
    public var end: (@Sendable (_ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Stops the module, when the account closes or the module is removed, which waits for it.
    ///
    /// Modules that depend on others are stopped before them. Runs outside of any step.
    public var stop: (@Sendable (_ account: Account) async -> Void)?

    // MARK: Stanzas

    /// Decides about a received stanza, after the count and before any other module or listener.
    ///
    /// Filters run in the order of the modules. A message is filtered as its author wrote it, taken out of copies and
    /// archives, and only when it is seen for the first time. A stopped stanza is counted and reported as
    /// ``AccountEvent/ignored(_:reason:)``; a request is then answered with `service-unavailable`, and an answer ends its
    /// request as an error. If the filter throws, the stanza passes as it was: a filter that must let nothing pass catches
    /// errors and stops.
    public var filterIncoming:
        (@Sendable (_ stanza: Stanza, _ account: Account, _ step: borrowing Step) throws -> FilteredStanza)?

    /// Decides about a stanza to be sent, before it is stored.
    ///
    /// The program, a module or the account itself sends it.
    ///
    /// Filters run in the reverse order of the modules, so the first one is nearest to the server. The sender of a stopped
    /// stanza gets an ``AccountError`` `stoppedByFilter`; an answer to a request of another entity becomes
    /// `service-unavailable`, as every request is answered (RFC 6120 section 8.2.3). If the filter throws, the stanza is not
    /// sent, and its sender gets the error.
    public var filterOutgoing:
        (@Sendable (_ stanza: Stanza, _ account: Account, _ step: borrowing Step) throws -> FilteredStanza)?

    /// Unwraps a message, such as a carbon copy. The module must check the sender.
    public var unwrap:
        (
            @Sendable (_ message: Message, _ account: Account, _ step: borrowing Step) throws ->
                UnwrappedMessage
        )?

    /// Receives a message that is no duplicate, taken out of what it came in. Returns whether it was for this module alone:
    /// no other module or listener gets it then.
    public var receiveMessage:
        (@Sendable (_ message: MessageReceived, _ step: borrowing Step) throws -> Bool)?

    /// Receives presence.
    public var receivePresence:
        (@Sendable (_ presence: Presence, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Receives the name and the attributes of an unreadable, counted stanza.
    public var receiveUnreadable:
        (@Sendable (_ root: Element, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Answers a request of another entity. Returns nil if the request is not this module's. The answer commits with the
    /// count. If the hook throws, the answer is `internal-server-error`.
    public var answer:
        (@Sendable (_ request: IQ, _ account: Account, _ step: borrowing Step) throws -> ModuleAnswer?)?

    /// Returns whether this account wrote a message of type `groupchat`, as the room sent it.
    ///
    /// The origin id (XEP-0359) is nil unless this account has sent a message with it. True under the account's own
    /// nickname, or when the room has not sent that id back yet; nil when this module does not know the room. If the hook
    /// throws, the next module is asked.
    public var isOwn:
        (
            @Sendable (
                _ message: Message, _ originID: ForeignText?, _ account: Account, _ step: borrowing Step
            ) throws
                -> Bool?
        )?

    // MARK: Deferred messages

    /// Handles a deferred message: if the session is lost first, the message must arrive again from its archive or room.
    /// See ``DeferrableContext/deferAcknowledgement(in:)``.
    public var messageDeferred:
        (@Sendable (_ message: MessageReceived, _ step: borrowing Step) throws -> Void)?

    /// Handles the end of deferrals: every deferred message was acknowledged, or the session is lost, so that the deferred
    /// messages must arrive again.
    public var deferralsEnded:
        (@Sendable (_ isLost: Bool, _ account: Account, _ step: borrowing Step) throws -> Void)?

    /// Returns the marks of received messages that this module needs to recognize duplicates. If the hook throws, every mark
    /// is kept.
    public var neededMarks: (@Sendable (_ account: Account, _ step: borrowing Step) throws -> NeededMarks)?
}
