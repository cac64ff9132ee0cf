import XMPPCore

extension ServerDomain {
    /// Answers a request to the server or to the sender's own account. Answers to us are dropped.
    mutating func serve(_ stanza: Element, isToDomain: Bool) {
        guard let request = try? IQ(element: stanza), request.type.isRequest, let payload = request.payload
        else { return }
        let answer =
            switch (request.type, payload.name, payload.namespace) {
            case (.get, "ping", Namespaces.ping), (.set, "session", Namespaces.session): request.result()
            case (.get, "query", Namespaces.roster) where !isToDomain,
                (.get, "query", Namespaces.discoItems):
                request.result(payload: Element("query", namespace: payload.namespace))
            case (.get, "query", Namespaces.discoInfo):
                request.result(payload: discoInfo(payload["node"], isDomain: isToDomain))
            default: request.errorReply(StanzaError(.serviceUnavailable))
            }
        if let answer { reply(answer.element) }
    }

    /// XEP-0030 section 3.1.
    private func discoInfo(_ node: ForeignText?, isDomain: Bool) -> Element {
        let space = Namespaces.discoInfo
        let identity = isDomain ? ("server", "im") : ("account", "registered")
        let features = [Namespaces.discoInfo, Namespaces.discoItems, Namespaces.ping]
        return Element(
            "query", namespace: space, attributes: ["node": node],
            children: [
                Element(
                    "identity", namespace: space, attributes: ["category": identity.0, "type": identity.1])
            ] + features.map { Element("feature", namespace: space, attributes: ["var": $0]) })
    }
}
