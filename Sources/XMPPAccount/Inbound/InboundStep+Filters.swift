import Handlers
import XMPPCore

extension InboundStep {
    /// Runs the filters on a stanza. Nil for one that they stop; an answer then ends its request, and a request is answered.
    mutating func filtered(_ stanza: Stanza, _ arrival: Arrival, in step: borrowing Step) throws
        -> Stanza?
    {
        switch try receiver.filtered(incoming: stanza, in: step) {
        case .success(let passed): return passed
        case .failure(let stopped):
            events.append(.ignored(stanza.element, reason: stopped.reason))
            guard case .iq(let iq) = stanza else { return nil }
            guard iq.type.isRequest else {
                try endRequest(iq.element, stopped.reason, arrival, in: step)
                return nil
            }
            // One that was deferred is open.
            if arrival.isRepeated { _ = try receiver.closeRequest(iq, in: step) }
            if let reply = iq.errorReply(StanzaError(.serviceUnavailable)) {
                try receiver.reply(reply.element, in: step)
            }
            return nil
        }
    }
}
