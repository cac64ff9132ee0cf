public import Handlers
public import XMPPAccount
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Context of a handler that waits for a contact card.
///
/// ```swift
/// @Handler("contacts.card-fetched")
/// static func cardFetched(_ call: borrowing Call<VCardFetch>) throws {
///     guard case .card(let card) = call.outcome else { return }
///     try call.step.execute("UPDATE contact SET name = ? WHERE jid = ?", card.name, call.jid.description)
/// }
/// ```
public struct VCardFetch: Sendable {
    /// The outcome of a fetch.
    public enum Outcome: Hashable, Sendable {
        /// The card.
        case card(VCard)
        /// There is none.
        case none
        /// The server refused; whether there is one is unknown.
        case error(StanzaError)
        /// No answer came in time.
        case timedOut
    }

    /// The account that asked.
    public let account: Account
    /// The address of the card. The account's bare address for its own card.
    public let jid: JID
    /// The outcome.
    public let outcome: Outcome
    private let reply: IQReply
    private let asked: JID?

    init(of jid: JID?, _ reply: IQReply) {
        account = reply.account
        asked = jid
        self.jid = jid ?? reply.account.address
        self.reply = reply
        outcome =
            switch reply.outcome {
            case .timeout: .timedOut
            case .error(let error): Self.isNone(error, of: jid) ? .none : .error(error)
            case .result(let payload): Self.card(in: payload).map(Outcome.card) ?? .none
            }
    }

    /// The card; nil when there is none.
    var card: VCard? {
        get throws {
            switch outcome {
            case .card(let card): return card
            case .none: return nil
            case .error(let error): throw error
            case .timedOut:
                throw AccountError(.timedOut, "\(jid) has not answered in time; try again later")
            }
        }
    }

    /// The card in an answer; nil for an empty one, which says that there is none (XEP-0054 section 3.1).
    static func card(in payload: Element?) -> VCard? {
        guard let payload, payload.has(name: "vCard", namespace: Namespaces.vcard),
            !payload.elements.isEmpty
        else { return nil }
        return VCard(payload)
    }

    /// Returns whether an error says that there is no card: of others servers say `service-unavailable` (XEP-0054 section 3.3).
    static func isNone(_ error: StanzaError, of jid: JID?) -> Bool {
        error.condition == .itemNotFound || (jid?.local != nil && error.condition == .serviceUnavailable)
    }
}

extension VCardFetch: StoredContext, AccountContext {
    private struct Stored: Codable {
        var jid: JID?
        var reply: String
    }

    package func stored() throws -> [UInt8] {
        let reply = String(decoding: try reply.stored(), as: UTF8.self)
        return try [UInt8](JSONEncoder().encode(Stored(jid: asked, reply: reply)))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        self.init(of: stored.jid, try IQReply(restoring: [UInt8](stored.reply.utf8), in: environment))
    }
}
