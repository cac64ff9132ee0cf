public import XMPPCore

extension ScriptedServer {
    /// An account that lives in the server: the independent peer of a test.
    ///
    /// Its messages pass through the same routing as those of clients, but it has no connection to lose.
    ///
    /// ```swift
    /// let peer = server.addBot(jid: try JID("peer@localhost/bot")) { stanza, bot in bot.answer(stanza) }
    /// ```
    public struct Bot: Sendable {
        /// Its full address.
        public let jid: JID
        let server: Core

        /// Sends a stanza from this address, now or later, from any thread, without waiting.
        ///
        /// Stanzas that one thread sends keep their order. The server puts in `from`.
        ///
        /// - Parameter stanza: The stanza, with its `to`.
        public func send(_ stanza: Element) { server.submit(.stanza(stanza, from: jid)) }

        /// Answers a request with success. Does nothing with a result, an error or anything else.
        ///
        /// - Parameters:
        ///   - request: What was received.
        ///   - payload: What the answer carries; nil for nothing.
        public func answer(_ request: Element, payload: Element? = nil) {
            guard let answer = (try? IQ(element: request))?.result(payload: payload) else { return }
            send(answer.element)
        }

        /// Answers a request with an error. Does nothing with a result, an error or anything else.
        ///
        /// - Parameters:
        ///   - request: What was received.
        ///   - error: What the answer says.
        public func refuse(_ request: Element, _ error: StanzaError) {
            guard let answer = (try? IQ(element: request))?.errorReply(error) else { return }
            send(answer.element)
        }
    }

    /// Gets every stanza for a bot, on the server's thread: it must not block.
    package typealias BotHandler = @Sendable (_ stanza: Element, _ bot: Bot) -> Void

    /// Adds a bot, or gives an existing one another handler. The account needs no password for it.
    ///
    /// ```swift
    /// let peer = server.addBot(jid: try JID("peer@localhost/bot")) { stanza, bot in
    ///     bot.answer(stanza, payload: Element("done", namespace: "urn:example:work"))
    /// }
    /// peer.send(Message(to: alice, id: "m1", body: "Hello").element)
    /// ```
    ///
    /// A bot is always available: it gets messages to its bare address too, and at once those that wait for it. Its
    /// handler should not hold the server, which holds the handler.
    ///
    /// - Parameters:
    ///   - jid: A full address in the server's domain. A client's session with this address ends.
    ///   - handler: Gets what is sent to the bot.
    /// - Returns: The bot, to send from it.
    @discardableResult
    public func addBot(
        jid: JID, handler: @escaping @Sendable (_ stanza: Element, _ bot: Bot) -> Void = { _, _ in }
    ) -> Bot {
        core.perform { loop in
            loop.lasting.bots[jid] = handler
            loop.lasting.domain.addBot(jid)
        }
        return Bot(jid: jid, server: core)
    }

    /// Adds a service at an address that no client uses: a room, a service, or an account's archive.
    ///
    /// ```swift
    /// server.addService(at: try JID("alice@localhost"), for: [Namespaces.mam]) { request, service in service.answer(request) }
    /// ```
    ///
    /// - Parameters:
    ///   - jid: A bare address; it need not be in the server's domain.
    ///   - namespaces: Which requests it answers, by their payload, such as of an account that the server serves
    ///     otherwise; nil for every stanza to that address.
    ///   - handler: Gets what is sent there.
    /// - Returns: The service, to send from it.
    @discardableResult
    public func addService(
        at jid: JID, for namespaces: Set<String>? = nil,
        handler: @escaping @Sendable (_ stanza: Element, _ bot: Bot) -> Void
    ) -> Bot {
        core.perform { loop in
            loop.lasting.bots[jid.bare] = handler
            loop.lasting.domain.services[jid.bare] = .some(namespaces)
        }
        return Bot(jid: jid.bare, server: core)
    }

    /// Removes a bot; requests to it are answered with `service-unavailable` from now on.
    ///
    /// - Parameter jid: Its full address.
    package func removeBot(jid: JID) {
        core.perform { loop in
            loop.lasting.bots[jid] = nil
            loop.lasting.domain.removeBot(jid)
        }
    }

    /// Sends a stanza from any address without waiting. It may be a bot's, or one that does not exist.
    ///
    /// It is routed as usual: by its `to`, through offline store and queue. To put an element on a connection as it is,
    /// use ``send(_:to:)``.
    ///
    /// - Parameters:
    ///   - stanza: The stanza, with its `to`.
    ///   - sender: The address that the server puts in as `from`.
    public func send(_ stanza: Element, from sender: JID) { core.submit(.stanza(stanza, from: sender)) }
}
