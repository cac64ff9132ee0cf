import Handlers
package import XMPPCore

// A stanza that is larger than the server takes ends the stream. Kept, it would end the next one as well, and nothing behind
// it would ever arrive:
//
//     send ──▶ larger than the server said? ──▶ the caller gets an error
//     connect ──▶ larger, or refused too often? ──▶ taken out, its handlers are invalidated, the program is told
package enum StanzaLimit {
    /// The size that every server must accept, in bytes (RFC 6120 section 13.12). Smaller stanzas are not checked.
    static let always = 10_000

    /// The number of bytes that a message grows when it is sent again, by the time when it was sent first.
    static let growth = 100

    /// The number of times that the stream may end after a large unacknowledged stanza before that stanza is removed. Each end counts
    /// for its ``weight(of:)``.
    static let refusals = 12

    /// Returns whether every server accepts a stanza, also when it is sent again.
    static func fits(_ xml: [UInt8]) -> Bool { xml.count + growth <= always }

    /// Returns whether every server accepts a stanza. What the library makes of texts of others is sent only if that is so: a server
    /// passes on larger stanzas of other servers than it takes from its own clients.
    package static func fits(_ stanza: Element) -> Bool { fits(Serializer().bytes(stanza)) }

    /// Returns the size that the server accepts, in bytes; 0 if it does not announce one (XEP-0478 section 2).
    static func announced(in features: Element) -> Int {
        let limits = features.child("limits", Namespaces.streamLimits)
        guard let text = limits?.child("max-bytes", Namespaces.streamLimits)?.text, let bytes = Int(text),
            bytes > 0
        else { return 0 }
        return max(bytes, always)
    }

    /// Returns for how many of the ``refusals`` an end of the stream counts.
    static func weight(of error: AccountError) -> Int {
        switch (error.cause as? StreamError)?.condition {
        // RFC 6120 section 4.9.3.14: "e.g., the stanza exceeds a configured size limit". A second stream would end in the same way.
        case .policyViolation?: refusals
        // What servers say of it, too, though it has other meanings.
        case .notWellFormed?, .invalidXML?, .badFormat?, .resourceConstraint?, .undefinedCondition?: 4
        default: 1
        }
    }
}

extension Outbox {
    /// Counts an end of the stream against the largest stanza that was under way, if that is one that a server may refuse.
    func countRefusal(
        session: Int64, upTo mark: Int64, weight: Int, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            UPDATE outbox SET refusals = refusals + ? WHERE seq = (
                SELECT seq FROM outbox WHERE account = ? AND session = ? AND seq <= ? AND length(xml) > ?
                ORDER BY length(xml) DESC LIMIT 1)
            """, weight, account, session, mark, StanzaLimit.always)
    }

    /// Removes and returns what the server does not take.
    ///
    /// - Parameter limit: What it takes, in bytes; 0 when that is not known.
    func claimRefused(limit: Int, in step: borrowing Step) throws(HandlerError) -> [Refused] {
        try step.all(
            """
            DELETE FROM outbox WHERE account = ?1 AND (refusals >= ?2 OR (?3 > 0 AND length(xml) > ?3))
            RETURNING seq, stanza_id, handler, key, kind, length(xml)
            """, account, StanzaLimit.refusals, limit
        ) { row in
            Refused(
                stanza: AcknowledgedStanza(id: row.optionalForeignText(1), storedKey: row.optionalText(3)),
                handler: row.optionalInteger(2).map(AnyHandlerID.init(rawValue:)),
                isRequest: Kind(rawValue: row.integer(4)) == .request, size: Int(row.quantity(5)))
        }
    }

    /// A stanza that the server does not take.
    struct Refused {
        let stanza: AcknowledgedStanza
        let handler: AnyHandlerID?
        let isRequest: Bool
        let size: Int
    }
}

extension Account {
    /// Throws for a stanza that the server will not accept, while its sender can still get the error.
    func checkSize(_ xml: [UInt8], in step: borrowing Step) throws {
        guard try isTooLarge(xml, in: step) else { return }
        throw AccountError(
            .stanzaTooLarge,
            "the server of \(configuration.jid) takes stanzas of \(try logins.stanzaLimit(in: step)) bytes at most, and this one has \(xml.count); send less at once, or upload it and send where it lies"
        )
    }

    func isTooLarge(_ xml: [UInt8], in step: borrowing Step) throws -> Bool {
        if StanzaLimit.fits(xml) { return false }
        let limit = try logins.stanzaLimit(in: step)
        return limit > 0 && xml.count + StanzaLimit.growth > limit
    }

    /// Takes out what the server does not take, before a stream carries it.
    ///
    /// - Returns: Events for the program.
    func removeRefused(in step: borrowing Step) throws -> [AccountEvent] {
        var events: [AccountEvent] = []
        let limit = try logins.stanzaLimit(in: step)
        for refused in try outbox.claimRefused(limit: limit, in: step) {
            var handler = refused.handler
            if refused.isRequest, let id = refused.stanza.id {
                handler = try requests.claim(id: id, in: step)?.handler
            }
            if let handler, try step.waits(handler) {
                try step.invalidateAlone(handler, reason: .stanzaTooLarge, environment: self)
            }
            let isKnown = limit > 0 && refused.size > limit
            let reason =
                isKnown
                ? "it has \(refused.size) bytes, and the server takes \(limit) at most"
                : "the server ended the stream after it several times; it has \(refused.size) bytes"
            events.append(.refused(refused.stanza, reason: reason))
        }
        return events
    }
}
