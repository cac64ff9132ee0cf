public import Handlers
package import IQTracker
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A context that belongs to an account. A call that is made later gets the account of the process that makes it.
///
/// ```swift
/// struct OrderPlaced: AccountContext {
///     let account: Account
///     let order: Int64
///     static var storage: ContextStorage<OrderPlaced> { … }
/// }
/// ```
public protocol AccountContext: RestorableContext {
    /// The account that the handler serves.
    var account: Account { get }
}

extension AccountContext {
    public var environment: (any HandlerEnvironment)? { account }
}

/// The context of a handler that waits for the answer to a request.
///
/// ```swift
/// @Handler("greeter.answered")
/// static func answered(_ call: borrowing Call<IQReply>, name: String) throws {
///     guard case .result = call.outcome, let peer = call.iq.from else { return }
///     try call.account.send(Message(to: peer, body: "Good day, \(name)"), in: call.step)
/// }
/// ```
public struct IQReply: Sendable {
    /// The outcome of the request.
    public enum Outcome: Hashable, Sendable {
        /// The answer's payload, if it has one.
        case result(Element?)
        /// The error that the answer carries.
        case error(StanzaError)
        /// No answer came in time. ``IQReply/iq`` is then an error of our own making.
        case timeout
    }

    /// The account that sent the request.
    public let account: Account
    /// The answer. For a timeout an error `remote-server-timeout` from the address that was asked.
    public let iq: IQ
    /// The outcome of the request.
    public let outcome: Outcome
    /// While it is being delivered.
    var delivery: Deferral?

    /// Returns the context for a request without an answer in time: an error made here, from the requested address.
    package static func timeout(of request: PendingIQTable.Request, account: Account) -> IQReply {
        let peer = request.peer ?? account.address
        let error = StanzaError(.remoteServerTimeout)
        let iq = IQ(type: .error, from: peer, id: request.stanzaID, payload: error.element)
        return IQReply(account: account, iq: iq, outcome: .timeout)
    }
}

extension IQReply: StoredContext, AccountContext {
    private struct Stored: Codable {
        var stanza: String
        /// Whether the stanza is of our own making.
        var isTimeout: Bool
    }

    package func stored() throws -> [UInt8] {
        let stanza = String(decoding: Serializer().bytes(iq.element), as: UTF8.self)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try [UInt8](encoder.encode(Stored(stanza: stanza, isTimeout: outcome == .timeout)))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        let iq = try IQ(element: Element(stored: stored.stanza, defaultNamespace: Namespaces.client))
        self.init(
            account: try Account.serving(environment), iq: iq,
            outcome: stored.isTimeout ? .timeout : Outcome(iq))
    }
}

extension IQReply.Outcome {
    /// Makes the outcome of an answer.
    init(_ iq: IQ) { self = iq.error.map(Self.error) ?? .result(iq.payload) }
}

/// The context of a standing handler that listens to messages.
///
/// ```swift
/// @Handler("echo.received")
/// static func received(_ call: borrowing Call<MessageReceived>) throws {
///     guard !call.isOutgoing, !call.isHistory, let from = call.message.from, let body = call.message.body else { return }
///     try call.account.send(Message(to: from, body: body), in: call.step)
/// }
/// ```
public struct MessageReceived: Sendable {
    /// The way in which a message arrived.
    public enum Source: Hashable, Sendable, Codable {
        /// A message to this client, or to the account.
        case direct
        /// Carbon copy of a message that another client of the account received (XEP-0280).
        case carbonReceived
        /// Carbon copy of a message that another client of the account sent (XEP-0280).
        case carbonSent
        /// Message of an archive (XEP-0313): the archive, the id there, and the time of storing.
        case archive(JID, id: ForeignText, storedAt: Timestamp)

        // The names in stored contexts.
        private enum CodingKeys: String, CodingKey {
            case direct = "live"
            case carbonReceived, carbonSent, archive
        }
    }

