import PubSub
import Synchronization
import XMPPCore
import XMPPTestKit

/// The peer's node in the embedded server, with the rules of a PEP node. An item goes to the available contacts. Only the last item
/// is kept, and a contact that becomes available receives it (XEP-0163 section 4.3.4).
final class EmbeddedNode: Sendable {
    private struct State {
        var published = 0
        weak var server: ScriptedServer?
    }

    private let owner: JID
    private let state = Mutex(State())

    init(of owner: JID) { self.owner = owner.bare }

    /// The number of published items.
    var published: Int { state.withLock { $0.published } }

    /// Sends all further items through this server.
    func attach(to server: ScriptedServer) { state.withLock { $0.server = server } }

    /// Publishes the next item. Call it from one thread only.
    func publish(to subscriber: JID) throws {
        let (n, server) = state.withLock { state in
            state.published += 1
            return (state.published, state.server)
        }
        server?.send(try event(n, to: subscriber, id: "e-\(n)"), from: owner)
    }

    /// Inspects a client's element before the server handles it.
    func look(at element: Element, from client: JID?) {
        guard element.name == "presence", element["to"] == nil, element["type"] == nil, let client else {
            return
        }
        let (n, server) = state.withLock { ($0.published, $0.server) }
        guard n > 0, let event = try? event(n, to: client, id: nil) else { return }
        server?.send(event, from: owner)
    }

    private func event(_ n: Int, to recipient: JID, id: String?) throws -> Element {
        let news = SimulationApp.News(n: n)
        let item = Element(
            "item", namespace: Namespaces.pubsubEvent, attributes: ["id": news.itemID],
            children: [try news.element])
        let items = Element(
            "items", namespace: Namespaces.pubsubEvent, attributes: ["node": SimulationApp.News.node],
            children: [item])
        let event = Element("event", namespace: Namespaces.pubsubEvent, children: [items])
        return Message(to: recipient, type: .headline, id: id, children: [event]).element
    }
}
