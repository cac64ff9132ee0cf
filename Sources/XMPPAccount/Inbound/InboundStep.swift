import Handlers
import IQTracker
import XMPPCore

/// What arrived, taken into one step: the numbered part of the path at the top of Account.swift.
///
/// A value: it works on copies of the counters, and the loop takes them over only once the step is committed.
struct InboundStep {
    let account: Account
    /// The full address of this session.
    let own: JID
    let session: Int64
    /// Whether this session counts stanzas.
    let isManaged: Bool
    /// The last outbox row that may have been written to the socket.
    let flushMark: Int64

    /// Our handled count.
    var handled: HandledCount
    /// The server's.
    var acknowledged: HandledCount
    /// Whether the server asked for our count.
    var owesAcknowledgement = false
    /// How many times the server told its count.
    var acknowledgementsReceived = 0
    /// What to tell listeners after the commit.
    var events: [AccountEvent] = []

    /// Takes one element in.
    ///
    /// - Parameter isCounted: False for what came before stream management began (XEP-0198 section 4).
    /// - Throws: ``StreamFault`` when the stream must end here (what was taken in before stands); other errors when
    ///   the whole step must be given up.
    mutating func process(
        _ event: StreamParser.Event, isCounted: Bool = true, in step: borrowing Step
    ) throws {
        guard case .element(let element) = event else {
            throw StreamFault(AccountError(.connectionFailed, "the server closed the stream"))
        }
        if Stanza.isStanza(element) {
            // 1. Count: every stanza, whatever becomes of it, in the same commit (XEP-0198 section 4).
            if isManaged && isCounted { handled = handled + 1 }
            try processStanza(element, in: step)
        } else if element.namespace == Namespaces.sm {
            try processManagement(element, in: step)
        } else if let error = StreamError(element) {
            throw StreamFault(
                AccountError(.streamError, "the server ended the stream: \(error)", cause: error))
        }
    }

    /// The stream cannot be read any further.
    ///
    /// No stream error is sent: it would end the session. What was damaged comes again intact after resuming; what is
    /// larger or deeper than anyone may send us would come again for ever, so it is counted and not taken in.
    mutating func meetEndOfReading(_ error: StreamParserError) -> StreamFault {
        if error.code == .limitExceeded && isManaged { handled = handled + 1 }
        return StreamFault(
            AccountError(.protocolViolation, "the server's stream cannot be read: \(error)", cause: error))
    }

    // MARK: Stanzas

    private mutating func processStanza(_ element: Element, in step: borrowing Step) throws {
        let stanza: Stanza?
        do throws(StanzaFormatError) {
            stanza = try Stanza(element)
        } catch {
            events.append(.ignored(element, reason: error.description))
            // 4. RFC 6120 section 8.2.3: every request is answered. One whose sender cannot be read, cannot be.
            if error.code != .malformedAddress, let reply = error.reply(to: element) {
                try account.reply(reply, in: step)
            }
            return
        }
        switch stanza {
        case .iq(let iq) where iq.type.isRequest: try answer(iq, in: step)
        case .iq(let iq): try match(iq, in: step)
        case .message(let message): try deliver(message, in: step)
        case .presence, nil: break
        }
    }

    /// 2. Match an answer to its request, 3. invoke the handler. An answer that matches nothing is never answered.
    private mutating func match(_ iq: IQ, in step: borrowing Step) throws {
        guard case .request(let request) = try account.requests.take(answer: iq, own: own, in: step) else {
            return
        }
        let context = IQReply(account: account, iq: iq, outcome: IQReply.Outcome(iq))
        let disposition = try step.end(
            request.handler, iq.type == .error ? .error : .result, with: context)
        note(disposition, of: "request \(iq.id)")
    }

    /// 3. Invoke the listeners, unless the message is a copy.
    private mutating func deliver(_ message: Message, in step: borrowing Step) throws {
        guard try account.seen.isNew(message, own: own, in: step) else { return }
        let context = MessageReceived(account: account, message: message)
        for handler in try account.listeners.handlers(of: "message", in: step) {
            let disposition = try step.call(handler, with: context)
            note(disposition, of: "message \(message.id ?? "")")
        }
    }

    /// 4. Append the answer to a request of somebody else's (RFC 6120 section 8.4: one that is not understood is
    /// answered with service-unavailable).
    private func answer(_ iq: IQ, in step: borrowing Step) throws {
        let isPing = iq.type == .get && iq.payload?.has(name: "ping", namespace: Namespaces.ping) == true
        let reply = isPing ? iq.result() : iq.errorReply(StanzaError(.serviceUnavailable))
        if let reply { try account.reply(reply.element, in: step) }
    }

    private mutating func note(_ disposition: Disposition, of what: String) {
        switch disposition {
        case .ended, .queued: break
        case .retrying(_, let reason), .parked(let reason), .quarantined(let reason):
            events.append(.setAside(handler: what, reason: reason))
        }
    }

    // MARK: Stream management

    private mutating func processManagement(_ element: Element, in step: borrowing Step) throws {
        switch element.name {
        case "r": owesAcknowledgement = true
        case "a":
            guard let claimed = HandledCount(element["h"]) else {
                throw StreamFault(AccountError(.protocolViolation, "the server acknowledged without a count"))
            }
            try acknowledge(claimed, in: step)
            acknowledgementsReceived += 1
        default: break
        }
    }

    /// Removes what the server took responsibility for and calls the handlers that wait for that.
    mutating func acknowledge(_ claimed: HandledCount, in step: borrowing Step) throws {
        let rows: [Outbox.Acknowledged]
        do {
            rows = try account.outbox.acknowledge(
                claimed, after: acknowledged, session: session, upTo: flushMark, in: step)
        } catch let error as HandledCountError {
            throw StreamFault(
                AccountError(.protocolViolation, error.description, cause: error), endsSession: true)
        }
        guard claimed != acknowledged else { return }
        acknowledged = claimed
        try account.sessions.setAcknowledged(claimed, in: step)
        for row in rows {
            guard let handler = row.handler, try step.waits(handler) else { continue }
            let context = StanzaAcknowledged(account: account, id: row.stanzaID)
            note(
                try step.end(handler, .result, with: context), of: "acknowledgement of \(row.stanzaID ?? "")")
        }
    }
}

extension Step {
    /// Whether a handler has not ended yet: one that ran before it in the same step may have ended it.
    func waits(_ handler: HandlerID) throws(HandlerError) -> Bool { try ending(of: handler) == nil }
}

/// Why a stream must end.
struct StreamFault: Error {
    let error: AccountError
    /// Whether the session is of no use any more.
    var endsSession: Bool

    init(_ error: AccountError, endsSession: Bool = false) {
        self.error = error
        self.endsSession = endsSession
    }
}
