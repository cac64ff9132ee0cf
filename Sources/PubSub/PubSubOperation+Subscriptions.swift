import XMPPAccount
public import XMPPCore

extension PubSubOperation where Context == PubSubAnswer<PubSubSubscription> {
    /// Subscribes to a node. The answer brings the subscription, which may still be pending.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - jid: The address to which events go, one of the own account's; nil for its bare address.
    ///   - options: How the subscription is configured; the defaults hold for the rest.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 sections 6.1 and 6.3.7.
    public static func subscribe(
        to node: any TextConvertible, as jid: JID? = nil, with options: [PubSubOption] = []
    ) -> PubSubOperation {
        PubSubOperation(
            .set, node.foreignText, question: { .subscribe(jid: jid, then: $0) },
            read: { $0.subscription(jid) }
        ) {
            own in
            try PubSubRequest.subscribe(jid ?? own, to: node, with: options)
        }
    }
}

extension PubSubOperation where Context == PubSubCompletion {
    /// Ends a subscription.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - jid: The subscribed address; nil for the own bare address.
    ///   - id: The subscription's id, where the service gave one.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 6.2.
    public static func unsubscribe(
        from node: any TextConvertible, as jid: JID? = nil, id: (any TextConvertible)? = nil
    ) -> PubSubOperation {
        change(node.foreignText) { own in try PubSubRequest.unsubscribe(jid ?? own, id: id, from: node) }
    }

    /// Changes a subscription's options.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - options: What changes, at least one; all else stays as it is.
    ///   - jid: The subscribed address; nil for the own bare address.
    ///   - id: The subscription's id, where the service gave one.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 6.3.5.
    public static func setSubscriptionOptions(
        of node: any TextConvertible, to options: [PubSubOption], as jid: JID? = nil,
        id: (any TextConvertible)? = nil
    ) -> PubSubOperation {
        change(node.foreignText) { own in
            try PubSubRequest.options(jid ?? own, id: id, of: node, set: options)
        }
    }
}

extension PubSubOperation where Context == PubSubAnswer<DataForm> {
    /// Asks for a subscription's options.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - jid: The subscribed address; nil for the own bare address.
    ///   - id: The subscription's id, where the service gave one.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 6.3.
    public static func subscriptionOptions(
        of node: any TextConvertible, as jid: JID? = nil, id: (any TextConvertible)? = nil
    ) -> PubSubOperation {
        PubSubOperation(
            .get, node.foreignText, question: { .form(form: .options, then: $0) }, read: { $0.form(.options) }
        ) { own in
            try PubSubRequest.options(jid ?? own, id: id, of: node)
        }
    }
}

extension PubSubOperation where Context == PubSubAnswer<[PubSubSubscription]> {
    /// Asks for the own subscriptions: to a node, or to all of the service when it is nil.
    ///
    /// - Parameter node: The node's name; nil for all nodes of the service.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 5.6.
    public static func ownSubscriptions(to node: (any TextConvertible)? = nil) -> PubSubOperation {
        list(.own, node)
    }

    /// Asks for everybody's subscriptions to a node of one's own.
    ///
    /// - Parameter node: The node's name, not empty.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.8.1.
    public static func subscriptions(to node: any TextConvertible) -> PubSubOperation { list(.node, node) }

    private static func list(_ list: PubSubList, _ node: (any TextConvertible)?) -> PubSubOperation {
        PubSubOperation(
            .get, node?.foreignText, question: { .subscriptions(list: list, then: $0) },
            read: { $0.subscriptions(list) }
        ) { _ in
            try PubSubRequest.plain("subscriptions", list.namespace, of: node)
        }
    }
}

extension PubSubOperation where Context == PubSubAnswer<[PubSubAffiliation]> {
    /// Asks what the own account may do: with a node, or with all of the service when it is nil.
    ///
    /// - Parameter node: The node's name; nil for all nodes of the service.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 5.7.
    public static func ownAffiliations(with node: (any TextConvertible)? = nil) -> PubSubOperation {
        list(.own, node)
    }

    /// Asks who may do what with a node of one's own.
    ///
    /// - Parameter node: The node's name, not empty.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.9.1.
    public static func affiliations(with node: any TextConvertible) -> PubSubOperation { list(.node, node) }

    private static func list(_ list: PubSubList, _ node: (any TextConvertible)?) -> PubSubOperation {
        PubSubOperation(
            .get, node?.foreignText, question: { .affiliations(list: list, then: $0) },
            read: { $0.affiliations(list) }
        ) { _ in
            try PubSubRequest.plain("affiliations", list.namespace, of: node)
        }
    }
}
