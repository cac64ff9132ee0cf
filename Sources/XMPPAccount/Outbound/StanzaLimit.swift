import Handlers
import XMPPCore

// A stanza that is larger than the server takes ends the stream. Kept, it would end the next one as well, and nothing behind
// it would ever arrive:
//
//     send ──▶ larger than the server said? ──▶ the caller gets an error
//     connect ──▶ larger, or refused too often? ──▶ taken out, its handlers are invalidated, the program is told
enum StanzaLimit {
    /// The size that every server must accept, in bytes (RFC 6120 section 13.12). Smaller stanzas are not checked.
    static let always = 10_000

    /// The number of bytes that a message grows when it is sent again, by the time when it was sent first.
    static let growth = 100

    /// The number of times that the stream may end after a large unacknowledged stanza before that stanza is removed: an
    /// end with an error that may be about it counts for ``streamErrorWeight``, any other end for one.
    static let refusals = 12
    static let streamErrorWeight = 4

    /// Returns the size that the server accepts, in bytes; 0 if it does not announce one (XEP-0478 section 2).
    static func announced(in features: Element) -> Int {
        let limits = features.child("limits", Namespaces.streamLimits)
        guard let text = limits?.child("max-bytes", Namespaces.streamLimits)?.text, let bytes = Int(text),
            bytes > 0
        else { return 0 }
        return max(bytes, always)
    }

    /// Returns whether that may be about the size of what was sent.
    static func mayBeMeant(by error: AccountError) -> Bool {
        guard let condition = (error.cause as? StreamError)?.condition else { return false }
        return [
            .policyViolation, .notWellFormed, .invalidXML, .badFormat, .resourceConstraint,
            .undefinedCondition,
        ]
        .contains(condition)
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
        guard xml.count + StanzaLimit.growth > StanzaLimit.always else { return false }
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
                try step.invalidate(handler, reason: .stanzaTooLarge, environment: self)
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
