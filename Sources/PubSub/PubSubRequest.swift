import XMPPAccount
import XMPPCore

/// The payloads of requests: rules without account, store or clock.
enum PubSubRequest {
    // MARK: Items

    /// `<items/>` (XEP-0060 section 6.5).
    static func items(
        _ selection: PubSubSelection, of node: any TextConvertible, subscription: (any TextConvertible)? = nil
    ) throws(AccountError) -> Element {
        var items = try element("items", of: node)
        items[Wire.subscriptionID] = subscription?.foreignText
        switch selection {
        case .all: break
        case .newest(let count):
            // The attribute is a positive integer in the schema (section 18.1).
            guard count > 0 else {
                throw invalid("the newest \(count) items cannot be asked for; ask for 1 or more")
            }
            items[Wire.maxItems] = "\(count)"
        case .ids(let ids):
            // Without any id it would mean all items.
            guard !ids.isEmpty, !ids.contains("") else {
                throw invalid("items were asked for without their ids; give at least one id and none empty")
            }
            for id in ids { items.append(PubSubItem(id: id).element) }
        }
        return wrapped([items])
    }

    /// Returns `<items/>` followed by `<set/>` (XEP-0060 section 6.5.4).
    static func page(
        of node: any TextConvertible, at position: ResultPage.Position, limit: Int
    ) throws(AccountError) -> Element {
        guard limit > 0 else {
            throw invalid("a page of \(limit) items cannot be asked for; ask for 1 or more")
        }
        return wrapped([try element("items", of: node), ResultPage.request(position, limit: limit)])
    }

    /// Returns `<publish/>` followed by its options (XEP-0060 sections 7.1.1 and 7.1.5).
    static func publish(
        _ item: PubSubItem?, on node: any TextConvertible, requiring options: [PubSubOption]
    ) throws(AccountError) -> Element {
        var publish = try element("publish", of: node)
        if let item { publish.append(item.element) }
        return wrapped([publish] + form(Wire.publishOptions, Wire.Form.publish, options))
    }

    /// `<retract/>` (XEP-0060 section 7.2).
    static func retract(
        _ id: any TextConvertible, from node: any TextConvertible, notifying: Bool
    ) throws(AccountError) -> Element {
        guard !id.foreignText.isEmpty else {
            throw invalid("an item without an id cannot be retracted; give its id")
        }
        var retract = try element("retract", of: node)
        retract["notify"] = notifying ? "true" : nil
        retract.append(PubSubItem(id: id).element)
        return wrapped([retract])
    }

    // MARK: Nodes

    /// Returns `<create/>` followed by its configuration, which names no node (XEP-0060 section 8.1).
    static func create(_ node: (any TextConvertible)?, with options: [PubSubOption]) throws(AccountError)
        -> Element
    {
        wrapped([try element("create", of: node)] + form("configure", Wire.Form.node, options))
    }

    /// `<configure/>` with a filled in form (XEP-0060 section 8.2.4).
    static func configure(_ node: any TextConvertible, with options: [PubSubOption]) throws(AccountError)
        -> Element
    {
        guard !options.isEmpty else {
            throw invalid("a node was to be configured with nothing; give at least one option")
        }
        let configure = try element("configure", Namespaces.pubsubOwner, of: node)
        return wrapped([configure.appending(DataForm(Wire.Form.node, options).element)])
    }

    /// `<delete/>` (XEP-0060 section 8.4).
    static func delete(_ node: any TextConvertible, redirect: (any TextConvertible)?) throws(AccountError)
        -> Element
    {
        var delete = try element("delete", Namespaces.pubsubOwner, of: node)
        if let redirect {
            delete.append(
                Element("redirect", namespace: Namespaces.pubsubOwner, attributes: ["uri": redirect]))
        }
        return wrapped([delete])
    }

    /// An element with nothing but its node.
    static func plain(
        _ name: String, _ namespace: String, of node: (any TextConvertible)?
    ) throws(AccountError) -> Element {
        wrapped([try element(name, namespace, of: node)])
    }

    // MARK: Subscriptions and affiliations

