public import XMPPCore

extension PubSubError {
    /// A condition in the namespace `http://jabber.org/protocol/pubsub#errors`. Open: a name that this table does not
    /// know is kept as it came.
    ///
    /// Source: the schema of XEP-0060 section 18.2, and section 7.1.3.4 for `node-full`, which the schema lacks.
    package typealias Condition = OpenName<PubSubError>
}

extension OpenName where List == PubSubError {
    /// Only addresses on the node's whitelist may do this (6.1.3.4).
    package static var closedNode: Self { Self(rawValue: "closed-node") }
    /// The subscription must be configured in the same request (6.1.5).
    package static var configurationRequired: Self { Self(rawValue: "configuration-required") }
    /// The address to subscribe is not the sender's (6.1.3.1).
    package static var invalidJID: Self { Self(rawValue: "invalid-jid") }
    /// The subscription options contradict each other or the service (6.3.6.2).
    package static var invalidOptions: Self { Self(rawValue: "invalid-options") }
    /// The payload is not of the node's type, or more than one element (7.1.3.6).
    package static var invalidPayload: Self { Self(rawValue: "invalid-payload") }
    /// There is no subscription of that id (6.2.3.5).
    package static var invalidSubscriptionID: Self { Self(rawValue: "invalid-subid") }
    /// The node only notifies and takes no item (7.1.3.7).
    package static var itemForbidden: Self { Self(rawValue: "item-forbidden") }
    /// The request needs an item (7.1.3.7).
    package static var itemRequired: Self { Self(rawValue: "item-required") }
    /// The request needs the subscriber's address (6.3.4.3).
    package static var jidRequired: Self { Self(rawValue: "jid-required") }
    /// More items than the node may keep (13.11).
    package static var maximumItemsExceeded: Self { Self(rawValue: "max-items-exceeded") }
    /// More nodes than the service allows.
    package static var maximumNodesExceeded: Self { Self(rawValue: "max-nodes-exceeded") }
    /// The node keeps as many items as it may and was set to refuse more (7.1.3.4).
    package static var nodeFull: Self { Self(rawValue: "node-full") }
    /// The request needs a node's name (7.2.3.3).
    package static var nodeIDRequired: Self { Self(rawValue: "nodeid-required") }
    /// Only contacts in certain groups of the owner's roster may do this (6.1.3.3).
    package static var notInRosterGroup: Self { Self(rawValue: "not-in-roster-group") }
    /// Only subscribers may do this (6.5.9.3).
    public static var notSubscribed: Self { Self(rawValue: "not-subscribed") }
    /// The payload is larger than the service takes (7.1.3.5).
    public static var payloadTooBig: Self { Self(rawValue: "payload-too-big") }
    /// The node wants items with content (7.1.3.7).
    package static var payloadRequired: Self { Self(rawValue: "payload-required") }
    /// A subscription waits for the owner's approval (6.1.3.7).
    public static var pendingSubscription: Self { Self(rawValue: "pending-subscription") }
    /// The node is not configured as the publish options require (7.1.5).
    public static var preconditionNotMet: Self { Self(rawValue: "precondition-not-met") }
    /// Only subscribers of the owner's presence may do this (6.1.3.2).
    public static var presenceSubscriptionRequired: Self { Self(rawValue: "presence-subscription-required") }
    /// There are several subscriptions, so the request needs a subscription id (6.2.3.1).
    package static var subscriptionIDRequired: Self { Self(rawValue: "subid-required") }
    /// The sender has as many subscriptions as the service allows (6.1.3.9).
    package static var tooManySubscriptions: Self { Self(rawValue: "too-many-subscriptions") }
    /// The service lacks a feature, which ``PubSubError/unsupportedFeature`` names (12).
    public static var unsupported: Self { Self(rawValue: "unsupported") }
    /// The service lacks that access model (8.1.2).
    package static var unsupportedAccessModel: Self { Self(rawValue: "unsupported-access-model") }

    /// The advice for the condition; nil for an unknown one.
    var advice: String? { PubSubError.advices[self] }
}

extension PubSubError {
    fileprivate static let advices: [Condition: String] = [
        .closedNode: "ask the node's owner to put you on its whitelist",
        .configurationRequired: "send the subscription's options along with it",
        .invalidJID: "subscribe an address of your own account",
        .invalidOptions: "ask for the options form and send values that it allows",
        .invalidPayload: "publish one element of the kind that the node is made for",
        .invalidSubscriptionID: "ask for the own subscriptions and use an id from there",
        .itemForbidden: "publish without an item; this node only notifies",
        .itemRequired: "give the request an item",
        .jidRequired: "give the request the subscriber's address",
        .maximumItemsExceeded: "publish fewer items or let the node keep more",
        .maximumNodesExceeded: "delete a node that is not needed any more",
        .nodeFull: "retract old items or let the node keep more",
        .nodeIDRequired: "give the request a node's name",
        .notInRosterGroup: "ask the node's owner to put you into a group that may read it",
        .notSubscribed: "subscribe to the node first",
        .payloadTooBig: "publish less, or a link to it",
        .payloadRequired: "give the item content",
        .pendingSubscription: "wait until the node's owner approves the subscription",
        .preconditionNotMet: "configure the node as required, then publish again",
        .presenceSubscriptionRequired: "subscribe to the owner's presence first",
        .subscriptionIDRequired: "name the subscription by its id",
        .tooManySubscriptions: "give up a subscription that is not needed any more",
        .unsupported: "the service lacks a feature; do without it",
        .unsupportedAccessModel: "choose another access model",
    ]
}
