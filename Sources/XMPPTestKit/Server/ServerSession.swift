package import XMPPCore

/// A session of a client: a bound resource and its stream management (XEP-0198), without sockets, clock or accounts.
///
/// ```text
/// from the client ──▶ receive(_:) ──▶ [.route, .send(<a/>), .enabled, .end …]
/// to the client   ──▶ deliver(_:) ──▶ [.send]          queued until acknowledged
/// connection lost ──▶ detach()                          the queue grows without a connection
/// <resume/>       ──▶ resume(handled:on:) ──▶ [.send(<resumed/>), .send(again) …]
/// ```
package struct ServerSession: Sendable {
    /// An action for the owner to perform.
    package enum Action: Hashable, Sendable {
        /// Send to the client on the session's connection.
        case send(Element, isResent: Bool = false)
        /// A stanza of the client: bring it where it belongs.
        case route(Element)
        /// Call ``answer()`` after this many milliseconds.
        case answerLater(Int64)
        /// Stream management started.
        case enabled
        /// Give the session up and end its stream with this error.
        case end(StreamError)
    }

    /// Counted from 1 over all sessions of the server.
    package let number: Int
    /// The bound address.
    package let jid: JID
    /// ``jid`` in text form, made once because every stanza needs it.
    package let fullText: String
    /// The connection that carries the session, nil while it waits to be resumed.
    package private(set) var connection: Int?
    /// The answer to `<r/>`.
    package var acknowledgements: ServerBehavior.Acknowledgements
    /// When the client became available for messages to the account; nil while it is not.
    package private(set) var availableSince: Timestamp?

    /// Whether stanzas are counted.
    package private(set) var isEnabled = false
    /// The id that resumes the session; nil if it cannot be resumed.
    package private(set) var resumptionID: String?
    /// The time for which the session can be resumed after its connection was lost, in milliseconds.
    package private(set) var window: Int64 = 0
    /// Stanzas received from the client, our `h`.
    package private(set) var received: UInt32
    /// The last `h` of the client.
    package private(set) var acknowledged: UInt32
    /// The stanzas that the client has not acknowledged.
    package private(set) var queue = StanzaQueue()
    /// Whether stanzas were sent since the last `<r/>`.
    package private(set) var owesRequest = false

    private let behavior: ServerBehavior
    private let offeredID: String

    /// - Parameter id: The id for its resumption, unique on the server.
    package init(number: Int, jid: JID, connection: Int, id: String, behavior: ServerBehavior) {
        self.number = number
        self.jid = jid
        self.connection = connection
        self.behavior = behavior
        fullText = jid.description
        offeredID = id
        acknowledgements = behavior.acknowledgements
        received = behavior.initialReceivedCount
        acknowledged = behavior.initialSentCount
    }

    /// Stanzas sent to the client, modulo 2^32: those it acknowledged and those that wait.
    package var sent: UInt32 { acknowledged &+ UInt32(truncatingIfNeeded: queue.count) }

    /// Whether the session outlives its connection.
    package var isResumable: Bool { resumptionID != nil }

    // MARK: From the client

    /// Takes the client's own presence (RFC 6121 section 8.5.2: a negative priority gets no message for the account).
    ///
    /// - Parameters:
    ///   - priority: Nil: it is unavailable.
    ///   - time: The wall clock.
    package mutating func setPriority(_ priority: Int8?, time: Timestamp) {
        availableSince = (priority ?? -1) < 0 ? nil : availableSince ?? time
    }

    /// Takes a first-level element of the client.
    package mutating func receive(_ element: Element) -> [Action] {
        if Stanza.isStanza(element) {
            if let limit = behavior.stanzaLimit, Serializer().bytes(element).count > limit {
                return [.end(StreamError(.policyViolation, text: "The stanza is too large."))]
            }
            count()
            return [.route(element)]
        }
        switch (element.name, element.namespace) {
        case ("r", Namespaces.sm): return request()
        case ("a", Namespaces.sm): return acknowledge(element["h"])
        case ("enable", Namespaces.sm): return enable(element)
        case ("resume", Namespaces.sm): return [.send(Self.failed("unexpected-request"))]
        case (_, Namespaces.csi): return []
        default: return [.end(StreamError(.unsupportedStanzaType))]
        }
    }

    /// Counts a stanza of the client, whatever becomes of it.
    package mutating func count() {
        if isEnabled { received &+= 1 }
    }

    /// Returns `<failed/>` with a condition of RFC 6120 section 8.3.3.
    package static func failed(_ condition: String, h: UInt32? = nil) -> Element {
        Element(
            "failed", namespace: Namespaces.sm, attributes: ["h": h.map { String($0) }],
            children: [Element(condition, namespace: Namespaces.stanzas)])
    }

    private mutating func enable(_ element: Element) -> [Action] {
        guard behavior.offersStreamManagement else { return [.send(Self.failed("feature-not-implemented"))] }
        // XEP-0198 section 3: only once in a stream.
        guard !isEnabled else { return [.end(StreamError(.policyViolation, text: "Already enabled."))] }
        isEnabled = true
        var answer = Element("enabled", namespace: Namespaces.sm)
        let wanted = (try? element.value(of: "resume")) == true
        let offered = behavior.resumptionWindow.components.seconds
        if wanted, behavior.offersResumption, offered > 0 {
            let seconds = element["max"].flatMap { Int64($0) }.map { min(max($0, 1), offered) } ?? offered
            window = seconds * 1000
            resumptionID = offeredID
            answer["id"] = ForeignText(offeredID)
            answer["resume"] = "true"
            answer["max"] = "\(seconds)"
            answer["location"] = behavior.resumptionLocation.map { ForeignText($0) }
        }
        return [.send(answer), .enabled]
    }

    private mutating func request() -> [Action] {
        guard isEnabled else { return [.send(Self.failed("unexpected-request"))] }
        switch acknowledgements {
        case .never: return []
        case .delayed(let duration):
            let (seconds, attoseconds) = duration.components
            return [.answerLater(seconds * 1000 + attoseconds / 1_000_000_000_000_000)]
        case .prompt: return [answer()]
        case .claiming(let count): return [.send(Self.answer(count))]
        case .offset(let offset): return [.send(Self.answer(received &+ UInt32(bitPattern: offset)))]
        }
    }

    /// Returns `<a/>` with the current count.
    package func answer() -> Action { .send(Self.answer(received)) }

    private static func answer(_ count: UInt32) -> Element {
        Element("a", namespace: Namespaces.sm, attributes: ["h": String(count)])
    }

    private mutating func acknowledge(_ text: ForeignText?) -> [Action] {
        guard isEnabled else { return [.send(Self.failed("unexpected-request"))] }
        guard let h = text.flatMap({ UInt32($0) }) else {
            return [.end(StreamError(.badFormat, text: "<a/> needs 'h', a number below 2^32."))]
        }
        return removeAcknowledged(h).map { [.end($0)] } ?? []
    }

    /// Removes what the client has handled; the error to send when it claims more than was sent (XEP-0198 section 4).
    ///
    /// A count below the last one is a huge distance modulo 2^32 and fails the same comparison.
    private mutating func removeAcknowledged(_ h: UInt32) -> StreamError? {
        let distance = Int(h &- acknowledged)
        guard distance <= queue.count else {
            return StreamError(
                .undefinedCondition,
                applicationCondition: Element(
                    "handled-count-too-high", namespace: Namespaces.sm,
                    attributes: ["h": String(h), "send-count": String(sent)]))
        }
        queue.removeFirst(distance)
        acknowledged = h
        return nil
    }

    // MARK: To the client

    /// Sends a stanza, and keeps it until it is acknowledged. Without a connection it only waits.
    ///
    /// - Parameter time: The wall clock.
    package mutating func deliver(_ stanza: Element, time: Timestamp) -> Action? {
        guard isEnabled else { return connection == nil ? nil : .send(stanza) }
        guard queue.count < behavior.queueLimit else { return .end(StreamError(.resourceConstraint)) }
        queue.append(stanza, time: time, wasSent: connection != nil)
        guard connection != nil else { return nil }
        owesRequest = true
        return .send(stanza)
    }

    /// Returns `<r/>` if stanzas were sent since the last one.
    package mutating func requestAcknowledgement() -> Action? {
        guard owesRequest else { return nil }
        owesRequest = false
        guard behavior.requestsAcks, connection != nil else { return nil }
        return .send(Element("r", namespace: Namespaces.sm))
    }

    // MARK: Connections

    /// Handles the loss of the connection.
    package mutating func detach() {
        connection = nil
        owesRequest = false
    }

    /// Goes on over a new connection (XEP-0198 section 5): what the client handled is dropped, the rest sent again.
    ///
    /// - Returns: What to send, starting with `<resumed/>`; or `.end` alone when the client's count cannot be true.
    package mutating func resume(h: UInt32, on connection: Int) -> [Action] {
        if let error = removeAcknowledged(h) { return [.end(error)] }
        self.connection = connection
        let resumed = Element(
            "resumed", namespace: Namespaces.sm,
            attributes: ["previd": resumptionID ?? "", "h": String(received)])
        owesRequest = !queue.isEmpty
        return [.send(resumed)] + queue.markAllSent().map { .send($0.element, isResent: $0.wasSent) }
    }

    /// Ends the session and gives what was never acknowledged.
    package mutating func end() -> [StanzaQueue.Entry] {
        connection = nil
        resumptionID = nil
        owesRequest = false
        return queue.removeAll()
    }
}
