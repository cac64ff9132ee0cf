public import Handlers
public import XMPPAccount
public import XMPPCore

/// Visiting cards of others and the own one, read from servers.
///
/// ```swift
/// let card = try await account.vcards.fetch(of: juliet)
/// try await account.vcards.fetch(of: juliet, then: Contacts.cardFetched().durable)
/// ```
public struct VCards: Sendable {
    /// The account in whose name it asks.
    public let account: Account

    static let schema = Schema(module: "xmpp-vcard", migrations: [], handlers: [VCardFetched.self])

    init(_ account: Account) { self.account = account }

    /// Asks for somebody's card and waits for it here.
    ///
    /// - Parameters:
    ///   - jid: Whose: a user's bare address, of which a resource is left out, or a service's; nil for the own one. An
    ///     occupant of a room is asked under the full address, see `exactly`.
    ///   - exactly: Whether to ask the address as it is, with its resource.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: The card; nil when there is none.
    /// - Throws: `StanzaError` when the server refuses; otherwise what ``/XMPPAccount/Account/request(_:timeout:)`` throws.
    ///
    /// Source: XEP-0054 section 3.
    public func fetch(of jid: JID?, exactly: Bool = false, timeout: Duration? = nil) async throws -> VCard? {
        do {
            let answer = try await account.request(Self.request(jid, exactly), timeout: timeout)
            return VCardFetch.card(in: answer.payload)
        } catch let error as StanzaError where VCardFetch.isNone(error, of: jid) {
            return nil
        }
    }

    /// Asks for somebody's card; the answer calls a stored handler.
    ///
    /// - Parameters:
    ///   - jid: Whose; nil for the own one.
    ///   - exactly: Whether to ask the address as it is, with its resource.
    ///   - then: Called with the card, or with why there is none.
    ///   - orElse: Called with the reason when the answer can never come, such as after a lost session.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`, `ownershipLost` or `closed`; ``/Handlers/HandlerError`` when the
    ///   store fails.
    public func fetch(
        of jid: JID?, exactly: Bool = false, then: Durable<VCardFetch>, orElse: Durable<Invalidation>? = nil,
        timeout: Duration? = nil
    ) async throws {
        try await account.perform { step in
            try self.fetch(
                of: jid, exactly: exactly, then: then, orElse: orElse, timeout: timeout, in: step)
        }
    }

    /// Asks for somebody's card, from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - jid: Whose; nil for the own one.
    ///   - exactly: Whether to ask the address as it is, with its resource.
    ///   - then: Called with the card, or with why there is none.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func fetch(
        of jid: JID?, exactly: Bool = false, then: Durable<VCardFetch>, orElse: Durable<Invalidation>? = nil,
        timeout: Duration? = nil, in step: borrowing Step
    ) throws {
        let fetched = VCardFetched(jid: jid, then: try then.orElse(orElse))
        // When the answer can never come, the program's handler inside is invalidated with this one.
        try account.send(Self.request(jid, exactly), then: Durable(fetched), timeout: timeout, in: step)
    }

    private static func request(_ jid: JID?, _ exactly: Bool) -> IQ {
        IQ(
            type: .get, to: exactly ? jid : jid?.bare, id: StanzaID.random(),
            payload: Element("vCard", namespace: Namespaces.vcard))
    }
}

/// Turns the answer into a ``VCardFetch`` and runs the program's handler with it. Its id and arguments are stored.
struct VCardFetched: Handler {
    static let id = "vcard.fetched"
    /// Whose card was asked for; nil for the own one.
    var jid: JID?
    /// The program's handler.
    var then: Durable<VCardFetch>

    func run(_ call: borrowing Call<IQReply>) throws {
        try call.step.run(then, with: VCardFetch(of: jid, call.context))
    }
}

extension Account {
    /// Visiting cards (XEP-0054).
    public var vcards: VCards { VCards(self) }
}
