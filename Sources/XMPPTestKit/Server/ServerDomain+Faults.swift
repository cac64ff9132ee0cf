package import XMPPCore

extension ServerDomain {
    /// Returns the connections that a fault concerns, lowest number first.
    package func connections(of target: ServerTarget) -> [Int] {
        let matching =
            switch target {
            case .everyone: Array(streams.keys)
            case .connection(let number): [number].filter { streams[$0] != nil }
            case .session(let number): streams.keys.filter { streams[$0]?.session == number }
            case .jid(let jid): streams.keys.filter { isStream($0, of: jid) }
            }
        return matching.sorted()
    }

    private func isStream(_ connection: Int, of jid: JID) -> Bool {
        guard let stream = streams[connection], jid.domain == name else { return false }
        if jid.isFull { return stream.session.flatMap { sessions[$0]?.jid } == jid }
        return jid.local != nil && jid.local == stream.negotiation.account
    }

    /// Returns the sessions that a fault concerns, those without connection included, lowest number first.
    package func sessions(of target: ServerTarget) -> [Int] {
        sessions.values.filter { session in
            switch target {
            case .everyone: true
            case .connection(let number): session.connection == number
            case .session(let number): session.number == number
            case .jid(let jid): session.jid == jid || session.jid.bare == jid
            }
        }.map(\.number).sorted()
    }

    /// Ends sessions now. One with a connection gets the stream error `conflict`.
    package mutating func expire(_ target: ServerTarget) {
        for number in sessions(of: target) { disconnect(number, .expired) }
    }

    /// Refuses the next resumption of an account, or of anybody.
    package mutating func refuseResumption(of account: ForeignText?, withCount: Bool) {
        refusals[account ?? ""] = Refusal(withCount: withCount)
    }

    /// Changes how `<r/>` is answered.
    package mutating func setAcknowledgements(
        _ value: ServerBehavior.Acknowledgements, of target: ServerTarget
    ) {
        for number in sessions(of: target) { sessions[number]?.acknowledgements = value }
    }

    /// Sends an element as it is: stanzas through the queues of sessions, with or without connection.
    package mutating func send(_ element: Element, to target: ServerTarget) {
        let isStanza = Stanza.isStanza(element)
        if isStanza { for number in sessions(of: target) { deliver(element, to: number) } }
        for connection in connections(of: target) where !isStanza || streams[connection]?.session == nil {
            sendPlain(element, on: connection)
        }
    }

    // MARK: Bots

    /// Makes a full address answer from inside the server. A session that has the address ends.
    package mutating func addBot(_ jid: JID) {
        guard let local = jid.local, let resource = jid.resource else { return }
        if case .session(let number) = endpoint(local, resource) { disconnect(number, .replaced) }
        removeBot(jid)
        accounts[local, default: Account()].resources.append((resource, .bot))
        let stored = accounts[local]?.offline ?? []
        accounts[local]?.offline = []
        for message in stored { perform(.deliver(jid, message)) }
    }

    package mutating func removeBot(_ jid: JID) {
        guard let local = jid.local else { return }
        accounts[local]?.resources.removeAll { $0.endpoint == .bot && $0.name == jid.resource }
    }

    /// Returns the messages that wait for an account's next presence, oldest first.
    package func offlineMessages(of account: ForeignText) -> [Element] { accounts[account]?.offline ?? [] }
}
