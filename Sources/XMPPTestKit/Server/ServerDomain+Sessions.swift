package import XMPPCore

extension ServerDomain {
    // MARK: Binding (RFC 6120 section 7)

    mutating func bind(_ element: Element, on connection: Int) {
        guard let account = streams[connection]?.negotiation.account else { return }
        guard let request = try? IQ(element: element), request.type == .set else {
            return refuse(connection, StreamError(.badFormat))
        }
        let wanted = request.payload?.child("resource", Namespaces.bind)?.text ?? ""
        guard let jid = try? JID(local: account, domain: name, resource: wanted.isEmpty ? makeID() : wanted)
        else { return answer(request, .badRequest, on: connection) }
        guard start(jid, on: connection) != nil else { return answer(request, .conflict, on: connection) }
        let bound = Element(
            "bind", namespace: Namespaces.bind,
            children: [Element("jid", namespace: Namespaces.bind, text: jid.description)])
        if let result = request.result(payload: bound) { sendPlain(result.element, on: connection) }
    }

    /// Starts a session with that address; nil when a bot has it.
    mutating func start(_ jid: JID, on connection: Int) -> Int? {
        guard let local = jid.local, let resource = jid.resource else { return nil }
        switch endpoint(local, resource) {
        case .bot: return nil
        case .session(let older): replace(older)
        case nil: break
        }
        lastSession += 1
        let number = lastSession
        sessions[number] = ServerSession(
            number: number, jid: jid, connection: connection, id: makeID(), behavior: behavior)
        accounts[local, default: Account()].resources.append((resource, .session(number)))
        streams[connection]?.session = number
        streams[connection]?.negotiation.establish()
        nameSession(number, jid)
        log(.bound, connection: connection, session: number)
        return number
    }

    private mutating func answer(_ request: IQ, _ condition: OpenName<StanzaError>, on connection: Int) {
        guard let reply = request.errorReply(StanzaError(condition)) else { return }
        sendPlain(reply.element, on: connection)
    }

    /// RFC 6120 section 7.7.2.2: the older session with the same address ends.
    private mutating func replace(_ number: Int) {
        let connection = sessions[number]?.connection
        end(number, .replaced)
        if let connection { refuse(connection, StreamError(.conflict)) }
    }

    // MARK: Resuming (XEP-0198 section 5)

    mutating func resume(_ element: Element, on connection: Int) {
        guard let account = streams[connection]?.negotiation.account, let previous = element["previd"],
            let h = element["h"].flatMap({ UInt32($0) })
        else { return sendPlain(ServerSession.failed("bad-request"), on: connection) }
        // An id belongs to one account; another one learns nothing from asking.
        let number = resumable[previous].flatMap { sessions[$0]?.jid.local == account ? $0 : nil }
        if let refusal = refusals.removeValue(forKey: ForeignText(account))
            ?? refusals.removeValue(forKey: "")
        {
            if let number { disconnect(number, .expired) }
            return refuseResumption(previous, on: connection, withCount: refusal.withCount)
        }
        guard let number else {
            return refuseResumption(previous, on: connection, withCount: behavior.reportsLostCount)
        }
        if let old = sessions[number]?.connection {
            sessions[number]?.detach()
            log(.detached, connection: old, session: number)
            streams[old]?.session = nil
            refuse(old, StreamError(.conflict))
        }
        attach(number, to: connection, h: h)
    }

    private mutating func attach(_ number: Int, to connection: Int, h: UInt32) {
        guard let actions = sessions[number]?.resume(h: h, on: connection) else { return }
        if case .end(let error) = actions.first {
            end(number, .expired)
            return refuse(connection, error)
        }
        expiries[number] = nil
        streams[connection]?.session = number
        streams[connection]?.negotiation.establish()
        log(.resumed, connection: connection, session: number)
        for action in actions { perform(action, session: number) }
        deliveredTo.append(number)
    }