    /// The account that received it.
    public let account: Account
    var inbound: InboundMessage
    /// The message, seen for the first time; taken out of what it came in.
    public var message: Message { inbound.message }
    /// The way in which the message arrived.
    public var source: Source { inbound.source }
    /// Whether this account sent it from here: a room, another client's copy or an archive gave it back. Modules see such
    /// messages, listeners do not.
    public var isEcho: Bool { inbound.isEcho }
    /// While it is being delivered.
    var delivery: Deferral? { inbound.delivery }

    package init(account: Account, message: Message, source: Source = .direct) {
        self.init(account: account, InboundMessage(message: message, source: source))
    }

    init(account: Account, _ inbound: InboundMessage) { (self.account, self.inbound) = (account, inbound) }

    /// Whether the account sent it itself: another of its clients, this one in an earlier session, or its own nickname in a
    /// room. A bot does not answer such a message, or it talks to itself.
    public var isOutgoing: Bool {
        if source == .carbonSent || inbound.isFromOwnNickname { return true }
        return message.type != .groupchat && message.from?.bare == own
    }

    /// Whether it comes out of an archive or a room's history.
    ///
    /// It may then be old, and answered by another client or before the store was emptied.
    ///
    /// A message that the server kept while no client was connected (XEP-0160) is not history: this is its first delivery.
    public var isHistory: Bool {
        if case .archive = source { return true }
        return message.type == .groupchat && believedDelay != nil
    }

    /// When it was sent, as far as that is known: it was held up on the way, or stored.
    ///
    /// Only what claims to be the own server's word is believed, or that of the room through which it came, and no time
    /// that has not come. A sender can still forge it where the server takes out nothing (XEP-0203 section 5).
    public var sentAt: Timestamp? {
        let now = account.configuration.time.wall()
        if case .archive(_, _, let storedAt) = source { return min(storedAt, now) }
        return believedDelay?["stamp"].flatMap { Timestamp($0) }.map { min($0, now) }
    }

    private var believedDelay: Element? {
        message.element.children("delay", Namespaces.delay).first { isBelieved($0["from"]) }
    }

    private func isBelieved(_ witness: ForeignText?) -> Bool {
        guard let witness = witness.flatMap({ try? JID(received: $0) }) else { return false }
        if message.type == .groupchat { return witness == message.from?.bare }
        return witness == own || witness == own.domainJID
    }

    /// The account's own bare address when it came.
    private var own: JID { inbound.own ?? account.address }

    /// The archive that keeps it: the own account's, or the room's through which it came.
    package var archive: JID { inbound.archive(of: own) }

    /// The id under which ``archive`` keeps it, if it does.
    package var archiveID: ForeignText? { inbound.archiveID(of: own) }
}

extension MessageReceived: StoredContext, AccountContext {
    /// The stored source and message. The source is apart from the stanza so that no peer can forge it.
    private struct Stored: Codable {
        var source: Source
        var stanza: String
        /// Missing where it is not.
        var isFromOwnNickname: Bool?
        /// The address that the server had assigned; missing where it is the configured one.
        var own: JID?
    }

    package func stored() throws -> [UInt8] {
        let stanza = Serializer().bytes(message.element)
        let assigned = own == account.configuration.jid ? nil : own
        if source == .direct, !inbound.isFromOwnNickname, assigned == nil { return stanza }
        return try [UInt8](
            JSONEncoder().encode(
                Stored(
                    source: source, stanza: String(decoding: stanza, as: UTF8.self),
                    isFromOwnNickname: inbound.isFromOwnNickname ? true : nil, own: assigned)))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        var stored = Stored(source: .direct, stanza: String(decoding: bytes, as: UTF8.self))
        if bytes.first == UInt8(ascii: "{") {
            stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        }
        let element = try Element(stored: stored.stanza, defaultNamespace: Namespaces.client)
        self.init(
            account: try Account.serving(environment), message: try Message(element: element),
            source: stored.source)
        inbound.isFromOwnNickname = stored.isFromOwnNickname ?? false
        inbound.own = stored.own ?? account.configuration.jid
    }

