import Handlers
import XMPPCore

// What becomes of everything that belonged to a session which the server does not keep any more.
extension AccountLoop {
    /// The maximum number of rows in a step of settling.
    static let settleLimit = 256

    /// Ends what belonged to a session that cannot be resumed, in short steps: a kill in between leaves the rest for
    /// the next process, which finds the same rows.
    func settleLostSession(_ failed: StreamOpener.FailedResumption?) throws {
        let state = try owner.run { step in
            let state = try account.sessions.load(in: step)
            if let count = failed?.count, state.resumptionID != nil {
                try creditFailed(count, state, in: step)
            }
            try account.sessions.lose(in: step)
            try forgetDeliveries(in: step)
            return state
        }
        let reason: InvalidationReason = state.wasResumable ? .sessionLost : .bound
        var hasLostAnything = state.resumptionID != nil
        var settling = Settling(session: state.number, reason: reason)
        while !settling.isDone {
            settling = try owner.run { step in try settle(settling, in: step) }
            if !settling.isDone { hasLostAnything = true }
            try Failpoint.afterSessionLost.hit()
            // There may be more than a short-lived process has time for; the next one goes on with it.
            if !settling.isDone, account.mailbox.isLeaving {
                throw AccountError(.closed, "the account was closed while a lost session was settled")
            }
        }
        if hasLostAnything { account.hub.send(.sessionLost(failed?.error)) }
    }

    /// The progress of settling a lost session, so that no step repeats the work of an earlier one.
    private struct Settling {
        let session: Int64
        let reason: InvalidationReason
        /// Up to which rows of the outbox nothing is void any more, and no message waits to be sent again.
        var void: Int64 = 0
        var messages: Int64 = 0
        var isDone = false
    }

    private func settle(_ settling: Settling, in step: borrowing Step) throws -> Settling {
        var settling = settling
        let requests =
            BuiltInFault.keepLostRequests.isOn
            ? 0
            : try account.requests.abandon(
                session: settling.session, reason: settling.reason, limit: Self.settleLimit,
                environment: account, in: step)
        let rows = try account.outbox.claimVoid(after: settling.void, limit: Self.settleLimit, in: step)
        for handler in rows.compactMap(\.handler) where try step.waits(handler) {
            try step.invalidate(handler, reason: settling.reason, environment: account)
        }
        let last = try account.outbox.requeueMessages(
            after: settling.messages, limit: Self.settleLimit, in: step)
        settling.void = rows.last?.seq ?? settling.void
        settling.messages = last ?? settling.messages
        settling.isDone = requests == 0 && rows.isEmpty && last == nil
        return settling
    }

    /// What was to be handled or answered later in a session that is gone: messages come again in another way, which must
    /// not take them for copies; whoever asked has nobody to wait for any more.
    func forgetDeliveries(in step: borrowing Step) throws {
        try account.sessions.forgetDeferred(in: step)
        try account.seen.forgetPostponed(in: step)
        try account.endDeferrals(isLost: true, in: step)
        try account.inboundRequests.forgetAll(in: step)
    }

    /// XEP-0198 section 5: `<failed/>` may say how much had been handled; that much need not be sent again.
    private func creditFailed(_ count: HandledCount, _ state: SessionTable.State, in step: borrowing Step)
        throws
    {
        var inbound = account.inboundStep(
            own: state.fullJID ?? account.configuration.jid, session: state.number, now: now,
            management: state.management(account.acknowledgements))
        // A count that cannot be true is worth nothing; sending again is the safe side.
        _ = try inbound.acknowledge(count, in: step)
    }
}