    /// Returns `<subscribe/>` followed by its options, which name neither node nor subscriber (XEP-0060 sections 6.1, 6.3.7).
    static func subscribe(
        _ jid: JID, to node: any TextConvertible, with options: [PubSubOption]
    ) throws(AccountError) -> Element {
        let subscribe = try subscriber("subscribe", jid, nil, of: node)
        return wrapped([subscribe] + form("options", Wire.Form.subscription, options))
    }

    /// `<unsubscribe/>` (XEP-0060 section 6.2).
    static func unsubscribe(_ jid: JID, id: (any TextConvertible)?, from node: any TextConvertible)
        throws(AccountError) -> Element
    {
        wrapped([try subscriber("unsubscribe", jid, id, of: node)])
    }

    /// `<options/>`, with a filled in form to set them (XEP-0060 section 6.3).
    static func options(
        _ jid: JID, id: (any TextConvertible)?, of node: any TextConvertible,
        set options: [PubSubOption]? = nil
    ) throws(AccountError) -> Element {
        let element = try subscriber("options", jid, id, of: node)
        guard let options else { return wrapped([element]) }
        guard !options.isEmpty else {
            throw invalid("a subscription was to be configured with nothing; give at least one option")
        }
        return wrapped([element.appending(DataForm(Wire.Form.subscription, options).element)])
    }

    /// Returns the changes of a list; all else stays as it is (XEP-0060 sections 8.8.2 and 8.9.2).
    static func changes(
        _ name: String, _ changes: [(jid: JID, id: (any TextConvertible)?, element: Element)],
        of node: any TextConvertible
    ) throws(AccountError) -> Element {
        guard !changes.isEmpty else { throw invalid("no \(name) were to be changed; give at least one") }
        // A service refuses two changes of the same entry (section 8.9.2.4).
        guard Set(changes.map { ForeignText("\($0.id?.foreignText ?? "") \($0.jid)") }).count == changes.count
        else { throw invalid("one of the \(name) was to be changed in two ways; name each address once") }
        var list = try element(name, Namespaces.pubsubOwner, of: node)
        for change in changes { list.append(change.element) }
        return wrapped([list])
    }

    // MARK: Parts

    /// The options beside a request; nothing for none.
    private static func form(_ name: String, _ type: String, _ options: [PubSubOption]) -> [Element] {
        guard !options.isEmpty else { return [] }
        return [Element(name, namespace: Namespaces.pubsub, children: [DataForm(type, options).element])]
    }

    private static func subscriber(
        _ name: String, _ jid: JID, _ id: (any TextConvertible)?, of node: any TextConvertible
    ) throws(AccountError) -> Element {
        var element = try element(name, of: node)
        element["jid"] = jid.foreignText
        element[Wire.subscriptionID] = id?.foreignText
        return element
    }

    private static func element(
        _ name: String, _ namespace: String = Namespaces.pubsub, of node: (any TextConvertible)?
    ) throws(AccountError) -> Element {
        if let node { try check(node: node) }
        return Element(name, namespace: namespace, attributes: ["node": node])
    }

    static func check(service: JID) throws(AccountError) {
        guard service.isBare else {
            throw invalid("\(service) has a resource, but nodes are at bare addresses; give \(service.bare)")
        }
    }

    /// Any name will do that can be written: another one would be asked for in its place.
    static func check(node: any TextConvertible) throws(AccountError) {
        let node = node.foreignText
        if node.isEmpty { throw invalid("a node without a name was asked for; give the node's name") }
        let isWritable = node.string.unicodeScalars.allSatisfy { scalar in
            scalar.value >= 0x20 && ![0xFFFE, 0xFFFF].contains(scalar.value)
                || ["\t", "\n", "\r"].contains(scalar)
        }
        guard isWritable else {
            throw invalid(
                "the name of the node \(node.debugDescription) has a character that XML cannot hold; leave it out"
            )
        }
    }

    private static func wrapped(_ children: [Element]) -> Element {
        Element("pubsub", namespace: children[0].namespace, children: children)
    }

    private static func invalid(_ message: String) -> AccountError { AccountError(.invalidStanza, message) }
}
