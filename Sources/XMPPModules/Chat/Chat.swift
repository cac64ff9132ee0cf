public import Handlers
package import XMPPAccount
public import XMPPCore

/// Messages between two people, in the name of one account; see ``ChatModule``.
///
/// A value that refers to its account; make one whenever it is needed, through `Account.chat`.
///
/// ```swift
/// let id = try await account.perform { try account.chat.send(Message(to: juliet, body: "But soft!"), in: $0) }
/// for await delivery in account.events(of: Delivery.self) where delivery.id == id { … }
/// ```
public struct Chat: Sendable {
    let account: Account

    private var table: DeliveryTable { DeliveryTable(account: account.id) }

    /// The default time limit of a delivery.
    package static let patience = Duration.seconds(7 * 86_400)

    // MARK: Sending

    /// Sends a message and watches its delivery: the server has it, the recipient's client has it.
    ///
    /// - Parameters:
    ///   - message: A message of type `chat` or `normal` with a recipient. It gets a random id when it has none, an origin
    ///     id, the request for a receipt, and in a chat the state ``/XMPPCore/ChatState/active`` beside a text.
    ///   - patience: How long a receipt is waited for, each time it is sent, by the wall clock; a millisecond or
    ///     more.
    ///   - attempts: How often it is sent in all; 1 or more. Again means the same message with the same id, which the
    ///     recipient's client recognizes; XEP-0184 section 4 says when that is worth the trouble.
    ///   - then: Called once when the delivery is over: delivered, or failed.
    ///   - step: The step that it commits with.
    /// - Returns: The message's id.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `invalidStanza` for a message without a recipient, to a room, or
    ///   with an id that is being watched, `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(
        _ message: Message, within patience: Duration = .seconds(7 * 86_400), attempts: Int = 1,
        then: Durable<DeliveryEnded>? = nil, in step: borrowing Step
    ) throws -> String {
        let _: ChatModule = try account.module()
        guard let peer = message.to, message.type == .chat || message.type == .normal else {
            throw AccountError(
                .invalidStanza, "a delivery can be watched of a message of type chat or normal to somebody")
        }
        let id = message.id ?? ForeignText(StanzaID.random())
        guard id.token != nil else {
            throw AccountError(
                .invalidStanza,
                "the id of a watched message has \(ForeignBounds.token) bytes at most, and this one has \(id.utf8.count)"
            )
        }
        let complete = try Message(element: Self.complete(message, id: id))
        // Whoever catches the error must not be left with half of it.
        try step.undoingOnError {
            try watch(complete, id: id, to: peer, patience, max(1, attempts), then, in: step)
            try transmit(complete, in: step)
        }
        return id.string
    }

    private func watch(
        _ message: Message, id: ForeignText, to peer: JID, _ patience: Duration, _ tries: Int,
        _ then: Durable<DeliveryEnded>?, in step: borrowing Step
    ) throws {
        let timer = try step.schedule(
            DeliveryDeadline(stanzaID: id.string, attempt: 1).durable, after: patience, in: account.scope)
        let handler = if let then { try step.bind(then) } else { HandlerID<DeliveryEnded>?.none }
        let row = DeliveryTable.Row(
            delivery: Delivery(id: id, peer: peer, sentAt: step.now, attempts: 1), tries: tries,
            wait: max(1, patience.milliseconds), xml: Serializer().bytes(message.element), timer: timer,
            handler: handler)
        guard try table.insert(row, in: step) else {
            throw AccountError(
                .invalidStanza, "a message with the id '\(id)' was sent before; give each message its own id")
        }
    }

    /// Sends a message that asks for a receipt somewhere, and watches its delivery as ``send(_:within:attempts:then:in:)``.
    ///
    /// - Parameters:
    ///   - message: With a recipient and an id.
    ///   - acknowledged: Called once the server has taken responsibility for it.
    ///   - step: The step that it commits with.
    package func send(
        completed message: Message, acknowledged: Durable<StanzaAcknowledged>?, in step: borrowing Step
    ) throws {
        guard let id = message.id, let peer = message.to else { return }
        // Senders could otherwise fill the store of a program that answers them.
        if StableHash(id.utf8).value % UInt64(DeliveryTable.trimInterval) == 0 {
            for timer in try table.trim(in: step) where try step.waits(timer) {
                try step.invalidate(timer, reason: .cancelled, environment: account)
            }
        }
        try watch(message, id: id, to: peer, Self.patience, 1, nil, in: step)
        try transmit(message, then: acknowledged, in: step)
    }

    private func transmit(
        _ message: Message, then: Durable<StanzaAcknowledged>? = nil, in step: borrowing Step
    ) throws {
        let id = message.id?.string ?? ""
        let acknowledged = try MessageAcknowledged(stanzaID: id, then: then).durable
            .orElse(MessageUnacknowledged(stanzaID: id).durable)
        try account.send(message, acknowledged: acknowledged, in: step)
    }

    /// Returns what a message with text is to have beside these elements: the request for a receipt, and a chat state, without
    /// which clients do not show and send theirs (XEP-0085 section 5.1).
    package static func additions(to elements: [Element]) -> [Element] {
        var additions: [Element] = []
        if !elements.contains(where: { $0.has(name: "request", namespace: Namespaces.receipts) }) {
            additions.append(Element("request", namespace: Namespaces.receipts))
        }
        if !elements.contains(where: { $0.namespace == Namespaces.chatStates }) {
            additions.append(ChatState.active.element)
        }
        return additions
    }

    private static func complete(_ message: Message, id: ForeignText) -> Element {
        var element = message.element
        element["id"] = id
        // What says nothing, such as a marker, is no sign that somebody looks at the conversation.
        for addition in additions(to: element.elements)
        where addition.namespace != Namespaces.chatStates || (message.type == .chat && message.body != nil) {
            element.append(addition)
        }
        if element.child("origin-id", Namespaces.sid) == nil {
            element.append(Element("origin-id", namespace: Namespaces.sid, attributes: ["id": id]))
        }
        return element
    }

    /// Sends a chat state (XEP-0085). It is not sent again after a lost session, and not sent at all while there is no
    /// stream.
    ///
    /// - Parameters:
    ///   - state: What one does.
    ///   - peer: The recipient.
    ///   - step: The step that it commits with.
    /// - Returns: False when there is no stream.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule` or `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(_ state: ChatState, to peer: JID, in step: borrowing Step) throws -> Bool {
        let _: ChatModule = try account.module()
        let message = Message(to: peer, children: [state.element, ProcessingHint.noStore.element])
        return try account.sendFleeting(message.element, in: step)
    }

    // MARK: What became of it

    /// Returns the delivery of a sent message. Nil if it was not watched or is forgotten.
    ///
    /// - Parameters:
    ///   - id: The message's id.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The delivery.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func delivery(of id: some TextConvertible, in source: borrowing some Readable) throws -> Delivery?
    {
        try table.row(id.foreignText, in: source)?.delivery
    }

    /// Returns the last watched deliveries to a peer, newest first.
    ///
    /// - Parameters:
    ///   - peer: The address to which they were sent.
    ///   - limit: The most to return, from 1.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The deliveries.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func deliveries(to peer: JID, limit: Int = 100, in source: borrowing some Readable) throws
        -> [Delivery]
    {
        try table.rows(with: peer, limit: limit, in: source).map(\.delivery)
    }

    /// Forgets deliveries that are over.
    ///
    /// - Parameters:
    ///   - time: Those sent before this.
    ///   - step: The step that it commits with.
    /// - Returns: How many there were.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func forget(sentBefore time: Timestamp, in step: borrowing Step) throws -> Int {
        try table.forget(sentBefore: time, in: step)
    }

    // MARK: Inside

    /// The server has it.
    func recordAcknowledgement(_ id: ForeignText, in step: borrowing Step) throws {
        guard var row = try table.row(id, in: step), row.delivery.acknowledgedAt == nil else { return }
        row.delivery.acknowledgedAt = step.now
        try table.update(row, in: step)
        account.report(row.delivery, after: step)
    }

    /// An archive or another client's copy gave it back: the server has it.
    func recordEcho(_ message: MessageReceived, in step: borrowing Step) throws {
        // What is said in a room is not watched here, and anybody may say it.
        guard message.message.type != .groupchat, let id = message.message.originID else { return }
        try recordAcknowledgement(id, in: step)
    }

    /// XEP-0184 section 5.2: only the recipient confirms, whichever of its clients it is.
    package func recordReceipt(of id: ForeignText, _ message: MessageReceived, in step: borrowing Step) throws
    {
        guard message.source != .carbonSent, let row = try table.row(id, in: step),
            try isRecipient(message.message.from, of: row.delivery, in: step)
        else { return }
        try end(row, nil, in: step)
    }

    /// RFC 6120 section 8.3.1: an error comes from the recipient, or its server.
    func recordBounce(_ message: MessageReceived, in step: borrowing Step) throws {
        guard message.source == .direct, let id = message.message.id, let row = try table.row(id, in: step),
            try isRecipient(message.message.from, of: row.delivery, in: step),
            let error = message.message.error
        else { return }
        try end(row, .refused(error.condition), in: step)
    }

    /// Returns whether `sender` was the recipient. Occupants share the room's bare JID, so private messages are matched by full
    /// JID.
    private func isRecipient(_ sender: JID?, of delivery: Delivery, in step: borrowing Step) throws -> Bool {
        if sender == delivery.peer { return true }
        // Only who got the message knows a random id, whatever the server calls them.
        guard let sender,
            sender.bare == delivery.peer.bare
                || StanzaID.isRandom(delivery.id) && sender.bare.isForm(of: delivery.peer.bare)
        else { return false }
        return try sender.isForm(of: delivery.peer) || account.knownRoom(delivery.peer, in: step) == nil
    }

    /// It was not known to arrive in time: it is sent again, or given up.
    func handleDeadline(_ id: ForeignText, attempt: Int, in step: borrowing Step) throws {
        guard var row = try table.row(id, in: step), !row.delivery.isOver, row.delivery.attempts == attempt
        else { return }
        row.timer = nil
        guard attempt < row.tries else { return try end(row, .timedOut, in: step) }
        // One that the server does not have yet is still on its way out: it leaves as soon as there is a stream. A full
        // outbox is as long a wait more.
        let isToBeSent = try row.delivery.acknowledgedAt != nil && account.hasRoom(in: step)
        if isToBeSent || row.delivery.acknowledgedAt == nil { row.delivery.attempts += 1 }
        row.timer = try step.schedule(
            DeliveryDeadline(stanzaID: id.string, attempt: row.delivery.attempts).durable,
            after: .milliseconds(row.wait), in: account.scope)
        try table.update(row, in: step)
        guard isToBeSent else { return }
        let stamped = Delay.stamped(row.xml, at: row.delivery.sentAt)
        let element = try Element(
            parsing: String(decoding: stamped, as: UTF8.self), defaultNamespace: Namespaces.client)
        try transmit(try Message(element: element), in: step)
    }

    /// The server never had it, and will not get it.
    func recordUnsent(_ id: ForeignText, _ failure: Delivery.Failure, in step: borrowing Step) throws {
        guard let row = try table.row(id, in: step), row.delivery.acknowledgedAt == nil else { return }
        try end(row, failure, in: step)
    }

    /// The end of a delivery, once; what comes later changes nothing but that a receipt beats a timeout.
    private func end(_ row: DeliveryTable.Row, _ failure: Delivery.Failure?, in step: borrowing Step) throws {
        guard row.delivery.deliveredAt == nil, row.delivery.failure == nil || failure == nil else { return }
        var row = row
        row.delivery.failure = failure
        if failure == nil {
            let now = step.now
            row.delivery.deliveredAt = now
            row.delivery.acknowledgedAt = row.delivery.acknowledgedAt ?? now
        }
        let (timer, handler) = (row.timer, row.handler)
        (row.timer, row.handler) = (nil, nil)
        try table.update(row, in: step)
        if let timer, try step.waits(timer) {
            try step.invalidate(timer, reason: .cancelled, environment: account)
        }
        if let handler, try step.waits(handler) {
            try step.end(handler, .result, with: DeliveryEnded(account: account, delivery: row.delivery))
        }
        account.report(row.delivery, after: step)
    }

    // MARK: Receipts for others

    /// Sends the receipt that a message asks for, if it is to have one.
    ///
    /// - Parameter received: A message, decrypted if it was encrypted.
    package func confirmIfAsked(_ received: MessageReceived, in step: borrowing Step) throws {
        guard received.message.requestsReceipt,
            try account.moduleIfPresent(ChatModule.self)?.isToBeConfirmed(received, in: step) == true
        else { return }
        try confirm(received.message, in: step)
    }

    private func confirm(_ message: Message, in step: borrowing Step) throws {
        // A longer id is not repeated: the server may not take so much.
        guard let from = message.from, let id = message.id?.token else { return }
        let receipt = Element("received", namespace: Namespaces.receipts, attributes: ["id": id])
        // XEP-0334 section 4.4: without a body it would not be kept for a sender who is away.
        try account.sendUnasked(
            Message(to: from, type: message.type, children: [receipt, ProcessingHint.store.element]), in: step
        )
    }

    /// Returns whether a peer may know that the account is online: by a subscription, or because it has written to them.
    func isContact(_ peer: JID, in step: borrowing Step) throws -> Bool {
        if account.moduleIfPresent(RosterModule.self) != nil {
            let subscription = try account.roster.item(for: peer, in: step)?.subscription
            if subscription == .from || subscription == .both { return true }
        }
        return try table.hasWritten(to: peer, in: step)
    }
}

/// The server has taken responsibility for a message (XEP-0198).
struct MessageAcknowledged: Handler {
    static let id = "chat.acknowledged"
    var stanzaID: String
    /// The program's handler.
    var then: Durable<StanzaAcknowledged>?

    func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
        try call.account.chat.recordAcknowledgement(ForeignText(stanzaID), in: call.step)
        if let then { try call.step.run(then, with: call.context) }
    }
}

/// The server will never say that it has a message.
struct MessageUnacknowledged: Handler {
    static let id = "chat.unacknowledged"
    var stanzaID: String

    func run(_ call: borrowing Call<Invalidation>) throws {
        let failure: Delivery.Failure
        switch call.reason {
        case .logout: failure = .loggedOut
        case .stanzaTooLarge: failure = .refused(.policyViolation)
        // Without stream management a receipt is still waited for.
        default: return
        }
        try call.context.account.chat.recordUnsent(ForeignText(stanzaID), failure, in: call.step)
    }
}

/// The time in which a message must arrive is over.
struct DeliveryDeadline: Handler {
    static let id = "chat.deadline"
    var stanzaID: String
    var attempt: Int

    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.context.account.chat.handleDeadline(ForeignText(stanzaID), attempt: attempt, in: call.step)
    }
}
