public import Handlers
public import XMPPAccount
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The context of a handler that waits for a contact's decision.
///
/// The contact decides whether the account may see its presence.
///
/// ```swift
/// @Handler("contacts.decided")
/// static func decided(_ call: borrowing Call<SubscriptionDecision>) throws {
///     switch call.outcome {
///     case .approved: …
///     case .denied: …
///     case .failed(let error): …   // the contact's server cannot be reached, or there is none
///     }
/// }
/// ```
///
/// That may take weeks and many sessions. Asking no more (``Roster/unsubscribe(from:in:)``) invalidates the handler with the
/// reason `cancelled`.
public struct SubscriptionDecision: Sendable {
    /// The decision of a contact.
    public enum Outcome: Hashable, Sendable {
        /// The account sees the contact's presence now.
        case approved
        /// The contact, or another client of the account, does not want that. Or the contact was removed.
        case denied
        /// The question did not reach the contact.
        case failed(StanzaError)
    }

    /// The account that asked.
    public let account: Account
    /// The contact.
    public let jid: JID
    /// The decision.
    public let outcome: Outcome
}

extension SubscriptionDecision: StoredContext, AccountContext {
    private struct Stored: Codable {
        var jid: JID
        var isApproved: Bool
        var error: String?
    }

    package func stored() throws -> [UInt8] {
        var stored = Stored(jid: jid, isApproved: outcome == .approved)
        if case .failed(let error) = outcome { stored.error = error.element.serialized() }
        return try [UInt8](JSONEncoder().encode(stored))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        let error = try stored.error.map {
            StanzaError(try Element(parsing: $0)) ?? StanzaError(.undefinedCondition)
        }
        self.init(
            account: try Account.serving(environment), jid: stored.jid,
            outcome: error.map(Outcome.failed) ?? (stored.isApproved ? .approved : .denied))
    }
}
