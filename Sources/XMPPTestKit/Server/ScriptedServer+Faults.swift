public import XMPPCore

extension ScriptedServer {
    // MARK: Connections

    /// Breaks connections: now, or as soon as so many more bytes of the stream were sent or received on each.
    ///
    /// - Parameters:
    ///   - target: Whose.
    ///   - sent: Bytes of XML, not of TLS; 0 or more. What is sent ends exactly there, in the midst of an element if need be.
    ///     With the ending `.finish` all of these bytes arrive; with `.reset` some may be lost.
    ///   - received: Bytes of XML, 0 or more. What was complete in these bytes is handled and counted, but answers to the
    ///     last of them are not sent any more.
    ///   - ending: How they break; nil for `.finish` after sent bytes, and `.reset` otherwise.
    public func dropConnections(
        of target: ServerTarget = .everyone, afterSending sent: Int? = nil,
        afterReceiving received: Int? = nil, _ ending: ConnectionEnding? = nil
    ) {
        core.perform { loop in
            for connection in loop.connections(of: target) {
                if let sent {
                    connection.sendBudget = ServerConnection.Budget(bytes: sent, ending: ending ?? .finish)
                }
                if let received {
                    connection.receiveBudget = ServerConnection.Budget(
                        bytes: received, ending: ending ?? .reset)
                }
                if sent == nil, received == nil { loop.lose(connection, ending ?? .reset) }
            }
        }
    }

    /// Breaks the next connection that comes, after so many bytes of XML in one of the directions. Called several
    /// times, it concerns as many connections, one after the other.
    ///
    /// - Parameters:
    ///   - sent: How many bytes are sent before; nil for any number.
    ///   - received: How many bytes are received before; nil for any number.
    ///   - ending: How it breaks.
    package func dropNextConnection(
        afterSending sent: Int? = nil, afterReceiving received: Int? = nil,
        _ ending: ConnectionEnding = .finish
    ) {
        let fault = ServerLoop.UpcomingFault(
            sending: sent.map { ServerConnection.Budget(bytes: $0, ending: ending) },
            receiving: received.map { ServerConnection.Budget(bytes: $0, ending: ending) })
        core.perform { $0.upcomingFaults.append(fault) }
    }

    /// Resets all new connections at once from now on, or accepts them again.
    ///
    /// - Parameter isRefusing: False lets clients in again.
    package func refuseConnections(_ isRefusing: Bool = true) {
        core.perform { $0.refusesConnections = isRefusing }
    }

    /// A direction of a connection, seen from the server.
    ///
    /// ```swift
    /// server.pause([.writing])  // half-open: what clients send still arrives
    /// ```
    public enum Direction: Hashable, Sendable {
        /// Bytes from the client: nothing is read, so nothing is counted or answered, and the client's sending stalls at last.
        case reading
        /// To the client: everything is held back in the server.
        case writing
    }

    /// Holds connections that exist now, as a network that lost its link does: nothing is closed.
    ///
    /// - Parameters:
    ///   - directions: Which directions.
    ///   - target: Whose.
    public func pause(
        _ directions: Set<Direction> = [.reading, .writing], of target: ServerTarget = .everyone
    ) {
        setPaused(true, directions, target)
    }

    /// Lets held connections go on; what was held back follows.
    ///
    /// - Parameters:
    ///   - directions: Which directions.
    ///   - target: Whose.
    public func unpause(
        _ directions: Set<Direction> = [.reading, .writing], of target: ServerTarget = .everyone
    ) {
        setPaused(false, directions, target)
    }

    /// Sends nothing any more on the connections that exist now, while what they send is still handled.
    ///
    /// - Parameter target: Whose.
    package func freezeWrites(of target: ServerTarget = .everyone) { pause([.writing], of: target) }

    private func setPaused(_ isPaused: Bool, _ directions: Set<Direction>, _ target: ServerTarget) {
        core.perform { loop in
            for connection in loop.connections(of: target) {
                if directions.contains(.reading) { connection.isReadingPaused = isPaused }
                if directions.contains(.writing) { connection.isWritingPaused = isPaused }
            }
        }
    }

    // MARK: Sessions

