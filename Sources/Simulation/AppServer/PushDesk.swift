import XMPPTransport
package import XMPPCore

/// An installation that may be woken, as it registered with the app's server.
package struct PushDevice: Codable, Hashable, Sendable {
    /// The account whose server may wake the device.
    package var account: String
    /// The node that identifies the device to the push service.
    package var node: String
    /// The secret that the server must send with the node.
    package var secret: String

    package init(account: String, node: String, secret: String) {
        (self.account, self.node, self.secret) = (account, node, secret)
    }
}

/// The rules of a push service: which publication wakes which device, and the answers.
///
/// It is a plain value without a socket or a process.
package struct PushDesk: Sendable {
    /// The result of reading a stanza.
    package enum Event: Hashable, Sendable {
        case push(PushDevice)
        /// A publication that wakes no device. The reason is only for the service's log: a stranger must not learn which part was
        /// wrong.
        case refused(from: String, reason: String)
    }

    /// The decision about a stanza.
    package struct Decision: Sendable {
        package var reply: Element?
        package var event: Event?
    }

    private let devices: [ForeignText: PushDevice]

    /// - Parameter devices: The devices. If two have the same node, the last one is used.
    package init(_ devices: [PushDevice]) {
        self.devices = Dictionary(
            devices.map { (ForeignText($0.node), $0) }, uniquingKeysWith: { _, last in last })
    }

    /// Decides about a stanza that arrived.
    ///
    /// - Parameter element: A complete element of the component's stream.
    package func decide(_ element: Element) -> Decision {
        guard element.name == "iq", let iq = try? IQ(element: element), iq.type.isRequest else {
            // The service sends no requests, so it expects no answers; messages and presence mean nothing to it.
            return Decision()
        }
        guard let publication = PushPublication(iq) else { return Decision(reply: answer(iq)?.element) }
        switch check(publication, from: iq.from) {
        case .success(let device): return Decision(reply: iq.result()?.element, event: .push(device))
        case .failure(let refusal):
            let error = StanzaError(.itemNotFound, text: "no such node, or not for you")
            return Decision(
                reply: iq.errorReply(error)?.element,
                event: .refused(from: iq.from?.description ?? "nobody", reason: refusal.reason))
        }
    }

    private struct Refusal: Error { var reason: String }

    private func check(_ publication: PushPublication, from: JID?) -> Result<PushDevice, Refusal> {
        guard let device = devices[publication.node] else { return .failure(Refusal(reason: "unknown node")) }
        // In constant time, so that an attacker cannot guess the secret byte by byte.
        guard Crypto.isEqual(Array(device.secret.utf8), Array((publication.secret ?? "").utf8)) else {
            return .failure(Refusal(reason: publication.secret == nil ? "no secret" : "wrong secret"))
        }
        // The user's server sends from its own address or the account's bare address (XEP-0357 section 7). A client has a resource.
        guard let from, isServer(from, of: device.account) else {
            return .failure(Refusal(reason: "not from the account's server"))
        }
        return .success(device)
    }

    private func isServer(_ jid: JID, of account: String) -> Bool {
        guard let account = try? JID(account) else { return false }
        return jid.resource == nil && jid.domain == account.domain
            && (jid.local == nil || jid.local == account.local)
    }

    // MARK: Other requests

    private func answer(_ iq: IQ) -> IQ? {
        if iq.type == .get, iq.payload?.has(name: "ping", namespace: Namespaces.ping) == true {
            return iq.result()
        }
        if iq.type == .get, iq.payload?.has(name: "query", namespace: Namespaces.discoInfo) == true {
            return iq.result(payload: Self.information)
        }
        return iq.errorReply(StanzaError(.serviceUnavailable))
    }

    /// XEP-0357 section 4: a push service is a pubsub service of the type push.
    private static var information: Element {
        Element(
            "query", namespace: Namespaces.discoInfo,
            children: [
                Element(
                    "identity", namespace: Namespaces.discoInfo,
                    attributes: ["category": "pubsub", "type": "push"]),
                Element(
                    "feature", namespace: Namespaces.discoInfo, attributes: ["var": Namespaces.discoInfo]),
                Element("feature", namespace: Namespaces.discoInfo, attributes: ["var": Namespaces.push]),
            ])
    }
}

/// A server's publication for an account without a connected client (XEP-0357 section 7).
struct PushPublication: Hashable, Sendable {
    var node: ForeignText
    /// The field `secret` of the publish options.
    var secret: ForeignText?

    /// Nil for an IQ that publishes no notification.
    init?(_ iq: IQ) {
        guard iq.type == .set, let pubsub = iq.payload,
            pubsub.has(name: "pubsub", namespace: Namespaces.pubsub),
            let publish = pubsub.child("publish", Namespaces.pubsub),
            let item = publish.child("item", Namespaces.pubsub),
            item.child("notification", Namespaces.push) != nil
        else { return nil }
        node = publish["node"] ?? ""
        let form = pubsub.child("publish-options", Namespaces.pubsub)?.child("x", Namespaces.dataForms)
        secret = form.flatMap { DataForm($0) }?.fields.first { $0.name == "secret" }?.values.first
    }
}
