import Synchronization
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// The nodes of a PEP service: by owner and node, item ids and payloads in order.
struct PEPNodes {
    var nodes: [String: [(id: ForeignText, payload: Element)]] = [:]
    /// What was published last, for the test that pushes it.
    private(set) var published: (owner: JID?, node: String, id: ForeignText, payload: Element)?

    static func key(_ owner: JID?, _ node: String) -> String { "\(owner?.description ?? "") \(node)" }

    /// The answer to a request; nil for none at all.
    mutating func answer(_ iq: IQ, _ node: String) -> IQ? {
        guard let request = iq.payload?.firstElement else { return nil }
        let owner = iq.to?.bare ?? iq.from?.bare
        let key = Self.key(owner, node)
        published = nil
        var answer: IQ?
        switch request.name {
        case "publish":
            guard let item = request.firstElement, let payload = item.firstElement else { return nil }
            let id = item["id"] ?? "none"
            if node == "urn:xmpp:omemo:2:bundles" {
                nodes[key, default: []].removeAll { $0.id == id }
            } else {
                nodes[key] = []
            }
            nodes[key]?.append((id, payload))
            published = (owner, node, id, payload)
            answer = iq.result()
        case "items":
            guard let items = nodes[key] else {
                return iq.errorReply(StanzaError(.itemNotFound)).map { addressed($0, iq) }
            }
            let wanted = request.children("item", Namespaces.pubsub).compactMap { $0["id"] }
            let found = items.filter { wanted.isEmpty || wanted.contains($0.id) }.map { item in
                Element(
                    "item", namespace: Namespaces.pubsub, attributes: ["id": item.id],
                    children: [item.payload])
            }
            let list = Element(
                "items", namespace: Namespaces.pubsub, attributes: ["node": node], children: found)
            answer = iq.result(payload: Element("pubsub", namespace: Namespaces.pubsub, children: [list]))
        default: answer = iq.result()
        }
        return answer.map { addressed($0, iq) }
    }

    private func addressed(_ answer: IQ, _ request: IQ) -> IQ {
        var element = answer.element
        element["from"] = request.to?.foreignText
        element["to"] = request.from?.foreignText
        return (try? IQ(element: element)) ?? answer
    }
}

/// PEP on a scripted server: it keeps nodes and pushes nothing.
final class PEPService: Sendable {
    private let nodes = Mutex(PEPNodes())

    /// Answers for an account.
    func serve(_ jid: JID, on server: ScriptedServer) {
        server.addService(at: jid, for: [Namespaces.pubsub, Namespaces.pubsubOwner]) { [self] stanza, bot in
            guard let iq = try? IQ(element: stanza), let node = iq.payload?.firstElement?["node"] else {
                return
            }
            if let answer = nodes.withLock({ $0.answer(iq, node.string) }) { bot.send(answer.element) }
        }
    }
}
