package import XMPPTransport
package import XMPPCore

extension ServerDomain {
    // MARK: Connections

    /// Handles an accepted connection.
    ///
    /// - Parameter isSecure: False when TLS is still to start by `<starttls/>`.
    package mutating func connected(_ connection: Int, isSecure: Bool) {
        streams[connection] = Stream(negotiation: ServerNegotiation(isSecure: isSecure))
        log(.connected, connection: connection)
    }

    /// Handles the end of the TLS handshake of a connection.
    package mutating func secured(_ connection: Int, bindings: ChannelBindings) {
        streams[connection]?.negotiation.secured(bindings: bindings)
    }

    /// Handles a connection lost without `</stream:stream>`: its session waits for resumption, or ends.
    package mutating func lost(_ connection: Int) {
        guard let stream = streams.removeValue(forKey: connection) else { return }
        log(.disconnected, connection: connection, session: stream.session)
        if let number = stream.session { detach(number, from: connection) }
    }

    /// Handles the end of a client's stream and session (XEP-0198 section 5).
    package mutating func closed(_ connection: Int) {
        guard let stream = streams.removeValue(forKey: connection) else { return }
        if let number = stream.session {
            if let session = sessions[number], session.isEnabled {
                perform(session.answer(), session: number)
            }
            end(number, .closedCleanly)
        }
        log(.disconnected, connection: connection, session: stream.session)
        perform(.close(connection))
    }

    /// Handles a stream that cannot be read any further.
    package mutating func failed(_ connection: Int, _ error: StreamError) {
        guard let stream = streams[connection] else { return }
        if let number = stream.session { giveUp(number, error) } else { refuse(connection, error) }
    }

    // MARK: Elements

    /// Handles a stream header.
    package mutating func opened(_ header: Element, on connection: Int) {
        guard let actions = streams[connection]?.negotiation.opened(header, domain: name, behavior: behavior)
        else { return }
        perform(actions, on: connection)
    }

    /// Returns the session of a connection, for a script.
    package func info(_ connection: Int, _ element: Element) -> ServerSessionInfo {
        let stream = streams[connection]
        let session = stream?.session.flatMap { sessions[$0] }
        let isCounted = session?.isEnabled == true && Stanza.isStanza(element)
        return ServerSessionInfo(
            connection: connection, account: stream?.negotiation.account, session: session?.number,
            jid: session?.jid, count: isCounted ? session.map { $0.received &+ 1 } : nil)
    }

    /// Handles a first-level element.
    package mutating func receive(_ element: Element, on connection: Int, verdict: ServerVerdict = .pass) {
        guard let stream = streams[connection] else { return }
        if verdict == .closeConnection {
            perform(.drop(connection, .reset))
            return lost(connection)
        }
        let isStanza = Stanza.isStanza(element)
        let isEnabled = stream.session.flatMap { sessions[$0]?.isEnabled } ?? false
        log(
            .received, element, connection: connection, session: stream.session,
            isCounted: isStanza && isEnabled)
        if verdict == .pass { return handle(element, on: connection) }
        if isStanza, let number = stream.session { sessions[number]?.count() }
        switch verdict {
        case .replace(let elements):
            for element in elements { handleUncounted(element, on: connection) }
        case .answer(let elements): for element in elements { send(element, onConnection: connection) }
        case .pass, .drop, .closeConnection: break
        }
    }

    /// Sends an element as it is: stanzas through the session's queue, everything else beside it.
    package mutating func send(_ element: Element, onConnection connection: Int) {
        if let number = streams[connection]?.session, Stanza.isStanza(element) {
            deliver(element, to: number)
        } else if streams[connection] != nil {
            sendPlain(element, on: connection)
        }
    }

    private mutating func handle(_ element: Element, on connection: Int) {
        guard let number = streams[connection]?.session else { return negotiate(element, on: connection) }
        guard let actions = sessions[number]?.receive(element) else { return }
        for action in actions { perform(action, session: number) }
    }

    private mutating func handleUncounted(_ element: Element, on connection: Int) {
        if Stanza.isStanza(element), let number = streams[connection]?.session {
            route(element, from: number)
        } else {
            handle(element, on: connection)
        }
    }

    private mutating func negotiate(_ element: Element, on connection: Int) {
        let actions = streams[connection]?.negotiation.receive(
            element, credentials: credentials, behavior: behavior, tokens: &tokens)
        perform(actions ?? [], on: connection)
    }

    private mutating func perform(_ actions: [ServerNegotiation.Action], on connection: Int) {
        for action in actions {
            switch action {
            case .header(let to): perform(.header(connection, to: to, id: makeID()))
            case .send(let element): sendPlain(element, on: connection)
            case .startTLS: perform(.startTLS(connection))
            case .restart: perform(.restart(connection))
            case .bind(let request): bind(request, on: connection)
            case .resume(let request): resume(request, on: connection)
            case .complete(let success, let request, let wanted):
                complete(success, resume: request, bind: wanted, on: connection)
            case .fail(let error): refuse(connection, error)
            }
        }
    }

    /// Ends a stream that carries no session, or no longer.
    mutating func refuse(_ connection: Int, _ error: StreamError) {
        guard let stream = streams[connection] else { return }
        if stream.negotiation.needsHeader { perform(.header(connection, to: nil, id: makeID())) }
        sendPlain(error.element, on: connection)
        streams[connection] = nil
        log(.disconnected, connection: connection, session: stream.session)
        perform(.close(connection))
    }
}
