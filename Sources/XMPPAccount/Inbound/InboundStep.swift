package import Handlers
import IQTracker
package import XMPPCore

/// Numbers 1 to 5 of the path at the top of Account.swift, for one stanza after the other.
///
/// A value: it works on copies of the counters, and the loop takes them over only once the step is committed.
package struct InboundStep {
    let tables: AccountTables
    /// The modules and handlers.
    let receiver: any InboundReceiver
    /// The full address of this session.
    let own: JID
    /// The account's bare address, as the server has assigned it.
    private var account: JID { own.bare }
    let session: Int64
    /// Whether this session counts stanzas.
    let isManaged: Bool
    /// The last outbox row that may have been written to the socket.
    let flushMark: Int64
    /// The time of the monotonic clock.
    let now: Duration

    /// The counts of both sides.
    var management: StreamManagement
    /// The number of acks that arrived.
    var acknowledgementsReceived = 0
    /// Whether a handler took a request that it may answer later.
    var opensRequests = false
    /// Events for listeners, to be sent after the commit.
    package var events: [AccountEvent] = []

    /// Takes one element in.
    ///
    /// - Parameter isCounted: False for what came before stream management began (XEP-0198 section 4).
    /// - Throws: When the whole step must be given up, as when the store fails.
    package mutating func process(
        _ event: StreamParser.Event, isCounted: Bool = true, in step: borrowing Step
    ) throws -> Progress {
        switch event {
        case .element(let element): return try process(element, isCounted: isCounted, in: step)
        case .refused(let refused): return try process(refused, isCounted: isCounted, in: step)
        case .opened, .closed:
            return .end(StreamFault(AccountError(.connectionFailed, "the server closed the stream")))
        }
    }

    /// The state of the stream after an element. Elements received before the end are committed.
    package enum Progress {
        case `continue`
        case end(StreamFault)
    }

    private mutating func process(
        _ element: Element, isCounted: Bool, in step: borrowing Step
    ) throws -> Progress {
        if Stanza.isStanza(element) {
            // 1. Count.
            guard let arrival = try arrive(isCounted: isCounted, in: step) else { return .continue }
            try processStanza(element, arrival, in: step)
        } else if element.namespace == Namespaces.sm {
            return try processManagement(element, in: step)
        } else if let error = StreamError(element) {
            return .end(
                StreamFault(
                    AccountError(.streamError, "the server ended the stream: \(error)", cause: error)))
        }
        return .continue
    }

    /// 1. Count: every stanza, whatever becomes of it, in the same commit (XEP-0198 section 4).
    ///
    /// - Returns: Nil for one that is handled already.
    mutating func arrive(isCounted: Bool, in step: borrowing Step) throws -> Arrival? {
        guard isManaged && isCounted else { return Arrival() }
        switch management.arrive(now: now) {
        case .new(let number): return Arrival(delivery: Deferral(receipt(number)))
        case .again(let number):
            _ = try tables.sessions.settle(receipt(number), in: step)
            return Arrival(delivery: Deferral(receipt(number)), isRepeated: true)
        case .duplicate: return nil
        }
    }

    /// A stanza that is to be taken in now.
    struct Arrival {
        /// Nil when stanzas are not counted.
        var delivery: Deferral?
        /// Whether it was delivered before the stream was resumed, and was to be handled later.
        var isRepeated = false

        /// Its place among all that arrived in this session, when it was delivered before.
        var repeatedNumber: UInt32? { isRepeated ? delivery?.receipt.number : nil }
    }

    // MARK: Stanzas

    private func receipt(_ number: HandledCount) -> DeferredStanza {
        DeferredStanza(session: session, number: number.rawValue)
    }

    /// Returns whether a handler left the stanza to be handled later. One that threw after it had asked for that has not.
    private func isDeferred(_ delivery: Deferral?, in step: borrowing Step) throws(HandlerError) -> Bool {
        guard let delivery, delivery.mayBeDeferred else { return false }
        return try tables.sessions.isDeferred(delivery.receipt, in: step)
    }

    /// - Returns: The stanza's place when a handler left it to be handled later.
    private mutating func postponed(_ arrival: Arrival, in step: borrowing Step) throws -> UInt32? {
        guard let delivery = arrival.delivery, try isDeferred(delivery, in: step) else { return nil }
        management.postpone(HandledCount(rawValue: delivery.receipt.number))
        return delivery.receipt.number
    }

    /// Takes note of deferred stanzas that were handled since, by whatever process.
    mutating func findDeferred(now: Duration, in step: borrowing Step) throws {
        guard management.hasDeferred else { return }
        management.setDeferred(try tables.sessions.deferred(session: session, in: step), now: now)
    }

    private mutating func processStanza(
        _ element: Element, _ arrival: Arrival, in step: borrowing Step
    ) throws {
        let stanza: Stanza?
        do throws(StanzaFormatError) {
            stanza = try Stanza(element)
        } catch {
            events.append(.ignored(element, reason: error.description))
            // 5. RFC 6120 section 8.2.3: every request is answered. One whose sender cannot be read, cannot be.
            guard error.code != .malformedAddress else { return }
            if let reply = error.reply(to: element) { return try receiver.reply(reply, in: step) }
            return try endRequest(element, error.description, arrival, in: step)
        }
        switch stanza {
        // It is filtered when it has been taken out of what it came in.
        case .message(let message): return try deliver(message, arrival, in: step)
        // An answer would repeat the id, and could be larger than what the server takes.
        case .iq(let iq) where iq.type.isRequest && iq.id.token == nil:
            return events.append(.ignored(element, reason: Account.longID))
        case .iq, .presence, nil: break
        }
        guard let stanza, let passed = try filtered(stanza, arrival, in: step) else { return }
        switch passed {
        case .iq(let iq) where iq.type.isRequest: try answer(iq, arrival, in: step)
        case .iq(let iq): try match(iq, arrival, in: step)
        case .presence(let presence): try deliver(presence, arrival, in: step)
        case .message: break
        }
    }

    /// 3. Match an answer to its request, 4. invoke the handler. An answer that matches nothing is never answered.
    mutating func match(_ iq: IQ, _ arrival: Arrival, in step: borrowing Step) throws {
        let match = try tables.requests.claim(answer: iq, number: arrival.repeatedNumber, own: own, in: step)
        guard case .request(var request) = match else { return }
        let outcome: Outcome = iq.type == .error ? .error : .result
        let disposition = try receiver.end(HandlerID(of: request.handler), outcome, in: step) {
            IQReply(account: $0, iq: iq, outcome: IQReply.Outcome(iq), delivery: arrival.delivery)
        } staysIf: {
            try isDeferred(arrival.delivery, in: step)
        }
        try report(disposition, request.handler, "answer to request \(iq.id)", in: step)
        guard let number = try postponed(arrival, in: step) else { return }
        request.number = number
        try tables.requests.hold(request, session: session, outcome: outcome, in: step)
    }

    /// 4. Invoke the listeners to presence, after the modules. They already know a repeated presence and what followed it.
    private mutating func deliver(_ presence: Presence, _ arrival: Arrival, in step: borrowing Step) throws {
        if !arrival.isRepeated { try receiver.receive(presence, in: step) }
        let handlers: [HandlerID<PresenceReceived>] = try tables.listeners.handlers(
            of: ListenerTable.presence, in: step)
        for handler in handlers {
            let disposition = try receiver.call(handler, in: step) {
                PresenceReceived(account: $0, presence: presence, delivery: arrival.delivery)
            }
            try report(
                disposition, handler, "presence of \(presence.from?.description ?? "the server")", in: step)
        }
        _ = try postponed(arrival, in: step)
    }

    /// 2. Unwrap and recognize a message, 4. invoke modules and listeners unless it is a duplicate.
    private mutating func deliver(_ message: Message, _ arrival: Arrival, in step: borrowing Step) throws {
        guard var received = try unwrapped(message, arrival.delivery, in: step),
            try isNew(received, in: step),
            case .message(let passed)? = try filtered(.message(received.message), arrival, in: step)
        else { return }
        // By what it was when it came: a filter may have taken the id out that we gave it.
        received.isEcho = try isEcho(received.message, in: step)
        received.own = account
        received.message = passed
        guard try !receiver.receive(received, in: step) else { return }
        received.isFromOwnNickname = try isFromOwnNickname(received.message, in: step)
        let handlers: [HandlerID<MessageReceived>] = try tables.listeners.handlers(
            of: ListenerTable.messages, in: step)
        for handler in handlers {
            let disposition = try receiver.call(handler, in: step) { MessageReceived(account: $0, received) }
            try report(disposition, handler, "message \(message.id ?? "")", in: step)
        }
        guard let number = try postponed(arrival, in: step) else { return }
        try seen.postpone(received, own: account, number: number, in: step)
        try receiver.recordDeferred(received, in: step)
    }

    private var seen: SeenTable { tables.seen(of: receiver) }

    private func isNew(_ message: InboundMessage, in step: borrowing Step) throws -> Bool {
        if BuiltInFault.markApart.isOn {
            return seen.isNewApart(message, own: account, tables.store, in: step)
        }
        return try seen.isNew(message, own: account, in: step)
    }

    /// The message itself, taken out of what it came in; nil when there is nothing to deliver.
    private mutating func unwrapped(
        _ message: Message, _ delivery: Deferral?, in step: borrowing Step
    ) throws -> InboundMessage? {
        switch try receiver.unwrapped(message, in: step) {
        case .untouched: return InboundMessage(message: message, delivery: delivery)
        case .message(let inner, let source):
            return InboundMessage(message: inner, source: source, delivery: delivery)
        case .taken: return nil
        case .refused(let reason):
            events.append(.ignored(message.element, reason: reason))
            return nil
        }
    }

    private func isFromOwnNickname(_ message: Message, in step: borrowing Step) throws -> Bool {
        guard message.type == .groupchat else { return false }
        return try receiver.isOwn(message, originID: nil, in: step) ?? false
    }

    /// Returns whether a message was sent from here. In a room everybody has ids of their own, and sees those of others: an
    /// `id` counts there only under the account's own nickname; an origin id also under another one, such as that of before,
    /// until the room has sent the message back.
    private func isEcho(_ message: Message, in step: borrowing Step) throws -> Bool {
        let isInRoom = message.type == .groupchat
        guard let id = message.originID, !id.isEmpty, isInRoom || message.from?.bare == account,
            try seen.wasSent(id, own: tables.jid, in: step)
        else { return false }
        guard isInRoom else { return true }
        let hasOrigin = message.element.child("origin-id", Namespaces.sid)?["id"] != nil
        return try receiver.isOwn(message, originID: hasOrigin ? id : nil, in: step) ?? hasOrigin
    }

    /// 5. Append the answer to a request of another entity (RFC 6120 section 8.4: one that is not understood is
    /// answered with service-unavailable), unless a handler answers.
    private mutating func answer(_ iq: IQ, _ arrival: Arrival, in step: borrowing Step) throws {
        if let answer = try receiver.answer(iq, in: step) {
            let reply =
                switch answer {
                case .result(let payload): iq.result(payload: payload)
                case .error(let error): iq.errorReply(error)
                }
            if let reply { try receiver.reply(reply.element, in: step) }
            return
        }
        if let handler = try tables.listeners.handler(for: iq, in: step) {
            return try serve(iq, arrival, with: handler, in: step)
        }
        let isPing = iq.type == .get && iq.payload?.has(name: "ping", namespace: Namespaces.ping) == true
        let reply = isPing ? iq.result() : iq.errorReply(StanzaError(.serviceUnavailable))
        if let reply { try receiver.reply(reply.element, in: step) }
    }

    /// Lets a handler answer: now, or until the request's time is over. One that fails for good answers with an error.
    private mutating func serve(
        _ iq: IQ, _ arrival: Arrival, with handler: HandlerID<IQRequest>, in step: borrowing Step
    ) throws {
        if let condition = try refusal(of: iq, arrival, in: step) {
            if let reply = iq.errorReply(StanzaError(condition)) {
                try receiver.reply(reply.element, in: step)
            }
            return
        }
        opensRequests = true
        let disposition = try receiver.call(handler, in: step) {
            IQRequest(account: $0, iq: iq, delivery: arrival.delivery)
        }
        try report(
            disposition, handler, "request \(iq.id) of \(iq.from?.description ?? "the server")", in: step)
        if let number = try postponed(arrival, in: step) {
            try tables.inboundRequests.postpone(iq, number: number, in: step)
        }
        guard case .quarantined = disposition, try receiver.closeRequest(iq, in: step) else { return }
        let error = StanzaError(.internalServerError)
        try receiver.reply(InboundRequestTable.refusal(to: iq.from, id: iq.id, error).element, in: step)
    }

    /// Opens a request for an answer, unless it is open because it was to be handled later.
    ///
    /// - Returns: Why it cannot be served; nil when it is open.
    private func refusal(
        of iq: IQ, _ arrival: Arrival, in step: borrowing Step
    ) throws -> OpenName<StanzaError>? {
        if let number = arrival.repeatedNumber,
            try tables.inboundRequests.isOpen(iq, number: number, in: step)
        {
            return nil
        }
        guard try tables.inboundRequests.hasRoom(for: iq, in: step) else { return .resourceConstraint }
        let connectedTime = try tables.connectedTime(in: step)
        // The sender has used the id of a request that is not answered yet: the answers could not be told apart.
        return try tables.inboundRequests.open(iq, connectedTime: connectedTime, in: step) ? nil : .conflict
    }

    /// Reports a handler that did not run to its end.
    private mutating func report<Context>(
        _ disposition: Disposition, _ handler: HandlerID<Context>, _ call: String, in step: borrowing Step
    ) throws {
        guard let event = try AccountEvent(disposition, handler, call, in: step) else { return }
        events.append(event)
    }

    // MARK: Stream management

    private mutating func processManagement(_ element: Element, in step: borrowing Step) throws -> Progress {
        switch element.name {
        case "r": management.receiveRequest(now: now)
        case "a":
            guard let claimed = HandledCount(element["h"]) else {
                return .end(
                    StreamFault(AccountError(.protocolViolation, "the server acknowledged without a count")))
            }
            if let fault = try acknowledge(claimed, in: step) { return .end(fault) }
            acknowledgementsReceived += 1
        default: break
        }
        return .continue
    }

    /// Removes what the server took responsibility for and calls the handlers that wait for that.
    ///
    /// - Returns: What is wrong with the count, if anything; nothing is changed then.
    mutating func acknowledge(_ claimed: HandledCount, in step: borrowing Step) throws -> StreamFault? {
        let rows: [Outbox.Removed]
        do {
            rows = try tables.outbox.acknowledge(
                claimed, session: session, upTo: flushMark, &management, in: step)
        } catch let error as HandledCountError {
            return StreamFault(
                AccountError(.protocolViolation, error.description, cause: error), endsSession: true)
        }
        guard !rows.isEmpty else { return nil }
        try tables.sessions.setAcknowledged(claimed, in: step)
        for row in rows {
            guard let handler = row.handler, try step.waits(handler) else { continue }
            let disposition = try receiver.end(handler, .result, in: step) {
                StanzaAcknowledged(account: $0, stanza: row.stanza)
            } staysIf: {
                false
            }
            try report(disposition, handler, "acknowledgement of \(row.stanza.id ?? "")", in: step)
        }
        let stanzas = rows.map(\.stanza).filter { $0.id != nil || $0.storedKey != nil }
        if !stanzas.isEmpty { events.append(.acknowledged(stanzas)) }
        return nil
    }
}
