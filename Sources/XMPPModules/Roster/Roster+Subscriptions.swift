public import Handlers
public import XMPPCore

// Subscriptions (RFC 6121 section 3). Each step is presence to a bare address; it is stored until the server has taken it,
// and a session that is lost before that leaves it to the next one.
extension Roster {
    // MARK: Seeing a contact's presence

    /// Requests a subscription to a contact's presence. The decision calls a stored handler, maybe weeks later.
    ///
    /// - Parameters:
    ///   - jid: The contact.
    ///   - status: What to say with it; nil for nothing.
    ///   - then: Called with the decision; nil for none.
    ///   - orElse: Called when the account does not ask any more.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`, `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: RFC 6121 section 3.1.
    public func subscribe(
        to jid: JID, status: String? = nil, then: Durable<SubscriptionDecision>? = nil,
        orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        let update = try update
        let contact = jid.bare
        if let then {
            try update.subscriptions.wait(step.bind(then.orElse(orElse)), for: contact, in: step)
            // Who sees it already is told so at once: the server has nothing to push.
            if try update.roster.item(for: contact, in: step)?.isSubscribed == true {
                try update.decide(contact, isWhole: false, in: step)
            }
        }
        try update.send(.subscribe, to: contact, status: status, in: step)
    }

    /// Cancels the subscription to a contact's presence, or the request for it. Handlers that wait for a decision are
    /// invalidated with the reason `cancelled`.
    ///
    /// - Parameters:
    ///   - jid: The contact.
    ///   - step: The step that it commits with.
    /// - Throws: As ``subscribe(to:status:then:orElse:in:)``.
    ///
    /// Source: RFC 6121 section 3.3.
    public func unsubscribe(from jid: JID, in step: borrowing Step) throws {
        let update = try update
        try update.abandon(jid.bare, .cancelled, in: step)
        try update.send(.unsubscribe, to: jid.bare, status: nil, in: step)
    }

    // MARK: Showing the own presence

    /// Approves a pending subscription request.
    ///
    /// A user without a request is approved in advance, if the server can do that (it then says so with
    /// ``RosterItem/isApproved``); otherwise nothing happens.
    ///
    /// - Parameters:
    ///   - jid: Who may see it.
    ///   - step: The step that it commits with.
    /// - Throws: As ``subscribe(to:status:then:orElse:in:)``.
    ///
    /// Source: RFC 6121 sections 3.1.5 and 3.4.
    public func approve(_ jid: JID, in step: borrowing Step) throws { try answer(.subscribed, jid, in: step) }

    /// Denies a subscription request, cancels a subscription to the account's presence, or withdraws a pre-approval.
    ///
    /// - Parameters:
    ///   - jid: Who may not see it.
    ///   - step: The step that it commits with.
    /// - Throws: As ``subscribe(to:status:then:orElse:in:)``.
    ///
    /// Source: RFC 6121 sections 3.1.5, 3.2 and 3.4.
    public func deny(_ jid: JID, in step: borrowing Step) throws { try answer(.unsubscribed, jid, in: step) }

    private func answer(_ type: Presence.Kind, _ jid: JID, in step: borrowing Step) throws {
        let update = try update
        try update.subscriptions.removeRequest(of: jid.bare, in: step)
        try update.send(type, to: jid.bare, status: nil, in: step)
    }
}
