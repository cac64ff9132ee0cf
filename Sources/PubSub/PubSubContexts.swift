public import XMPPAccount
public import XMPPCore

/// The context of a handler that waits for the items of a node.
///
/// ```swift
/// @Handler("profile.nick-fetched")
/// static func nickFetched(_ call: borrowing Call<PubSubFetch>) throws {
///     switch call.outcome {
///     case .items(let items): …
///     case .notFound: …           // the node does not exist
///     case .error(let error): …   // nothing is known about the node
///     case .timedOut: …           // nothing is known about the node
///     }
/// }
/// ```
///
/// A lost session is no outcome: the handler's invalidation is then called instead.
public struct PubSubFetch: Sendable {
    /// How a fetch ended. The four mean different things, so a handler must name them all.
    public enum Outcome: Hashable, Sendable {
        /// The node exists and these are its items, in the order of the answer; none if it is empty.
        case items([PubSubItem])
        /// The service says that the node, or every item that was asked for, does not exist.
        case notFound
        /// The service refused or its answer makes no sense; whether there are items is unknown.
        case error(PubSubError)
        /// No answer came in time; whether there are items is unknown.
        case timedOut
    }

    /// The account that asked.
    public let account: Account
    /// Who was asked; the own bare address for the own account.
    public let service: JID
    /// The node's name.
    public let node: String
    /// How it ended: switch over it.
    public let outcome: Outcome
}

/// The context of a handler that waits for an item to be published.
public struct PubSubPublication: Sendable {
    /// How publishing ended.
    public enum Outcome: Hashable, Sendable {
        /// Published, under this id; nil when the service chose one and did not tell.
        case published(id: String?)
        /// The node exists and is configured otherwise than required; nothing was published. Configure the node and
        /// publish again (XEP-0060 section 7.1.5).
        case preconditionNotMet(PubSubError)
        /// The service refused; nothing was published.
        case error(PubSubError)
        /// No answer came in time; whether the item was published is unknown.
        case timedOut
    }

    /// The account that published.
    public let account: Account
    /// Where the node is; the own bare address for the own account.
    public let service: JID
    /// The node's name.
    public let node: String
    /// How it ended: switch over it.
    public let outcome: Outcome
}
