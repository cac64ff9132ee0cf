public import XMPPCore

extension PubSubError {
    /// A condition in the namespace `http://jabber.org/protocol/pubsub#errors`. Open: a name that this table does not
    /// know is kept as it came.
    ///
    /// Source: the schema of XEP-0060 section 18.2, and section 7.1.3.4 for `node-full`, which the schema lacks.
    package typealias Condition = OpenName<PubSubError>
}

extension OpenName where List == PubSubError {
    /// Only subscribers may do this (6.5.9.3).
    public static var notSubscribed: Self { Self(rawValue: "not-subscribed") }
    /// The payload is larger than the service takes (7.1.3.5).
    public static var payloadTooBig: Self { Self(rawValue: "payload-too-big") }
    /// A subscription waits for the owner's approval (6.1.3.7).
    public static var pendingSubscription: Self { Self(rawValue: "pending-subscription") }
    /// The node is not configured as the publish options require (7.1.5).
    public static var preconditionNotMet: Self { Self(rawValue: "precondition-not-met") }
    /// Only subscribers of the owner's presence may do this (6.1.3.2).
    public static var presenceSubscriptionRequired: Self { Self(rawValue: "presence-subscription-required") }
    /// The service lacks a feature, which ``PubSubError/unsupportedFeature`` names (12).
    public static var unsupported: Self { Self(rawValue: "unsupported") }

    /// The advice for the condition; nil for an unknown one.
    var advice: String? { PubSubError.advices[rawValue] }
}

extension PubSubError {
    /// The advice for each condition, by its name.
    static let advices: [ForeignText: String] = [
        "closed-node": "ask the node's owner to put you on its whitelist",
        "configuration-required": "send the subscription's options along with it",
        "invalid-jid": "subscribe an address of your own account",
        "invalid-options": "ask for the options form and send values that it allows",
        "invalid-payload": "publish one element of the kind that the node is made for",
        "invalid-subid": "ask for the own subscriptions and use an id from there",
        "item-forbidden": "publish without an item; this node only notifies",
        "item-required": "give the request an item",
        "jid-required": "give the request the subscriber's address",
        "max-items-exceeded": "publish fewer items or let the node keep more",
        "max-nodes-exceeded": "delete a node that is not needed any more",
        "node-full": "retract old items or let the node keep more",
        "nodeid-required": "give the request a node's name",
        "not-in-roster-group": "ask the node's owner to put you into a group that may read it",
        "not-subscribed": "subscribe to the node first",
        "payload-too-big": "publish less, or a link to it",
        "payload-required": "give the item content",
        "pending-subscription": "wait until the node's owner approves the subscription",
        "precondition-not-met": "configure the node as required, then publish again",
        "presence-subscription-required": "subscribe to the owner's presence first",
        "subid-required": "name the subscription by its id",
        "too-many-subscriptions": "give up a subscription that is not needed any more",
        "unsupported": "the service lacks a feature; do without it",
        "unsupported-access-model": "choose another access model",
    ]
}
