import XMPPAccount
import XMPPCore

/// What the payload of a request looks like: rules without account, store or clock.
enum PubSubRequest {
    /// `<items/>` (XEP-0060 section 6.5).
    static func items(_ selection: PubSubSelection, of node: String) throws(AccountError) -> Element {
        try check(node)
        var items = Element(Wire.items, namespace: Namespaces.pubsub, attributes: [Wire.node: node])
        switch selection {
        case .all: break
        case .newest(let count):
            // The attribute is a positive integer in the schema (section 18.1).
            guard count > 0 else {
                throw invalid("the newest \(count) items cannot be asked for; ask for 1 or more")
            }
            items[Wire.maxItems] = String(count)
        case .ids(let ids):
            // Without any id it would mean all items.
            guard !ids.isEmpty, !ids.contains("") else {
                throw invalid("items were asked for without their ids; give at least one id and none empty")
            }
            for id in ids { items.append(PubSubItem(id: id).element) }
        }
        return wrapped([items])
    }

    /// `<publish/>` with its options behind it (XEP-0060 sections 7.1.1 and 7.1.5).
    static func publish(
        _ item: PubSubItem?, on node: String, requiring options: [PubSubOption]
    ) throws(AccountError) -> Element {
        try check(node)
        var publish = Element(Wire.publish, namespace: Namespaces.pubsub, attributes: [Wire.node: node])
        if let item { publish.append(item.element) }
        return wrapped(options.isEmpty ? [publish] : [publish, publishOptions(options)])
    }

    private static func publishOptions(_ options: [PubSubOption]) -> Element {
        var form = Element("x", namespace: Namespaces.dataForms, attributes: ["type": "submit"])
        form.append(field("FORM_TYPE", type: "hidden", [Wire.publishOptionsForm]))
        for option in options { form.append(field(option.name, option.values)) }
        return Element(Wire.publishOptions, namespace: Namespaces.pubsub, children: [form])
    }

    private static func field(_ name: String, type: String? = nil, _ values: [String]) -> Element {
        Element(
            "field", namespace: Namespaces.dataForms, attributes: ["var": name, "type": type],
            children: values.map { Element("value", namespace: Namespaces.dataForms, text: $0) })
    }

    private static func wrapped(_ children: [Element]) -> Element {
        Element(Wire.pubsub, namespace: Namespaces.pubsub, children: children)
    }

    private static func check(_ node: String) throws(AccountError) {
        if node.isEmpty { throw invalid("a node without a name was asked for; give the node's name") }
    }

    private static func invalid(_ message: String) -> AccountError { AccountError(.invalidStanza, message) }
}
