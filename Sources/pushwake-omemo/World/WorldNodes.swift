import XMPPCore

/// The nodes of the users of a world's server (XEP-0163), as far as OMEMO needs them.
struct WorldNodes {
    private struct Node: Hashable {
        let owner: JID
        let name: String
    }

    private var items: [Node: [(id: String, payload: Element)]] = [:]
    /// The prefix of nodes that only their owners can see; nil for none.
    private let hidden: String?
    private var event: Element?

    init(hidden: String?) { self.hidden = hidden }

    private func isHidden(_ node: String) -> Bool { hidden.map { node.hasPrefix($0) } ?? false }

    /// Answers a request.
    ///
    /// - Parameter jid: The user whose nodes are used, unless the request names another user.
    /// - Returns: The answer; nil when the stanza is not a PubSub request.
    mutating func answer(_ element: Element, at jid: JID) -> Element? {
        guard let iq = try? IQ(element: element), iq.type == .get || iq.type == .set,
            let pubsub = iq.payload,
            pubsub.namespace == Namespaces.pubsub || pubsub.namespace == Namespaces.pubsubOwner
        else { return nil }
        let owner = iq.to?.bare ?? jid
        let request = pubsub.firstElement
        let node = Node(owner: owner, name: request?["node"].map { "\($0)" } ?? "")
        var answer: Element?
        switch request?.name {
        case "publish" where iq.from?.bare == owner:
            guard let item = request?.firstElement, let payload = item.firstElement else { break }
            publish(payload, item["id"].map { "\($0)" } ?? "", on: node)
            answer = iq.result()?.element
        case "items":
            let isVisible = iq.from?.bare == owner || !isHidden(node.name)
            guard let found = items[node], isVisible else { break }
            answer = iq.result(payload: list(found, request, of: node))?.element
        case "configure": answer = iq.result()?.element
        default: break
        }
        answer = answer ?? iq.errorReply(StanzaError(.itemNotFound))?.element
        answer?["from"] = owner.foreignText
        answer?["to"] = element["from"]
        return answer
    }

    private mutating func publish(_ payload: Element, _ id: String, on node: Node) {
        // Only the node for bundles of the current version keeps several items.
        if node.name == "urn:xmpp:omemo:2:bundles" {
            items[node]?.removeAll { $0.id == id }
        } else {
            items[node] = nil
        }
        items[node, default: []].append((id, payload))
        if isHidden(node.name) { return }
        let item = Element(
            "item", namespace: Namespaces.pubsubEvent, attributes: ["id": id], children: [payload])
        let list = Element(
            "items", namespace: Namespaces.pubsubEvent, attributes: ["node": node.name], children: [item])
        event = Element(
            "message", namespace: Namespaces.client,
            attributes: ["from": "\(node.owner)", "type": "headline"],
            children: [Element("event", namespace: Namespaces.pubsubEvent, children: [list])])
    }

    private func list(
        _ found: [(id: String, payload: Element)], _ request: Element?, of node: Node
    ) -> Element {
        let wanted =
            request?.children("item", Namespaces.pubsub).compactMap { $0["id"].map { "\($0)" } } ?? []
        let items = found.filter { wanted.isEmpty || wanted.contains($0.id) }.map { item in
            Element(
                "item", namespace: Namespaces.pubsub, attributes: ["id": item.id], children: [item.payload])
        }
        let list = Element(
            "items", namespace: Namespaces.pubsub, attributes: ["node": node.name], children: items)
        return Element("pubsub", namespace: Namespaces.pubsub, children: [list])
    }

    /// Returns and removes the notification about the last publication; nil if there is none.
    mutating func nextEvent() -> Element? {
        defer { event = nil }
        return event
    }
}
