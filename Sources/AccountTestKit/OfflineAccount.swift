public import Handlers
import IQTracker
public import XMPPAccount
public import XMPPCore

/// An account without server and connection, for tests of your handlers and modules.
///
/// Stanzas that you pass to ``receive(_:)-(String)`` take the same path as those of a server: one step for each, which counts the stanza, matches
/// it and calls handlers, modules and listeners. What they send waits in ``sent``.
///
/// ```swift
/// let offline = try OfflineAccount(store: store)
/// try store.step { step in
///     try offline.account.send(.iq(ping), then: Greeter.answered(name: "Juliet"), in: step)
/// }
/// try offline.receive("<iq type='result' id='\(ping.id)' from='example.org'/>")
/// #expect(try greetings(in: store) == ["Juliet"])
/// await offline.close()
/// ```
///
/// ``/XMPPTestKit/ScriptedServer`` is for tests of connections.
public final class OfflineAccount: Sendable {
    /// The account that handlers are given. Do not connect it.
    public let account: Account
    /// The full address of its session.
    public let jid: JID

    /// The account's store.
    package var store: HandlerStore { account.store }

    /// Makes an account.
    ///
    /// - Parameters:
    ///   - configuration: With the modules to be tested; the server is never contacted.
    ///   - store: A store opened with `Account.schemas` and those of the modules.
    ///   - resource: The resource of its session.
    /// - Throws: As ``/XMPPAccount/Account/init(_:store:)``.
    public init(
        _ configuration: AccountConfiguration, store: HandlerStore, resource: String = "offline"
    ) throws {
        account = try Account(configuration, store: store)
        jid = try JID("\(configuration.jid)/\(resource)")
    }

    /// Makes an account `alice@example.test` without modules.
    ///
    /// - Parameter store: A store opened with `Account.schemas`.
    /// - Throws: As ``/XMPPAccount/Account/init(_:store:)``.
    public convenience init(store: HandlerStore) throws {
        try self.init(AccountConfiguration(jid: JID("alice@example.test"), password: "unused"), store: store)
    }

    /// Closes the account; the store stays open.
    public func close() async { await account.close() }

    // MARK: Stanzas

    /// Receives one stanza, in one committed step.
    ///
    /// - Parameter stanza: A stanza as the server sends it.
    /// - Returns: Events that a connected account would send to its listeners.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails; errors of handlers are handled as in a connected account.
    @discardableResult
    public func receive(_ stanza: Element) throws -> [AccountEvent] {
        try store.step { step in try receive(stanza, in: step) }
    }

    /// Receives one stanza in a step of yours: several then share one commit, as in a connected account.
    ///
    /// - Parameters:
    ///   - stanza: A stanza as the server sends it.
    ///   - step: The step that it commits with.
    /// - Returns: Events that a connected account would send to its listeners after the commit.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func receive(_ stanza: Element, in step: borrowing Step) throws -> [AccountEvent] {
        let own = try account.fullAddress(in: step) ?? jid
        var inbound = account.inboundStep(
            own: own, session: 1, flushMark: 0, now: .zero, management: StreamManagement())
        _ = try inbound.process(.element(stanza), in: step)
        return inbound.events
    }

    /// Receives one stanza, in one committed step.
    ///
    /// - Parameter xml: A stanza; its namespace is `jabber:client` unless it says another one.
    /// - Returns: Events that a connected account would send to its listeners.
    /// - Throws: ``/XMPPCore/StreamParserError`` for text that is no element; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func receive(_ xml: String) throws -> [AccountEvent] { try receive(Self.element(xml)) }

    /// Receives one stanza in a process that is killed before the commit: everything is undone.
    ///
    /// - Parameter xml: A stanza; its namespace is `jabber:client` unless it says another one.
    /// - Throws: As ``receive(_:)-(String)``.
    package func receiveAndDie(_ xml: String) throws {
        struct Killed: Error {}
        let element = try Self.element(xml)
        do {
            try store.step { step in
                _ = try receive(element, in: step)
                throw Killed()
            }
        } catch is Killed {}
    }

    private static func element(_ xml: String) throws -> Element {
        try Element(parsing: xml, defaultNamespace: Namespaces.client)
    }

    /// Stanzas that wait to be sent, oldest first.
    public var sent: [Element] {
        get throws {
            try store.step { step in
                try step.all("SELECT xml FROM outbox WHERE account = ? ORDER BY seq", account.id) {
                    $0.blob(0)
                }
            }.map {
                try Element(stored: String(decoding: $0, as: UTF8.self), defaultNamespace: Namespaces.client)
            }
        }
    }

    // MARK: Requests

    /// Lets a request time out.
    ///
    /// - Parameter id: The id of the request's stanza.
    /// - Returns: False when no such request waits.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func expire(requestID id: String) throws -> Bool {
        try claim(id) { request, step in
            try step.endAlone(
                HandlerID(of: request.handler), .timeout, with: IQReply.timeout(of: request, account: account)
            )
        }
    }

    /// Invalidates the handler of a request, as when its session is lost.
    ///
    /// - Parameters:
    ///   - id: The id of the request's stanza.
    ///   - reason: Why it can never be answered.
    /// - Returns: False when no such request waits.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func invalidate(requestID id: String, reason: InvalidationReason = .sessionLost) throws -> Bool {
        try claim(id) { request, step in
            try step.invalidateAlone(request.handler, reason: reason, environment: account)
        }
    }

    private func claim(
        _ id: String, _ body: (PendingIQTable.Request, borrowing Step) throws -> Void
    ) throws -> Bool {
        try store.step { step in
            let requests = PendingIQTable(account: account.id)
            guard let request = try requests.claim(id: ForeignText(id), in: step) else { return false }
            try body(request, step)
            return true
        }
    }
}
