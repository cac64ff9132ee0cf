package import XMPPCore

extension ServerDomain {
    // MARK: From whom

    /// Brings a client's stanza where it belongs.
    mutating func route(_ stanza: Element, from number: Int) {
        guard let session = sessions[number] else { return }
        var stanza = stanza
        if let claimed = stanza["from"], claimed != ForeignText(session.fullText) {
            // RFC 6120 section 8.1.2.1: nobody speaks for others.
            guard let jid = address(claimed), jid == session.jid || jid == session.jid.bare else {
                return giveUp(number, StreamError(.invalidFrom))
            }
        }
        stanza["from"] = ForeignText(session.fullText)
        if stanza.name == "presence", stanza["to"] == nil { return presence(stanza, of: number) }
        route(stanza, from: session.jid)
    }

    /// Brings a stanza of a bot, or of anybody outside, where it belongs. It has to be a stanza.
    package mutating func send(_ stanza: Element, from sender: JID) {
        guard Stanza.isStanza(stanza) else { return }
        var stanza = stanza
        stanza["from"] = sender.foreignText
        route(stanza, from: sender)
    }

    /// The stanza's `from` is the sender's address.
    private mutating func route(_ stanza: Element, from sender: JID) {
        let text = stanza["to"]
        guard let to = text.map({ address($0) }) ?? sender.bare else { return bounce(stanza, .jidMalformed) }
        if isForService(stanza, to: to) {
            var stanza = stanza
            stanza["to"] = to.foreignText
            return perform(.deliver(to.bare, stanza))
        }
        switch stanza.name {
        case "iq": routeIQ(stanza, to: to, isToOwn: text == nil || to == sender.bare)
        case "message": routeMessage(stanza, to: to)
        default: routePresence(stanza, to: to)
        }
    }

    private func isForService(_ stanza: Element, to jid: JID) -> Bool {
        guard let service = services[jid.bare] else { return false }
        guard let namespaces = service else { return true }
        // What names a resource is for that client.
        if jid.isFull { return false }
        let isRequest = stanza["type"].flatMap(IQ.Kind.init)?.isRequest == true
        return stanza.name == "iq" && isRequest
            && stanza.firstElement.map { namespaces.contains($0.namespace) } == true
    }

    // MARK: IQ (RFC 6120 section 8.2.3, RFC 6121 section 8.5)

    private mutating func routeIQ(_ stanza: Element, to: JID, isToOwn: Bool) {
        guard let type = stanza["type"].flatMap(IQ.Kind.init), stanza["id"]?.isEmpty == false,
            !type.isRequest || stanza.elements.count == 1
        else { return bounce(stanza, .badRequest) }
        guard to.domain == name else { return bounce(stanza, .remoteServerNotFound) }
        guard let local = to.local, !isToOwn else { return serve(stanza, isToDomain: to.local == nil) }
        guard let resource = to.resource, let endpoint = endpoint(local, resource) else {
            return bounce(stanza, .serviceUnavailable)
        }
        deliver(stanza, to: endpoint, jid: to)
    }

    // MARK: Messages (RFC 6121 section 8.5)

    private mutating func routeMessage(_ stanza: Element, to: JID) {
        guard to.domain == name else { return bounce(stanza, .remoteServerNotFound) }
        guard let local = to.local, accounts[local] != nil else { return bounce(stanza, .serviceUnavailable) }
        if let resource = to.resource, let endpoint = endpoint(local, resource) {
            return deliver(stanza, to: endpoint, jid: to)
        }
        let type = stanza["type"]
        // RFC 6121 section 8.5.3.2.1: these are not for another resource than the one they name.
        if to.isFull, type == "groupchat" || type == "error" || type == "headline" {
            return bounce(stanza, .serviceUnavailable)
        }
        messageAccount(local, stanza, time: nil)
    }

    /// To every available resource of the account, or else to its offline store.
    ///
    /// - Parameter earlier: When the message came if that was earlier.
    private mutating func messageAccount(_ account: ForeignText, _ stanza: Element, time earlier: Timestamp?)
    {
        let stanza = earlier.map { delayed(stanza, since: $0) } ?? stanza
        let recipients = accounts[account]?.resources.filter { isAvailable($0.endpoint) } ?? []
        for recipient in recipients {
            guard let jid = try? JID(local: account, domain: name, resource: recipient.name) else { continue }
            deliver(stanza, to: recipient.endpoint, jid: jid)
        }
        guard recipients.isEmpty else { return }
        switch stanza["type"] {
        case "headline", "error": return
        case "groupchat": return bounce(stanza, .serviceUnavailable)
        default: break
        }
        guard accounts[account]?.offline.count ?? 0 < behavior.queueLimit else {
            return bounce(stanza, .serviceUnavailable)
        }
        let stored = delayed(stanza, since: earlier ?? time.wall)
        accounts[account]?.offline.append(stored)
    }