    private mutating func refuseResumption(_ id: ForeignText, on connection: Int, withCount: Bool) {
        log(.resumeFailed, connection: connection, id: id)
        let count = withCount ? lostCounts[id] : nil
        sendPlain(ServerSession.failed("item-not-found", h: count), on: connection)
    }

    // MARK: Detaching and ending

    /// The session's connection is gone.
    mutating func detach(_ number: Int, from connection: Int) {
        guard let session = sessions[number] else { return }
        guard session.isResumable else { return end(number, .expired) }
        sessions[number]?.detach()
        let expiry = time.monotonic + session.window
        expiries[number] = expiry
        firstExpiry = min(firstExpiry ?? expiry, expiry)
        log(.detached, connection: connection, session: number)
    }

    /// Ends a session and its stream with an error.
    mutating func giveUp(_ number: Int, _ error: StreamError) {
        let connection = sessions[number]?.connection
        if let connection { sendPlain(error.element, on: connection) }
        end(number, .expired)
        guard let connection, streams.removeValue(forKey: connection) != nil else { return }
        log(.disconnected, connection: connection, session: number)
        perform(.close(connection))
    }

    /// Ends a session, and its connection if it has one: with a conflict when another took its place (RFC 6120 section
    /// 4.9.3.3).
    mutating func disconnect(_ number: Int, _ event: ServerLogEntry.Event) {
        let connection = sessions[number]?.connection
        end(number, event)
        if let connection { refuse(connection, StreamError(event == .replaced ? .conflict : .reset)) }
    }

    /// Ends a session. What the client never acknowledged goes where it would go now.
    mutating func end(_ number: Int, _ event: ServerLogEntry.Event) {
        guard let session = sessions[number], let local = session.jid.local else { return }
        let connection = session.connection
        let unacknowledged = sessions[number]?.end() ?? []
        sessions[number] = nil
        expiries[number] = nil
        accounts[local]?.resources.removeAll { $0.endpoint == .session(number) }
        if let connection { streams[connection]?.session = nil }
        if let id = session.resumptionID.map({ ForeignText($0) }) {
            resumable[id] = nil
            if lostCounts.count >= Self.lostCountLimit { lostCounts.removeAll() }
            lostCounts[id] = session.received
        }
        log(event, connection: connection, session: number)
        for entry in unacknowledged { salvage(entry, of: session.jid) }
    }

    // MARK: Time

    /// When ``advance(to:)`` has something to do next, on the monotonic clock.
    package var nextDue: Int64? {
        [firstExpiry, dueAnswers.map(\.due).min()].compactMap(\.self).min()
    }

    /// Advances the time.
    package mutating func advance(to time: ServerTime) {
        self.time = time
        let answers = dueAnswers.filter { $0.due <= time.monotonic }
        if !answers.isEmpty { dueAnswers.removeAll { $0.due <= time.monotonic } }
        for answer in answers.sorted(by: { $0.due < $1.due }) {
            if let action = sessions[answer.session]?.answer() { perform(action, session: answer.session) }
        }
        guard let first = firstExpiry, first <= time.monotonic else { return }
        let over = expiries.filter { $0.value <= time.monotonic }
        firstExpiry = expiries.values.lazy.filter { $0 > time.monotonic }.min()
        for (number, _) in over.sorted(by: { ($0.value, $0.key) < ($1.value, $1.key) }) {
            end(number, .expired)
        }
    }

    /// Ends a turn, after everything that arrived together: sends ack requests.
    package mutating func endTurn() {
        guard !deliveredTo.isEmpty else { return }
        let numbers = deliveredTo
        deliveredTo = []
        for number in numbers {
            if let action = sessions[number]?.requestAcknowledgement() { perform(action, session: number) }
        }
    }

    /// Stops the server: every session ends, offline messages stay.
    package mutating func shutDown(_ error: StreamError) {
        for number in sessions.keys.sorted() {
            if sessions[number]?.connection == nil { end(number, .expired) } else { giveUp(number, error) }
        }
        for connection in streams.keys.sorted() { refuse(connection, error) }
    }
}
