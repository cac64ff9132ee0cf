import XMPPAccount
public import XMPPCore

extension PubSubOperation where Context == PubSubFetch {
    /// Asks for the items of a node.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - selection: Which items.
    ///   - subscription: The id of the own subscription, where a service demands it.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 6.5.
    public static func items(
        of node: any TextConvertible, _ selection: PubSubSelection = .all,
        subscription: (any TextConvertible)? = nil
    ) -> PubSubOperation {
        PubSubOperation(.get, node.foreignText, question: { .items(then: $0) }, read: { $0.fetch }) { _ in
            try PubSubRequest.items(selection, of: node, subscription: subscription)
        }
    }
}

extension PubSubOperation where Context == PubSubAnswer<PubSubPage> {
    /// Asks for a page of the items of a node. ``PubSubPage/next`` goes on from there.
    ///
    /// "Not found" also says that the item at which the page was to start is gone: start again.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - position: Where the page is. From `.end` on pages are read backward.
    ///   - limit: How many items it may have, 1 or more; a service may give fewer.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 6.5.4, XEP-0059.
    public static func page(
        of node: any TextConvertible, at position: ResultPage.Position = .start, limit: Int
    ) -> PubSubOperation {
        page(of: node, PubSubPage.Request(position, limit: limit))
    }

    static func page(of node: any TextConvertible, _ request: PubSubPage.Request) -> PubSubOperation {
        PubSubOperation(
            .get, node.foreignText, question: { .page(request: request, then: $0) },
            read: { $0.page(request) }
        ) { _ in
            try PubSubRequest.page(of: node, at: request.position, limit: request.limit)
        }
    }
}

extension PubSubOperation where Context == PubSubPublication {
    /// Publishes an item, or notifies without one.
    ///
    /// - Parameters:
    ///   - item: The item; nil for a node that takes none and only notifies. An item of the same id is replaced;
    ///     without an id the service chooses one.
    ///   - node: The node's name, not empty.
    ///   - options: What must hold of the node; a node that does not exist yet is created with them. When they do not
    ///     hold nothing is published.
    ///   - configuring: Whether the node is then configured so that they hold, and the item published again. It is
    ///     done once; each step is stored with the answer to the one before it, so the death of the process neither
    ///     stops nor repeats it.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 sections 7.1 and 7.1.5, XEP-0163 section 3.
    public static func publish(
        _ item: PubSubItem?, on node: any TextConvertible, requiring options: [PubSubOption] = [],
        configuring: Bool = false
    ) -> PubSubOperation {
        let id = item?.id
        return PubSubOperation(
            type: .set, node: node.foreignText,
            payload: { _ in
                try PubSubRequest.publish(item, on: node, requiring: options)
            }, question: { remedy, then in .publish(itemID: id, remedy: remedy, then: then) },
            read: { $0.publication(itemID: id) },
            configuration: configuring && !options.isEmpty ? options : nil)
    }
}

extension PubSubOperation where Context == PubSubCompletion {
    /// Deletes one item.
    ///
    /// - Parameters:
    ///   - id: The item's id, not empty.
    ///   - node: The node's name, not empty.
    ///   - notifying: Whether the subscribers are notified. Without it the node's configuration decides.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 7.2.
    public static func retract(
        _ id: any TextConvertible, from node: any TextConvertible, notifying: Bool = true
    ) -> PubSubOperation {
        change(node.foreignText) { _ in try PubSubRequest.retract(id, from: node, notifying: notifying) }
    }
}
