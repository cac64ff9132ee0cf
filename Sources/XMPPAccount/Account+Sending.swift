public import Handlers
public import IQTracker
import Synchronization
public import XMPPCore

// Sending writes rows. The loop writes what is committed to the socket, in order, now or in a later process.
extension Account {
    // MARK: Operations

    /// Sends an operation and stores the handler of its answer.
    ///
    /// Request, stanza and handlers are committed together before a byte is written. Without a connection the request waits
    /// for the next one, in order.
    ///
    /// ```swift
    /// let ping = Element("ping", namespace: Namespaces.ping)
    /// let request = IQ(type: .get, to: server, id: StanzaID.random(), payload: ping)
    /// try await account.send(.iq(request), then: Greeter.answered(name: "Juliet"))
    /// ```
    ///
    /// - Parameters:
    ///   - operation: The question, such as ``AccountOperation/iq(_:)``.
    ///   - then: Called with the result, the error or the timeout.
    ///   - orElse: Called with the reason when the answer can never come, such as after a lost session. Whether the
    ///     operation was carried out is then unknown.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for
    ///     ``AccountConfiguration/connectedRequestTimeout``.
    ///   - timeoutPolicy: Whether the handler is called or invalidated when the time is over.
    /// - Returns: The request's id, which ``cancelRequest(id:overriding:in:)`` takes.
    /// - Throws: ``AccountError`` `invalidStanza` for a question that cannot be sent, `stanzaTooLarge`, `outboxFull`,
    ///   `missingModule`, `ownershipLost` or `closed`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send<Context, Value>(
        _ operation: AccountOperation<Context, Value>, then: Durable<Context>,
        orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil,
        timeoutPolicy: RequestTimeoutPolicy = .call
    ) async throws -> String {
        try await perform { step in
            try self.send(
                operation, then: then, orElse: orElse, timeout: timeout, timeoutPolicy: timeoutPolicy,
                in: step)
        }
    }

    /// Sends an operation from inside a step, for example from a handler: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - operation: The question.
    ///   - then: Called with the result, the error or the timeout.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for
    ///     ``AccountConfiguration/connectedRequestTimeout``.
    ///   - timeoutPolicy: Whether the handler is called or invalidated when the time is over.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id, which ``cancelRequest(id:overriding:in:)`` takes.
    /// - Throws: ``AccountError`` `invalidStanza`, `stanzaTooLarge`, `outboxFull` or `missingModule`;
    ///   ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send<Context, Value>(
        _ operation: AccountOperation<Context, Value>, then: Durable<Context>,
        orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil,
        timeoutPolicy: RequestTimeoutPolicy = .call, in step: borrowing Step
    ) throws -> String {
        try operation.send(self, then.orElse(orElse), RequestTerms(timeout, timeoutPolicy), step)
    }

    /// Sends a request with the handler of its answer.
    ///
    /// - Returns: The row of the handler.
    @discardableResult
    package func send(
        request iq: IQ, then: Durable<IQReply>, _ terms: RequestTerms = RequestTerms(),
        in step: borrowing Step
    ) throws -> HandlerID<IQReply> {
        guard iq.type.isRequest else {
            throw AccountError(
                .invalidStanza, "an <iq/> of type '\(iq.type.rawValue)' asks nothing; send a get or a set")
        }
        // It is a part of a key of the table of requests.
        guard iq.id.token != nil else {
            throw AccountError(
                .invalidStanza,
                "the id of a request has \(ForeignBounds.token) bytes at most, and this one has \(iq.id.utf8.count)"
            )
        }
        try checkRoom(in: step)
        let xml = Serializer().bytes(try filtered(outgoing: iq.element, in: step))
        try checkSize(xml, in: step)
        let session = try sessions.openNumber(in: step)
        let handler = try step.bind(then)
        let connectedTime = try tables.connectedTime(in: step)
        // 5. Append.
        try requests.insert(
            stanzaID: iq.id, peer: iq.to, session: session, handler: handler,
            connectedDeadline: TimeSource.sum(
                connectedTime, terms.timeout ?? configuration.connectedRequestTimeout),
            timeoutPolicy: terms.policy, in: step)
        try outbox.append(.request, id: iq.id, xml: xml, in: step)
        try Failpoint.afterBind.hit()
        wakeAfterCommit(step)
        return handler
    }

    // MARK: Messages and presence

    /// Sends a message.
    ///
    /// - Parameters:
    ///   - message: The message; it is given a random id when it has none.
    ///   - key: Names it in ``AccountEvent/acknowledged(_:)`` and ``StanzaAcknowledged``, whatever its id is.
    ///   - acknowledged: Called once the server has taken responsibility for it (XEP-0198).
    /// - Returns: The message's id.
    /// - Throws: ``AccountError`` `stanzaTooLarge` or `outboxFull`; `EncodingError` for a key that cannot be encoded;
    ///   ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(
        _ message: Message, key: (any Encodable & Sendable)? = nil,
        acknowledged: Durable<StanzaAcknowledged>? = nil
    ) async throws -> String {
        try await perform { step in try self.send(message, key: key, acknowledged: acknowledged, in: step) }
    }

    /// Sends a message from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - message: The message; it is given a random id when it has none.
    ///   - key: Names it in ``AccountEvent/acknowledged(_:)`` and ``StanzaAcknowledged``, whatever its id is.
    ///   - acknowledged: Called once the server has taken responsibility for it (XEP-0198).
    ///   - step: The step that it commits with.
    /// - Returns: The message's id.
    /// - Throws: ``AccountError`` `stanzaTooLarge` or `outboxFull`; `EncodingError` for a key that cannot be encoded;
    ///   ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(
        _ message: Message, key: (any Encodable & Sendable)? = nil,
        acknowledged: Durable<StanzaAcknowledged>? = nil, in step: borrowing Step
    ) throws -> String {
        try checkRoom(in: step)
        var element = message.element
        let id = message.id ?? ForeignText(StanzaID.random())
        element["id"] = id
        element = try extended(message: element, to: message.to, in: step)
        element = try filtered(outgoing: element, in: step)
        let xml = Serializer().bytes(element)
        try checkSize(xml, in: step)
        if modules.giveBackMessages {
            try seen.recordSent(message.originID ?? id, own: configuration.jid, in: step)
        }
        let handler =
            if let acknowledged { try step.bind(acknowledged) } else { HandlerID<StanzaAcknowledged>?.none }
        try outbox.append(
            .message, id: id, key: AcknowledgedStanza.storing(key), xml: xml,
            handler: handler, in: step)
        wakeAfterCommit(step)
        return id.string
    }

    /// Sends presence from inside a step. It is not sent again in a later session.
    ///
    /// - Parameters:
    ///   - presence: The presence; what modules add to it, such as capabilities, is added here.
    ///   - key: Names it in ``AccountEvent/acknowledged(_:)`` and ``StanzaAcknowledged``.
    ///   - acknowledged: Called once the server has taken responsibility for it (XEP-0198).
    ///   - step: The step that it commits with.
    /// - Throws: ``AccountError`` `stanzaTooLarge` or `outboxFull`; `EncodingError` for a key that cannot be encoded;
    ///   ``/Handlers/HandlerError`` when the store fails.
    public func send(
        _ presence: Presence, key: (any Encodable & Sendable)? = nil,
        acknowledged: Durable<StanzaAcknowledged>? = nil, in step: borrowing Step
    ) throws {
        try checkRoom(in: step)
        let xml = Serializer().bytes(try filtered(outgoing: extended(presence.element, in: step), in: step))
        try checkSize(xml, in: step)
        let handler =
            if let acknowledged { try step.bind(acknowledged) } else { HandlerID<StanzaAcknowledged>?.none }
        try ownPresence.record(presence, in: step)
        try outbox.append(
            .presence, id: presence.id, key: AcknowledgedStanza.storing(key), xml: xml,
            handler: handler, in: step)
        wakeAfterCommit(step)
    }

    /// Cancels a request: its handler ends as invalidated with reason `cancelled`. A late answer is ignored. An
    /// operation of
    /// several requests is canceled by the id of the first one, whichever of them waits.
    ///
    /// - Parameters:
    ///   - id: The id under which the request was sent.
    ///   - overrides: Call-time arguments of what runs instead of the handler, which win over bound ones by name.
    ///   - step: The step that it commits with.
    /// - Returns: False when no such request waits.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func cancelRequest(
        id: some TextConvertible, overriding overrides: Record = [:], in step: borrowing Step
    ) throws -> Bool {
        let canceled = try requests.cancel(
            id: id.foreignText, overriding: overrides, environment: self, in: step)
        guard let canceled else { return false }
        try outbox.withdraw(requestID: canceled.stanzaID, in: step)
        return true
    }

    /// Sends a message that is of no use later than now.
    ///
    /// - Returns: False when there is no stream.
    package func sendFleeting(_ message: Element, in step: borrowing Step) throws -> Bool {
        guard try sessions.openNumber(in: step) != nil else { return false }
        try checkRoom(in: step)
        let peer = message["to"].flatMap { try? JID(received: $0) }
        let message = try extended(message: message, to: peer, in: step)
        let xml = Serializer().bytes(try filtered(outgoing: message, in: step))
        try checkSize(xml, in: step)
        try outbox.append(.fleeting, id: message["id"], xml: xml, in: step)
        wakeAfterCommit(step)
        return true
    }

    /// Sends a message that the library makes by itself out of text of others, such as a receipt. One that this text makes larger
    /// than every server takes is not sent but reported: it would end the stream.
    package func sendUnasked(_ message: Message, in step: borrowing Step) throws {
        guard StanzaLimit.fits(message.element) else {
            return ignore(message.element, Self.tooLargeOfOthers, after: step)
        }
        try send(message, in: step)
    }

    /// Answers an inbound request. Where too many stanzas wait to be sent the answer is dropped and reported: anybody can
    /// send requests, also while the server takes nothing. So is one that the sender's id and address alone make too large.
    func reply(_ iq: Element, in step: borrowing Step) throws {
        guard (iq["id"] ?? "").token != nil else { return ignore(iq, Self.longID, after: step) }
        guard try usingReserve(in: step, { try hasRoom(in: step) }) else {
            let reason = "\(configuration.maximumOutbox) stanzas wait to be sent, so this answer is dropped"
            return ignore(iq, reason, after: step)
        }
        // Whoever asked shall not wait for an answer that a filter stops, or that the server does not take.
        var xml = Serializer().bytes(
            try filtered(unasked: iq, in: step) ?? refusal(of: iq, .serviceUnavailable))
        if !StanzaLimit.fits(xml) {
            let refusal = Serializer().bytes(try refusal(of: iq, .resourceConstraint))
            guard StanzaLimit.fits(refusal) else {
                return ignore(iq, Self.tooLargeOfOthers, after: step)
            }
            if try isTooLarge(xml, in: step) { xml = refusal }
        }
        try outbox.append(.reply, id: iq["id"], xml: xml, in: step)
    }

    static let longID = "its id is longer than \(ForeignBounds.token) bytes, so it is not answered"
    private static let tooLargeOfOthers =
        "not sent: text of others makes it larger than \(StanzaLimit.always) bytes"

    private func refusal(of answer: Element, _ condition: OpenName<StanzaError>) throws -> Element {
        let peer = try answer["to"].map { try JID(received: $0) }
        return InboundRequestTable.refusal(to: peer, id: answer["id"] ?? "", StanzaError(condition)).element
    }

    // MARK: Listening

    /// Lets a stored handler receive every message, in whatever process receives it.
    ///
    /// - Parameters:
    ///   - key: Names this listener; the same key replaces it, so a program may call this at every start.
    ///   - handler: Called once for each message, inside the step that counts it.
    ///   - isOrdered: Whether a message waits while an earlier one is tried again, is parked or waits for a runner. False by default: a later
    ///     one is not held up by it. Another handler under this key, another version or other arguments do not wait
    ///     for calls of the handler before.
    /// - Throws: ``AccountError`` `ownershipLost` or `closed`; ``/Handlers/HandlerError`` when the store fails.
    public func listen(
        as key: String, _ handler: Durable<MessageReceived>, ordered isOrdered: Bool = false
    ) async throws {
        // A program that takes over thousands of accounts finds most set, and needs no step for these.
        let isSet =
            try !isOrdered && !mailbox.isClosed
            && store.peek { try listeners.isSet(ListenerTable.messages, key: key, to: handler, in: $0) }
        if isSet { return }
        try await perform { step in try self.listen(as: key, handler, ordered: isOrdered, in: step) }
    }

    /// Lets a stored handler receive every message, from inside a step.
    ///
    /// - Parameters:
    ///   - key: Names this listener; the same key replaces it.
    ///   - handler: Called once for each message, inside the step that counts it.
    ///   - isOrdered: Whether a message waits while an earlier one is tried again, is parked or waits for a runner. False by default: a later
    ///     one is not held up by it. Another handler under this key, another version or other arguments do not wait
    ///     for calls of the handler before.
    ///   - step: The step that it commits with.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func listen(
        as key: String, _ handler: Durable<MessageReceived>, ordered isOrdered: Bool = false,
        in step: borrowing Step
    ) throws {
        try listeners.set(ListenerTable.messages, key: key, to: handler, ordered: isOrdered, in: step)
    }

    /// Ends what ``listen(as:_:ordered:)`` started.
    ///
    /// - Parameters:
    ///   - key: The listener's name.
    ///   - step: The step that it commits with.
    /// - Returns: False if there was no listener under that key.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func stopListening(as key: String, in step: borrowing Step) throws -> Bool {
        try listeners.remove(ListenerTable.messages, key: key, in: step)
    }

    // MARK: Inside

    /// Returns whether the outbox takes one more.
    ///
    /// - Parameter mayUseReserve: Whether ``OutboxReserve`` counts where it is open.
    package func hasRoom(mayUseReserve: Bool = true, in step: borrowing Step) throws -> Bool {
        let limit = configuration.maximumOutbox
        return try outbox.hasRoom(mayUseReserve ? OutboxReserve.limit(limit, in: step) : limit, in: step)
    }

    private func checkRoom(in step: borrowing Step) throws {
        guard try hasRoom(in: step) else {
            throw AccountError(
                .outboxFull,
                "\(configuration.maximumOutbox) stanzas of \(configuration.jid) wait to be sent; wait until the account has been connected"
            )
        }
    }

    /// Wakes the owner of the stream after the commit, here or in another process, to handle what the step wrote.
    func wakeAfterCommit(_ step: borrowing Step) {
        // A step of the loop itself reads the outbox at its end.
        let isRead = mailbox.isOnLoop
        step.afterCommit { [self] in
            if !isRead { mailbox.recordRows() }
            if !ownsStream.load(ordering: .relaxed) { store.notifyOthers() }
        }
    }
}