    private func isAvailable(_ endpoint: Endpoint) -> Bool {
        switch endpoint {
        case .bot: true
        case .session(let number): sessions[number]?.availableSince != nil
        }
    }

    private func wasAvailable(_ endpoint: Endpoint, before time: Timestamp) -> Bool {
        switch endpoint {
        case .bot: true
        case .session(let number): sessions[number]?.availableSince.map { $0 < time } ?? false
        }
    }

    /// XEP-0203: the stamp of the first delay stays.
    private func delayed(_ stanza: Element, since time: Timestamp) -> Element {
        guard stanza.child("delay", Namespaces.delay) == nil else { return stanza }
        return stanza.appending(
            Element(
                "delay", namespace: Namespaces.delay, attributes: ["from": name, "stamp": time.description]
            ))
    }

    /// Brings what a session left unacknowledged where it would go now.
    ///
    /// - Parameter jid: The session's full address.
    mutating func salvage(_ entry: StanzaQueue.Entry, of jid: JID) {
        switch entry.element.name {
        case "message":
            guard let account = jid.local, !isElsewhere(entry, than: jid) else { return }
            messageAccount(account, entry.element, time: entry.time)
        case "iq": bounce(entry.element, .serviceUnavailable)
        default: break
        }
    }

    /// Returns whether another resource got the message, too: then it may be lost here.
    ///
    /// Otherwise each session that ends would double what all others hold that wait to be resumed.
    private mutating func isElsewhere(_ entry: StanzaQueue.Entry, than jid: JID) -> Bool {
        let addressee = entry.element["to"].flatMap { address($0) }
        guard let account = jid.local, addressee != jid else { return false }
        let resources = accounts[account]?.resources ?? []
        return resources.contains { wasAvailable($0.endpoint, before: entry.time) }
    }

    // MARK: Presence (RFC 6121 section 4), as far as availability goes

    private mutating func presence(_ stanza: Element, of number: Int) {
        switch stanza["type"] {
        case nil:
            let priority = stanza.child("priority", Namespaces.client).flatMap { Int8($0.text) } ?? 0
            sessions[number]?.setPriority(priority, time: time.wall)
            guard priority >= 0 else { return }
            deliverOffline(to: number)
        case "unavailable": sessions[number]?.setPriority(nil, time: time.wall)
        default: break
        }
    }

    private mutating func deliverOffline(to number: Int) {
        guard let account = sessions[number]?.jid.local, let stored = accounts[account]?.offline,
            !stored.isEmpty
        else { return }
        accounts[account]?.offline = []
        for message in stored { deliver(message, to: number) }
    }

    /// Directed presence goes to the resource it names; there are no subscriptions.
    private mutating func routePresence(_ stanza: Element, to: JID) {
        guard to.domain == name, let local = to.local, let resource = to.resource,
            let endpoint = endpoint(local, resource)
        else { return }
        deliver(stanza, to: endpoint, jid: to)
    }

    // MARK: To whom

    private mutating func deliver(_ stanza: Element, to endpoint: Endpoint, jid: JID) {
        switch endpoint {
        case .session(let number): deliver(stanza, to: number)
        case .bot: perform(.deliver(jid, stanza))
        }
    }

    /// Brings an answer of the server itself to who asked.
    mutating func reply(_ stanza: Element) {
        guard let to = stanza["to"].flatMap({ address($0) }), to.domain == name, let local = to.local,
            let resource = to.resource, let endpoint = endpoint(local, resource)
        else { return }
        deliver(stanza, to: endpoint, jid: to)
    }

    /// Sends a stanza back as an error; what is an answer itself, and presence, is dropped.
    mutating func bounce(_ stanza: Element, _ condition: OpenName<StanzaError>) {
        let type = stanza["type"]
        if type == "error" || stanza.name == "presence" || (stanza.name == "iq" && type == "result") {
            return
        }
        var error = Element(stanza.name, namespace: stanza.namespace)
        error["type"] = "error"
        error["id"] = stanza["id"]
        // A text that is no address cannot be the sender of an answer.
        error["from"] = stanza["to"].flatMap { address($0) == nil ? nil : $0 }
        error["to"] = stanza["from"]
        error.append(StanzaError(condition).element)
        reply(error)
    }
}
