public import Handlers
public import XMPPAccount
public import XMPPCore

/// The context of a standing handler of a node: something happened there.
///
/// ```swift
/// @Handler("profile.nick-changed")
/// static func nickChanged(_ call: borrowing Call<PubSubEvent>) throws {
///     switch call.change {
///     case .items(let items): …       // published, or shown again because a session began
///     case .retracted(let ids): …     // these are gone, the others stay
///     case .purged: …                 // all are gone, the node stays
///     case .deleted(let redirect): …  // the node is gone
///     case .configured, .subscription, .associated, .disassociated: break
///     }
/// }
/// ```
///
/// An event reports what is there, not only what is new: a server shows a node's last item again when a session starts. An item
/// that the handler was called with before, with the same content, is left out. What was published and replaced while the
/// account had no session never comes: fetch the node where that matters.
///
/// Source: XEP-0060 sections 7, 8 and 13, XEP-0163 section 4.
public struct PubSubEvent: Sendable {
    /// The change. The cases mean different things, so a handler must name them all.
    public enum Change: Hashable, Sendable {
        /// Items were published, in this order. None: something happened at a node whose events carry nothing (4.3).
        case items([PubSubItem])
        /// The items with these ids are gone (7.2.2.1).
        case retracted([ForeignText])
        /// All items are gone; the node is still there (8.5.2).
        case purged
        /// The node was deleted. The address, a URI, says where its successor is (8.4.2).
        case deleted(redirect: ForeignText?)
        /// The configuration of the node changed. The form holds it if the service sent it (8.2.5.3).
        case configured(DataForm?)
        /// An own subscription has changed, or is about to end (8.8.4, 13.19).
        case subscription(Subscription)
        /// A node was put into this collection (XEP-0248).
        case associated(node: ForeignText)
        /// A node was taken out of this collection (XEP-0248).
        case disassociated(node: ForeignText)
    }

    /// Subscription as an event reports it.
    public struct Subscription: Hashable, Sendable {
        /// The subscribed address.
        public var jid: JID
        /// The state of the subscription; nil if the event has none.
        public var state: OpenName<PubSubSubscription>?
        /// Id of the subscription among those of the same address.
        public var id: ForeignText?
        /// When it ends; nil for never, or unknown.
        public var expiry: Timestamp?

        package init(
            jid: JID, state: PubSubSubscription.State?, id: (any TextConvertible)? = nil,
            expiry: Timestamp? = nil
        ) {
            (self.jid, self.state, self.id, self.expiry) = (jid, state, id?.foreignText, expiry)
        }
    }

    /// The account that received it.
    public let account: Account
    /// The address of the node, from which the event came: a user's bare address or a service. Never what an event says about
    /// itself.
    public let service: JID
    /// The node's name.
    public let node: ForeignText
    /// The change.
    public let change: Change
    /// Whether the node is the account's own.
    public let isOwn: Bool
    /// When it happened, if it was delayed or is shown again (XEP-0203).
    ///
    /// As the service or the own server says. Nil for an event that happens now.
    public let sentAt: Timestamp?
    /// The subscriptions that brought it, where the service names them (13.16).
    public let subscriptionIDs: [ForeignText]
}

extension PubSubEvent: StoredContext, AccountContext {
    private struct Stored: Codable {
        var service: JID
        var node: ForeignText
        var isOwn: Bool
        var sentAt: Timestamp?
        var subscriptionIDs: [ForeignText]
        var change: String
    }

    package func stored() throws -> [UInt8] {
        let stored = Stored(
            service: service, node: node, isOwn: isOwn, sentAt: sentAt, subscriptionIDs: subscriptionIDs,
            change: change.element(node: node).serialized())
        return try ArgumentCoding.encode(stored)
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try ArgumentCoding.value(Stored.self, from: bytes)
        let account = try Account.serving(environment)
        let element = try Element(stored: stored.change)
        guard let change = Change.read(element).first else {
            throw HandlerError(.wrongArgument, "the stored event holds no change; discard its row")
        }
        self.init(
            account: account, service: stored.service, node: stored.node, change: change,
            isOwn: stored.isOwn, sentAt: stored.sentAt, subscriptionIDs: stored.subscriptionIDs)
    }

    /// Fingerprint of the event, cheaper than its XML.
    package var fingerprint: UInt64 {
        StableHash(Serializer().bytes(change.element(node: node)) + Array(service.description.utf8)).value
    }
}
