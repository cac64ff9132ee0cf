import Handlers
import XMPPCore

// Ends or requeues everything that belonged to a lost session.
extension AccountLoop {
    /// The maximum number of rows in a step of settling.
    static let settleLimit = 256

    /// Ends everything that belonged to a session that cannot be resumed, in short steps. After a kill in between, the next process
    /// finds the remaining rows.
    func settleLostSession(_ failed: StreamOpener.FailedResumption?) throws {
        var (settling, hasLostAnything) = try owner.run { step in
            let state = try account.sessions.load(in: step)
            if let count = failed?.count, state.resumptionID != nil {
                try creditFailed(count, state, in: step)
            }
            try account.sessions.lose(in: step)
            try forgetDeliveries(in: step)
            let settling = Settling(session: state.number, reason: state.wasResumable ? .sessionLost : .bound)
            return (try settle(settling, in: step), state.resumptionID != nil)
        }
        while true {
            if !settling.isDone { hasLostAnything = true }
            try Failpoint.afterSessionLost.hit()
            if settling.isDone { break }
            // A short-lived process may have no time for all rows. The next process continues.
            if account.mailbox.isLeaving {
                throw AccountError(.closed, "the account was closed while a lost session was settled")
            }
            settling = try owner.run { step in try settle(settling, in: step) }
        }
        if hasLostAnything { account.hub.send(.sessionLost(failed?.error)) }
    }

    /// The progress of settling a lost session, so that no step repeats the work of an earlier one.
    private struct Settling {
        let session: Int64
        let reason: InvalidationReason
        /// The last outbox row that was removed as void, and the last message that was queued again. The next step starts after
        /// them.
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
            try step.invalidateAlone(handler, reason: settling.reason, environment: account)
        }
        let last = try account.outbox.requeueMessages(
            after: settling.messages, limit: Self.settleLimit, in: step)
        settling.void = rows.last?.seq ?? settling.void
        settling.messages = last ?? settling.messages
        settling.isDone = requests == 0 && rows.isEmpty && last == nil
        return settling
    }

    /// Forgets the deferred stanzas and the unanswered inbound requests of a lost session.
    ///
    /// Deferred messages arrive again in another way, and must not be taken for duplicates. The senders of the requests no longer
    /// wait for an answer to that session.
    func forgetDeliveries(in step: borrowing Step) throws {
        try account.sessions.forgetDeferred(in: step)
        try account.seen.forgetPostponed(in: step)
        try account.endDeferrals(isLost: true, in: step)
        try account.inboundRequests.forgetAll(in: step)
    }

    /// Acknowledges the stanzas that `<failed/>` reports as received (XEP-0198 section 5), so that they are not sent again.
    private func creditFailed(_ count: HandledCount, _ state: SessionTable.State, in step: borrowing Step)
        throws
    {
        var inbound = account.inboundStep(
            own: state.fullJID ?? account.configuration.jid, session: state.number, now: now,
            management: state.management(account.acknowledgements))
        // An impossible count is ignored: sending the stanzas again is safe.
        _ = try inbound.acknowledge(count, in: step)
    }
}
