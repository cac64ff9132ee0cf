import Handlers
import XMPPCore

// Stanzas that the parser cannot read. A refused element is counted, reported as ignored, and answered if it was a request; the
// stream goes on. If the parser finds no end of the element, the stream ends, and the next resumption skips a repeated fault.
extension InboundStep {
    /// Counts, answers and reports an element that the parser left out.
    mutating func process(
        _ refused: RefusedElement, isCounted: Bool, in step: borrowing Step
    ) throws -> Progress {
        let isStanza = Stanza.isStanza(refused.root)
        // If only a part of its list was unreadable, the stanza itself follows and is counted then.
        if refused.list == nil, isStanza {
            try pass(refused, isCounted: isCounted, in: step)
            return .continue
        }
        report(refused)
        // RFC 6120 section 4.9.1: a stream error ends the stream, whatever its content.
        guard refused.list == nil, refused.root.has(name: "error", namespace: Namespaces.stream) else {
            return .continue
        }
        return .end(
            StreamFault(
                AccountError(.streamError, "the server ended the stream with an error that cannot be read")))
    }

    private mutating func pass(_ refused: RefusedElement, isCounted: Bool, in step: borrowing Step) throws {
        // 1. Count.
        guard let arrival = try arrive(isCounted: isCounted, in: step) else { return }
        report(refused)
        try receiver.receiveUnreadable(refused.root, in: step)
        if let reply = refused.reply {
            // 5. RFC 6120 section 8.2.3: every request is answered.
            try receiver.reply(reply, in: step)
        } else if refused.unreadable.isEmpty {
            try endRequest(refused.root, refused.description, arrival, in: step)
        }
    }

    private mutating func report(_ refused: RefusedElement) {
        events.append(.ignored(refused.root, reason: refused.description))
    }

    /// 3. Matches an unreadable answer to its request, and 4. invokes the handler with an error that is made here, because no other
    /// answer will come.
    mutating func endRequest(
        _ answer: Element, _ reason: String, _ arrival: Arrival, in step: borrowing Step
    ) throws {
        guard answer.name == "iq", let type = answer["type"].flatMap(IQ.Kind.init), !type.isRequest else {
            return
        }
        let error = StanzaError(.undefinedCondition, text: reason)
        var iq = Element(
            name: answer.name, namespace: answer.namespace, attributes: answer.attributes,
            children: [.element(error.element(in: answer.namespace))])
        iq["type"] = ForeignText(IQ.Kind.error.rawValue)
        guard let read = try? IQ(element: iq) else { return }
        try match(read, arrival, in: step)
    }

    // MARK: The end of reading

    /// Handles an error after which the parser cannot continue, because it cannot find the end of the damaged element.
    ///
    /// No stream error is sent, because that would end the session. After a resumption the server sends the stanza again, and
    /// damage from the transport does not repeat. If the same damage comes again at the same position, it would come forever. Then
    /// the stanza is counted as received, so that the next resumption continues after it.
    ///
    /// - Returns: The fault that ends the stream.
    mutating func meetEndOfReading(_ error: StreamParserError, in step: borrowing Step) throws -> StreamFault
    {
        if isManaged { try passDamage(error, in: step) }
        return StreamFault(
            AccountError(.protocolViolation, "the server's stream cannot be read: \(error)", cause: error))
    }

    private mutating func passDamage(_ error: StreamParserError, in step: borrowing Step) throws {
        let damage = SessionTable.Damage(position: management.position, error)
        guard try tables.sessions.meet(damage, in: step) else { return }
        guard let root = error.element, Stanza.isStanza(root), try arrive(isCounted: true, in: step) != nil
        else { return }
        events.append(
            .ignored(root, reason: "it cannot be read, again, and is passed over: \(error.message)"))
    }
}