    /// Fingerprint of the message, cheaper than its XML.
    package var fingerprint: UInt64 {
        var digest = StableHash()
        for part in [message.id, message.element["from"], message.body] {
            digest.combine((part ?? "").utf8)
            digest.combine(0xff)
        }
        return digest.value
    }
}

/// The context of a handler that waits for an ack (XEP-0198).
///
/// ```swift
/// @Handler("letters.acknowledged")
/// static func acknowledged(_ call: borrowing Call<StanzaAcknowledged>, letter: Int64) throws {
///     try call.step.execute("UPDATE letter SET sent = 1 WHERE id = ?", letter)
/// }
/// ```
public struct StanzaAcknowledged: Sendable {
    /// The account that sent it.
    public let account: Account
    /// The names under which it was sent.
    public let stanza: AcknowledgedStanza
}

extension StanzaAcknowledged: StoredContext, AccountContext {
    private struct Stored: Codable {
        var id: String?
        var key: String?
    }

    package func stored() throws -> [UInt8] {
        try [UInt8](JSONEncoder().encode(Stored(id: stanza.id?.string, key: stanza.storedKey)))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        self.init(
            account: try Account.serving(environment),
            stanza: AcknowledgedStanza(id: stored.id.map { ForeignText($0) }, storedKey: stored.key))
    }
}

extension Account: HandlerEnvironment {
    /// The name under which handlers are stored that belong to this account.
    public var scope: HandlerScope { HandlerScope("account-\(id)") }

    /// Returns the account of a restored call.
    package static func serving(_ environment: (any HandlerEnvironment)?) throws(HandlerError) -> Account {
        guard let account = environment as? Account else {
            throw HandlerError(
                .missingInstance,
                "a handler was to be called again without the account it was bound in; attach that account to the runner"
            )
        }
        return account
    }
}

extension InvalidationReason {
    /// The server has no stream management, so it never says which stanzas it has taken.
    public static let neverAcknowledged = InvalidationReason(rawValue: "never-acknowledged")
    /// The server does not take a stanza of that size: it was never delivered.
    public static let stanzaTooLarge = InvalidationReason(rawValue: "stanza-too-large")
    /// A new session was bound, and the old one could not have been resumed: the answer will never come.
    public static let bound = InvalidationReason(rawValue: "bound")
}

extension TimerFired {
    /// The account in whose service the timer was bound.
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `missingInstance` when it was scheduled without an account's
    ///   scope.
    package var account: Account { get throws(HandlerError) { try .serving(environment) } }
}

extension Call where Context == TimerFired {
    /// The account in whose service the timer was bound, as in handlers of other contexts.
    ///
    /// ```swift
    /// func run(_ call: borrowing Call<TimerFired>) throws {
    ///     try call.account.send(Message(to: peer, body: "Tea is ready"), in: call.step)
    /// }
    /// ```
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `missingInstance` when it was scheduled without an account's
    ///   scope.
    public var account: Account { get throws(HandlerError) { try context.account } }
}

extension AsyncCall where Context == TimerFired {
    /// The account in whose service the timer was bound.
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `missingInstance` when it was scheduled without an account's
    ///   scope.
    public var account: Account { get throws(HandlerError) { try context.account } }
}

extension Call where Context == Invalidation {
    /// The account in whose service the invalidated handler was bound.
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `missingInstance` when it was invalidated without an account.
    public var account: Account { get throws(HandlerError) { try context.account } }
}

extension AsyncCall where Context == Invalidation {
    /// The account in whose service the invalidated handler was bound.
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `missingInstance` when it was invalidated without an account.
    public var account: Account { get throws(HandlerError) { try context.account } }
}

extension Invalidation {
    /// The account in whose service the handler was bound.
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `missingInstance` when it was invalidated without an account.
    package var account: Account {
        get throws(HandlerError) {
            guard let account = environment as? Account else {
                throw HandlerError(
                    .missingInstance,
                    "the handler '\(handler)' was invalidated without an account; invalidate it through its account"
                )
            }
            return account
        }
    }
}
