package import XMPPCore

// What an event's XML means: rules without account, store or clock.
extension PubSubEvent.Change {
    /// Reads the changes of `<event/>` in document order: a service may put items and retractions side by side.
    ///
    /// - Parameter element: A child of `<event/>`.
    /// - Returns: Nothing for what is no event of XEP-0060.
    package static func read(_ element: Element) -> [PubSubEvent.Change] {
        guard element.namespace == Namespaces.pubsubEvent else { return [] }
        switch element.name {
        case "items": return itemsAndRetractions(element)
        case "purge": return [.purged]
        case "delete":
            let redirect = element.child("redirect", Namespaces.pubsubEvent)
            return [.deleted(redirect: redirect?["uri"])]
        case "configuration":
            return [.configured(element.child("x", Namespaces.dataForms).flatMap { DataForm($0) })]
        case "subscription":
            return PubSubEvent.Subscription(element).map { [.subscription($0)] } ?? []
        case "collection": return element.elements.compactMap(member)
        default: return []
        }
    }

    /// Runs of items and of retractions.
    private static func itemsAndRetractions(_ element: Element) -> [PubSubEvent.Change] {
        let children = element.elements.filter { $0.namespace == Namespaces.pubsubEvent }
        if children.isEmpty { return [.items([])] }
        var changes: [PubSubEvent.Change] = []
        // A run is gathered here and not in its case: there each further item would copy all before it.
        var items: [PubSubItem] = []
        var retracted: [ForeignText] = []
        func endRun() {
            if !items.isEmpty { changes.append(.items(items)) }
            if !retracted.isEmpty { changes.append(.retracted(retracted)) }
            (items, retracted) = ([], [])
        }
        for child in children {
            if child.name == "item" {
                if !retracted.isEmpty { endRun() }
                items.append(PubSubItem(child))
            } else if child.name == "retract", let id = child["id"] {
                if !items.isEmpty { endRun() }
                retracted.append(id)
            }
        }
        endRun()
        return changes
    }

    private static func member(_ element: Element) -> PubSubEvent.Change? {
        guard element.namespace == Namespaces.pubsubEvent, let node = element["node"] else { return nil }
        switch element.name {
        case "associate": return .associated(node: node)
        case "disassociate": return .disassociated(node: node)
        default: return nil
        }
    }

    /// The change as a child of `<event/>`, as it is stored.
    func element(node: ForeignText) -> Element {
        switch self {
        case .items(let items): Self.make("items", node, items.map(\.eventElement))
        case .retracted(let ids):
            Self.make(
                "items", node,
                ids.map {
                    Element("retract", namespace: Namespaces.pubsubEvent, attributes: ["id": $0])
                })
        case .purged: Self.make("purge", node)
        case .deleted(let redirect):
            Self.make(
                "delete", node,
                redirect.map {
                    [Element("redirect", namespace: Namespaces.pubsubEvent, attributes: ["uri": $0])]
                } ?? [])
        case .configured(let form): Self.make("configuration", node, form.map { [$0.element] } ?? [])
        case .subscription(let subscription): subscription.element(node: node)
        case .associated(let member): Self.make("collection", node, member, "associate")
        case .disassociated(let member): Self.make("collection", node, member, "disassociate")
        }
    }

    private static func make(_ name: String, _ node: ForeignText, _ children: [Element] = []) -> Element {
        Element(name, namespace: Namespaces.pubsubEvent, attributes: ["node": node], children: children)
    }

    private static func make(
        _ name: String, _ node: ForeignText, _ member: ForeignText, _ what: any TextConvertible
    ) -> Element {
        make(name, node, [Element(what, namespace: Namespaces.pubsubEvent, attributes: ["node": member])])
    }
}

extension PubSubItem {
    /// The item as a part of a stored event.
    fileprivate var eventElement: Element {
        Element(
            "item", namespace: Namespaces.pubsubEvent,
            attributes: ["id": id, "publisher": publisher?.description],
            children: payload.map { [$0] } ?? [])
    }
}

extension PubSubEvent.Subscription {
    /// Reads the element; nil if it names no subscriber.
    init?(_ element: Element) {
        guard let jid = element["jid"].flatMap({ try? JID(received: $0) }) else { return nil }
        self.init(
            jid: jid, state: element["subscription"].map(PubSubSubscription.State.init),
            id: element[Wire.subscriptionID],
            expiry: element["expiry"].flatMap { Timestamp($0) })
    }

    func element(node: ForeignText) -> Element {
        Element(
            "subscription", namespace: Namespaces.pubsubEvent,
            attributes: [
                "expiry": expiry?.description, "jid": jid.description,
                "node": node, Wire.subscriptionID: id, "subscription": state?.rawValue,
            ])
    }
}
