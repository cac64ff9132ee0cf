import XMPPCore

// What a login of the extensible profile brings with it: everything is answered inside `<success/>`.
extension ServerDomain {
    mutating func complete(
        _ success: Element, resume request: Element?, bind wanted: Element?, on connection: Int
    ) {
        streams[connection]?.success = success
        if let request { resume(request, on: connection) }
        // After a resumption everything has been sent.
        guard streams[connection]?.success != nil else { return }
        if let wanted, behavior.offersInlineBinding {
            bindInline(wanted, on: connection)
        } else {
            addAddress(nil, on: connection)
            sendSuccess(on: connection)
            if let features = streams[connection]?.negotiation.features(behavior) {
                sendPlain(features, on: connection)
            }
        }
    }

    private mutating func bindInline(_ wanted: Element, on connection: Int) {
        guard let account = streams[connection]?.negotiation.account else { return }
        let tag = wanted.child("tag", Namespaces.bind2)?.text ?? "client"
        guard let jid = try? JID(local: account, domain: name, resource: "\(tag)/\(makeID())"),
            let number = start(jid, on: connection)
        else { return refuse(connection, StreamError(.badFormat)) }
        addAddress(jid, on: connection)
        streams[connection]?.isBindingInline = true
        if let enable = wanted.child("enable", Namespaces.sm) {
            for action in sessions[number]?.receive(enable) ?? [] { perform(action, session: number) }
        }
        let answers = streams[connection]?.inlineAnswers ?? []
        streams[connection]?.isBindingInline = false
        streams[connection]?.success?.append(Element("bound", namespace: Namespaces.bind2, children: answers))
        sendSuccess(on: connection)
        sendPlain(Element("features", namespace: Namespaces.stream), on: connection)
    }

    private mutating func addAddress(_ jid: JID?, on connection: Int) {
        let bare = streams[connection]?.negotiation.account.flatMap { try? JID(local: $0, domain: name) }
        guard let address = jid ?? bare else { return }
        streams[connection]?.success?.append(
            Element("authorization-identifier", namespace: Namespaces.sasl2, text: address.description))
    }

    private mutating func sendSuccess(on connection: Int) {
        guard let success = streams[connection]?.success else { return }
        streams[connection]?.success = nil
        sendPlain(success, on: connection)
    }

    /// Puts an answer into the `<success/>` that is being written.
    ///
    /// - Returns: False when none is, and the element goes out by itself.
    mutating func isEnclosed(_ element: Element, on connection: Int) -> Bool {
        guard element.namespace == Namespaces.sm, let stream = streams[connection], stream.success != nil
        else { return false }
        if stream.isBindingInline {
            streams[connection]?.inlineAnswers.append(element)
            return true
        }
        streams[connection]?.success?.append(element)
        if element.name == "resumed" {
            let jid = stream.session.flatMap { sessions[$0]?.jid }
            addAddress(jid, on: connection)
            sendSuccess(on: connection)
        }
        return true
    }
}
