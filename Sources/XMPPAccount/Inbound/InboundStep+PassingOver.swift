import Handlers
import XMPPCore

// Stanzas that cannot be stored. Each time the step with one would fail, the server would send it again with all behind it, and
// none of these would ever be handled. So that one is counted, reported as ignored, and answered if it is a request.
extension InboundStep {
    /// A stanza is tried so often in a step that failed before: what failed may have passed.
    private static let tries = 2

    /// Takes one element in, of a step that failed. A stanza that fails again is passed over, and the others go on.
    mutating func processCarefully(
        _ event: StreamParser.Event, isCounted: Bool = true, in step: borrowing Step
    ) throws -> Progress {
        var last: any Error = CancellationError()
        for _ in 0..<Self.tries {
            do {
                var inbound = self
                var progress = Progress.continue
                try step.undoingOnError {
                    progress = try inbound.process(event, isCounted: isCounted, in: step)
                }
                self = inbound
                return progress
            } catch {
                guard Self.isOfStanza(error), event.isStanza else { throw error }
                last = error
            }
        }
        try passOver(event, last, isCounted: isCounted, in: step)
        return .continue
    }

    /// Whether an error may be due to a stanza: neither did the store fail, nor was the account lost.
    static func isOfStanza(_ error: any Error) -> Bool {
        (error as? HandlerError)?.isStorageFailure != true && AccountError.ownershipLost(in: error) == nil
    }

    private mutating func passOver(
        _ event: StreamParser.Event, _ error: any Error, isCounted: Bool, in step: borrowing Step
    ) throws {
        let root: Element
        switch event {
        case .element(let element): root = element
        case .refused(let refused): root = refused.root
        case .opened, .closed: return
        }
        guard let arrival = try arrive(isCounted: isCounted, in: step) else { return }
        let reason = "it could not be stored, and is passed over: \(error)"
        events.append(.ignored(root, reason: reason))
        var inbound = self
        do {
            try step.undoingOnError { try inbound.answer(unstorable: root, reason, arrival, in: step) }
            self = inbound
        } catch {
            guard Self.isOfStanza(error) else { throw error }
        }
    }

    /// 5. Every request is answered (RFC 6120 section 8.2.3), and whoever waits for an answer gets this one: no other will come.
    private mutating func answer(
        unstorable root: Element, _ reason: String, _ arrival: Arrival, in step: borrowing Step
    ) throws {
        guard root.name == "iq", let iq = try? IQ(element: root) else { return }
        guard iq.type.isRequest else { return try endRequest(root, reason, arrival, in: step) }
        guard let reply = iq.errorReply(StanzaError(.internalServerError)) else { return }
        try receiver.reply(reply.element, in: step)
    }
}
