import XMPPCore

// What an event's XML means: rules without account, store or clock.
extension PubSubEvent.Change {
    /// Reads the changes of `<event/>` in document order: a service may put items and retractions side by side.
    ///
    /// - Returns: Nothing for what is no event of XEP-0060.
    static func read(_ element: Element) -> [PubSubEvent.Change] {
        guard element.namespace == Namespaces.pubsubEvent else { return [] }
        switch element.name {
        case Wire.items: return itemsAndRetractions(element)
        case Wire.purge: return [.purged]
        case Wire.delete:
            let redirect = element.child(Wire.redirect, Namespaces.pubsubEvent)
            return [.deleted(redirect: redirect?[Wire.uri])]
        case EventWire.configuration:
            return [.configured(element.child("x", Namespaces.dataForms).flatMap { DataForm($0) })]
        case Wire.subscription:
            return PubSubEvent.Subscription(element).map { [.subscription($0)] } ?? []
        case EventWire.collection: return element.elements.compactMap(member)
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
            if child.name == Wire.item {
                if !retracted.isEmpty { endRun() }
                items.append(PubSubItem(child))
            } else if child.name == Wire.retract, let id = child[Wire.id] {
                if !items.isEmpty { endRun() }
                retracted.append(id)
            }
        }
        endRun()
        return changes
    }

    private static func member(_ element: Element) -> PubSubEvent.Change? {
        guard element.namespace == Namespaces.pubsubEvent, let node = element[Wire.node] else { return nil }
        switch element.name {
        case EventWire.associate: return .associated(node: node)
        case EventWire.disassociate: return .disassociated(node: node)
        default: return nil
        }
    }

    /// The change as a child of `<event/>`, as it is stored.
    func element(node: ForeignText) -> Element {
        switch self {
        case .items(let items): Self.make(Wire.items, node, items.map(\.eventElement))
        case .retracted(let ids):
            Self.make(
                Wire.items, node,
                ids.map {
                    Element(Wire.retract, namespace: Namespaces.pubsubEvent, attributes: [Wire.id: $0])
                })
        case .purged: Self.make(Wire.purge, node)
        case .deleted(let redirect):
            Self.make(
                Wire.delete, node,
                redirect.map {
                    [Element(Wire.redirect, namespace: Namespaces.pubsubEvent, attributes: [Wire.uri: $0])]
                } ?? [])
        case .configured(let form): Self.make(EventWire.configuration, node, form.map { [$0.element] } ?? [])
        case .subscription(let subscription): subscription.element(node: node)
        case .associated(let member): Self.make(EventWire.collection, node, member, EventWire.associate)
        case .disassociated(let member): Self.make(EventWire.collection, node, member, EventWire.disassociate)
        }
    }

    private static func make(_ name: String, _ node: ForeignText, _ children: [Element] = []) -> Element {
        Element(name, namespace: Namespaces.pubsubEvent, attributes: [Wire.node: node], children: children)
    }

    private static func make(
        _ name: String, _ node: ForeignText, _ member: ForeignText, _ what: any TextConvertible
    ) -> Element {
        make(name, node, [Element(what, namespace: Namespaces.pubsubEvent, attributes: [Wire.node: member])])
    }
}

extension PubSubItem {
    /// The item as a part of a stored event.
    fileprivate var eventElement: Element {
        Element(
            Wire.item, namespace: Namespaces.pubsubEvent,
            attributes: [Wire.id: id, EventWire.publisher: publisher?.description],
            children: payload.map { [$0] } ?? [])
    }
}

extension PubSubEvent.Subscription {
    /// Reads the element; nil if it names no subscriber.
    init?(_ element: Element) {
        guard let jid = element[Wire.jid].flatMap({ try? JID($0) }) else { return nil }
        self.init(
            jid: jid, state: element[Wire.subscription].map(PubSubSubscription.State.init),
            id: element[Wire.subscriptionID],
            expiry: element[EventWire.expiry].flatMap { Timestamp($0) })
    }

    func element(node: ForeignText) -> Element {
        Element(
            Wire.subscription, namespace: Namespaces.pubsubEvent,
            attributes: [
                EventWire.expiry: expiry?.description, Wire.jid: jid.description,
                Wire.node: node, Wire.subscriptionID: id, Wire.subscription: state?.rawValue,
            ])
    }
}
