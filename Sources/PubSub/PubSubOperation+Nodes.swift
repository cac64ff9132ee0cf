import XMPPAccount
public import XMPPCore

extension PubSubOperation where Context == PubSubAnswer<ForeignText> {
    /// Makes a node; the answer brings its name.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty; nil lets the service choose one.
    ///   - options: How it is configured; the service's defaults hold for the rest.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.1.
    public static func create(_ node: (any TextConvertible)? = nil, with options: [PubSubOption] = [])
        -> PubSubOperation
    {
        PubSubOperation(.set, node?.foreignText, question: { .create(then: $0) }, read: { $0.creation }) {
            _ in
            try PubSubRequest.create(node, with: options)
        }
    }
}

extension PubSubOperation where Context == PubSubAnswer<DataForm> {
    /// Asks its owner's view of a node's configuration.
    ///
    /// - Parameter node: The node's name, not empty.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.2.
    public static func configuration(of node: any TextConvertible) -> PubSubOperation {
        form(.configuration, of: node)
    }

    /// Asks how new nodes are configured.
    ///
    /// Source: XEP-0060 section 8.3.
    public static var defaultConfiguration: PubSubOperation { form(.defaultConfiguration, of: nil) }

    /// Asks how new subscriptions are configured: to a node, or to any when it is nil.
    ///
    /// - Parameter node: The node's name; nil for any node of the service.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 6.4.
    public static func defaultSubscriptionOptions(of node: (any TextConvertible)? = nil) -> PubSubOperation {
        form(.defaultOptions, of: node)
    }

    private static func form(_ form: PubSubForm, of node: (any TextConvertible)?) -> PubSubOperation {
        PubSubOperation(
            .get, node?.foreignText, question: { .form(form: form, then: $0) }, read: { $0.form(form) }
        ) { _ in
            try PubSubRequest.plain(form.name, form.namespace, of: node)
        }
    }
}

extension PubSubOperation where Context == PubSubCompletion {
    /// Changes a node's configuration.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - options: What changes, at least one; all else stays as it is.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.2.4.
    public static func configure(_ node: any TextConvertible, with options: [PubSubOption]) -> PubSubOperation
    {
        change(node.foreignText) { _ in try PubSubRequest.configure(node, with: options) }
    }

    /// Deletes a node with its items and subscriptions.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - redirect: The URI of the node that replaces it, which the subscribers receive.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.4.
    public static func delete(_ node: any TextConvertible, redirect: (any TextConvertible)? = nil)
        -> PubSubOperation
    {
        change(node.foreignText) { _ in try PubSubRequest.delete(node, redirect: redirect) }
    }

    /// Deletes all items of a node.
    ///
    /// - Parameter node: The node's name, not empty.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.5.
    public static func purge(_ node: any TextConvertible) -> PubSubOperation {
        change(node.foreignText) { _ in
            try PubSubRequest.plain("purge", Namespaces.pubsubOwner, of: node)
        }
    }

    /// Changes who may do what with a node.
    ///
    /// - Parameters:
    ///   - affiliations: What changes, each address once; all others stay as they are.
    ///   - node: The node's name, not empty.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.9.2.
    public static func setAffiliations(
        _ affiliations: [PubSubAffiliation], with node: any TextConvertible
    ) -> PubSubOperation {
        change(node.foreignText) { _ in
            try PubSubRequest.changes(
                "affiliations", affiliations.map { ($0.jid.bare, nil, $0.element) }, of: node)
        }
    }

    /// Changes who is subscribed to a node.
    ///
    /// - Parameters:
    ///   - subscriptions: What changes, each once; all others stay as they are.
    ///   - node: The node's name, not empty.
    ///
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0060 section 8.8.2.
    public static func setSubscriptions(
        _ subscriptions: [PubSubSubscription], to node: any TextConvertible
    ) -> PubSubOperation {
        change(node.foreignText) { _ in
            try PubSubRequest.changes(
                "subscriptions", subscriptions.map { ($0.jid, $0.id, $0.element) }, of: node)
        }
    }
}