    /// Ends sessions as if their time were over: they can be resumed no longer. Messages that were not acknowledged go to the
    /// account's other resources or to the offline store, unless another resource got them, too. A session that has a connection
    /// gets the stream error `conflict`.
    ///
    /// - Parameter target: Whose.
    public func expireSessions(of target: ServerTarget = .everyone) {
        core.perform { $0.lasting.domain.expire(target) }
    }

    /// Refuses the next resumption with `item-not-found`; the session is over then.
    ///
    /// - Parameters:
    ///   - account: Its localpart; nil for the next client.
    ///   - withCount: Whether `<failed/>` carries the count of the session, if it is known.
    public func refuseNextResumption(of account: (any TextConvertible)? = nil, withCount: Bool = false) {
        core.perform { $0.lasting.domain.refuseResumption(of: account?.foreignText, withCount: withCount) }
    }

    /// Changes how `<r/>` is answered in the sessions that exist now. For later ones see ``update(_:)``.
    ///
    /// - Parameters:
    ///   - acknowledgements: How it is answered from now on.
    ///   - target: Whose.
    public func setAcknowledgements(
        _ acknowledgements: ServerBehavior.Acknowledgements, of target: ServerTarget = .everyone
    ) {
        core.perform { $0.lasting.domain.setAcknowledgements(acknowledgements, of: target) }
    }

    /// Changes how the server behaves towards streams and sessions that start after this call.
    ///
    /// - Parameter change: Changes the behavior in place, on the server's thread.
    public func update(_ change: @escaping @Sendable (inout ServerBehavior) -> Void) {
        core.perform { loop in
            change(&loop.lasting.domain.behavior)
            let behavior = loop.lasting.domain.behavior
            // Cannot fail: a password that one hash took is taken by all.
            try? loop.lasting.domain.credentials.prepare(
                for: behavior.mechanisms + behavior.extensibleMechanisms)
        }
    }

    /// Makes every token that was given useless (XEP-0484).
    package func revokeTokens() { core.perform { $0.lasting.domain.tokens.revokeAll() } }

    // MARK: Elements

    /// Puts an element on connections as it is, without any check. A stanza is counted and kept until acknowledged, as
    /// all are, also for a session that has no connection at the moment.
    ///
    /// - Parameters:
    ///   - element: The element.
    ///   - target: The connections.
    public func send(_ element: Element, to target: ServerTarget) {
        core.perform { loop in loop.lasting.domain.send(element, to: target) }
    }

    /// Puts text on connections as it is: half an element, or no XML at all. Nothing is counted or logged.
    ///
    /// - Parameters:
    ///   - text: The text, as UTF-8.
    ///   - target: The connections.
    package func send(raw text: String, to target: ServerTarget) {
        core.perform { loop in
            for connection in loop.connections(of: target) { connection.output += text.utf8 }
        }
    }

    /// Writes other text in place of elements: what no serializer would write. A stanza is counted, kept and sent again as
    /// the element is.
    ///
    /// ```swift
    /// server.setWriting { $0["id"] == "bad" ? "<message id='bad'><x xmlns=''&</message>" : nil }
    /// ```
    ///
    /// - Parameter writing: The text for an element; nil for the element itself. Nil in its place ends that.
    package func setWriting(_ writing: (@Sendable (Element) -> String?)?) {
        core.perform { $0.lasting.writing = writing }
    }

    /// Gives every element of a client to a script first. Nil ends that.
    ///
    /// - Parameter script: Decides about each element; nil to treat all as usual.
    public func setScript(_ script: (@Sendable (Element, ServerSessionInfo) -> ServerVerdict)?) {
        core.perform { $0.lasting.script = script }
    }

    // MARK: Looking inside

    /// Returns the messages that wait for an account's next presence, oldest first. Empty while the server does not run.
    ///
    /// - Parameter account: Its localpart.
    /// - Returns: The messages as they will be delivered.
    package func offlineMessages(of account: some TextConvertible) -> [Element] {
        core.ask { $0.lasting.domain.offlineMessages(of: account.foreignText) } ?? []
    }

    /// The full addresses that have a session now, sorted. Those that wait to be resumed included. Empty while the server
    /// does not run.
    public var boundAddresses: [JID] {
        core.ask { loop in loop.lasting.domain.sessions.values.map(\.jid).sorted { "\($0)" < "\($1)" } } ?? []
    }
}
