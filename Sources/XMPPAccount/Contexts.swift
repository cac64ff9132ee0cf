public import Handlers
public import XMPPCore

/// The context of a handler that waits for the answer to a request.
public struct IQReply: Sendable {
    /// How the request ended.
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
    /// The answer; for a timeout an error `remote-server-timeout` from the address that was asked.
    public let iq: IQ
    /// How the request ended: switch over it.
    public let outcome: Outcome
}

/// The context of a standing handler that listens to messages.
public struct MessageReceived: Sendable {
    /// The account that received it.
    public let account: Account
    /// The message, seen for the first time.
    public let message: Message
}

/// The context of a handler that waits for the server to take responsibility for a stanza (XEP-0198).
public struct StanzaAcknowledged: Sendable {
    /// The account that sent it.
    public let account: Account
    /// The stanza's id.
    public let id: String?
}

extension InvalidationReason {
    /// The server has no stream management, so it never says which stanzas it has taken.
    public static let neverAcknowledged = InvalidationReason(rawValue: "never-acknowledged")
}

extension Invalidation {
    /// The account in whose service the handler was bound.
    ///
    /// - Throws: ``HandlerError`` with code `missingInstance` when it was invalidated without an account.
    public var account: Account {
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
