import Handlers
import XMPPAccount
import XMPPCore

/// The writes of arriving stanzas into the tables of the roster.
struct RosterUpdate {
    let account: Account
    let roster: RosterTable
    let presences: ContactPresenceTable
    let subscriptions: SubscriptionTable

    init(_ account: Account) {
        self.account = account
        roster = RosterTable(account: account.id)
        presences = ContactPresenceTable(account: account.id)
        subscriptions = SubscriptionTable(account: account.id)
    }

    private func report(_ change: RosterChange, after step: borrowing Step) {
        account.report(change, after: step)
    }

    // MARK: The roster

    /// The answer to what was asked when the session began.
    func fetched(_ outcome: IQReply.Outcome, in step: borrowing Step) throws {
        switch outcome {
        case .timeout: try notLoaded(nil, in: step)
        case .error(let error): try notLoaded(error, in: step)
        // RFC 6121 section 2.6.3: nothing changed since that version, or the changes follow as pushes.
        case .result(nil): try loaded(isWhole: false, in: step)
        case .result(let query?) where query.has(name: "query", namespace: Namespaces.roster):
            let items = query.children("item", Namespaces.roster)
            // One after the other: an answer may hold 30 000.
            let kept = items.lazy.compactMap { RosterItem($0) }.prefix(RosterTable.maximumItems)
            let areAllKept = try roster.replace(with: kept, in: step)
            if !areAllKept || items.count > RosterTable.maximumItems { ignore(query, after: step) }
            try roster.setVersion(query["ver"].flatMap(\.token), in: step)
            try loaded(isWhole: true, in: step)
        case .result: try notLoaded(StanzaError(.undefinedCondition), in: step)
        }
    }

    /// A roster is as large as the server makes it.
    private func ignore(_ query: Element, after step: borrowing Step) {
        account.ignore(
            query,
            "the roster has more than \(RosterTable.maximumItems) items, or one whose address has more than \(ForeignBounds.key) bytes; the others are not kept",
            after: step)
    }

    /// - Parameter isWhole: Whether the server has sent the whole roster.
    private func loaded(isWhole: Bool, in step: borrowing Step) throws {
        try roster.setLoaded(true, in: step)
        try presences.removeStrangers(own: account.ownAddress(in: step), in: step)
        try subscriptions.removeApproved(in: step)
        if account.moduleIfPresent(RosterModule.self)?.approvesKnownContacts == true {
            // What came before the roster, or before the module might approve.
            for request in try subscriptions.requests(in: step) { _ = try approve(request, in: step) }
        }
        for jid in try subscriptions.awaited(in: step) { try decide(jid, isWhole: isWhole, in: step) }
        report(.loaded, after: step)
    }

    private func notLoaded(_ error: StanzaError?, in step: borrowing Step) throws {
        try roster.setLoaded(true, in: step)
        try presences.removeStrangers(own: account.ownAddress(in: step), in: step)
        report(.notLoaded(error), after: step)
    }

    /// A change that the own server pushes (RFC 6121 section 2.1.6).
    func push(_ query: Element, in step: borrowing Step) throws -> ModuleAnswer {
        let elements = query.children("item", Namespaces.roster)
        guard elements.count == 1 else { return .error(StanzaError(.badRequest)) }
        if let version = query["ver"] { try roster.setVersion(version.token, in: step) }
        guard let item = RosterItem(elements[0]) else { return .result(nil) }
        if elements[0]["subscription"] == "remove" {
            try roster.remove(item.jid, in: step)
            report(.removed(item.jid), after: step)
        } else if try !roster.set(item, in: step) {
            ignore(query, after: step)
        } else {
            if item.isSubscriber { try subscriptions.removeRequest(of: item.jid.bare, in: step) }
            report(.changed(item), after: step)
        }
        if try !maySee(item.jid.bare, in: step) { _ = try presences.remove(item.jid.bare, in: step) }
        try decide(item.jid, isWhole: false, in: step)
        return .result(nil)
    }

    // MARK: Decisions of contacts

    /// Ends the waiters for a contact's decision, if the roster shows it.
    ///
    /// An item that does not say "asked" may come from before the question: it is a refusal only when one came before that
    /// said so, or when the server has sent the whole roster after it had taken the question.
    func decide(_ jid: JID, isWhole: Bool, in step: borrowing Step) throws {
        let item = try roster.item(for: jid, in: step)
        if item?.isSubscribed == true { return try end(jid, .approved, in: step) }
        if item?.isAsking == true { return try subscriptions.recordAsked(jid, in: step) }
        let isAsked = try isWhole && !subscriptions.isUnderWay(to: jid, in: step)
        try end(jid, .denied, askedOnly: !isAsked, in: step)
    }

    private func end(
        _ jid: JID, _ outcome: SubscriptionDecision.Outcome, askedOnly: Bool = false, in step: borrowing Step
    ) throws {
        for handler in try subscriptions.claimWaiting(for: jid, askedOnly: askedOnly, in: step)
        where try step.waits(handler) {
            let decision = SubscriptionDecision(account: account, jid: jid, outcome: outcome)
            let isError = outcome != .approved
            try step.end(handler, isError ? .error : .result, with: decision)
        }
    }

    /// Those who wait for a contact's decision will never learn it.
    func abandon(_ jid: JID, _ reason: InvalidationReason, in step: borrowing Step) throws {
        for handler in try subscriptions.claimWaiting(for: jid, in: step) where try step.waits(handler) {
            try step.invalidate(handler, reason: reason, environment: account)
        }
    }

    // MARK: Sending

    /// Sends a step of a subscription, and keeps it until the server has taken it.
    func send(_ type: Presence.Kind, to jid: JID, status: String?, in step: borrowing Step) throws {
        let row = try subscriptions.add(type, to: jid, status: status, in: step)
        let children = status.map { [Element("status", namespace: Namespaces.client, text: $0)] } ?? []
        let sent = try Durable(SubscriptionSent(row: row))
        try account.send(
            Presence(type: type, to: jid, id: StanzaID.random(), children: children),
            acknowledged: sent.orElse(Durable(SubscriptionUnsent(row: row))), in: step)
    }

    // MARK: Presence

    /// Returns whether the account sees their presence: the server sends only that of contacts, but anybody may send their own.
    private func maySee(_ bare: JID, in step: borrowing Step) throws -> Bool {
        if try bare == account.ownAddress(in: step) { return true }
        return try roster.item(for: bare, in: step)?.isSubscribed == true
    }

    func available(_ presence: Presence, from: JID, in step: borrowing Step) throws {
        // An occupant of a room is no contact (XEP-0045 section 7.2.2).
        guard presence.element.child("x", Namespaces.mucUser) == nil else { return }
        // Until the roster is there nobody is known to be a stranger.
        let isContact = try maySee(from.bare, in: step)
        guard try isContact || !roster.state(in: step).isLoaded else { return }
        let limit = isContact ? ContactPresenceTable.maximumRows : ContactPresenceTable.maximumUnknown
        let available = ContactPresence(presence, from: from)
        guard try presences.set(available, limit: limit, in: step) else {
            return account.ignore(
                presence.element,
                "too many resources are available to keep \(from) as well, or its address is too long",
                after: step)
        }
        report(.available(available), after: step)
    }

    func unavailable(_ from: JID, in step: borrowing Step) throws {
        if try presences.remove(from, in: step) { report(.unavailable(from), after: step) }
    }

    /// The contact's server, or the way there, answered our presence with an error.
    func failed(_ presence: Presence, from: JID, in step: borrowing Step) throws {
        try unavailable(from, in: step)
        guard from.isBare, let error = presence.error else { return }
        try end(from, .failed(error), in: step)
    }

    func requested(_ presence: Presence, from: JID, in step: borrowing Step) throws {
        guard try from != account.ownAddress(in: step),
            try roster.item(for: from, in: step)?.isSubscriber != true,
            let request = try subscriptions.record(presence, from: from, in: step)
        else { return }
        if try !approve(request, in: step) { report(.requested(request), after: step) }
    }

    /// Approves a user in the roster, if the module may do that automatically.
    ///
    /// - Returns: Whether it did.
    private func approve(_ request: SubscriptionRequest, in step: borrowing Step) throws -> Bool {
        guard account.moduleIfPresent(RosterModule.self)?.approvesKnownContacts == true,
            try roster.state(in: step).isLoaded, try roster.item(for: request.jid, in: step) != nil
        else { return false }
        try subscriptions.removeRequest(of: request.jid, in: step)
        try account.usingReserve(in: step) { try send(.subscribed, to: request.jid, status: nil, in: step) }
        report(.approved(request), after: step)
        return true
    }

    func unsubscribed(_ from: JID, in step: borrowing Step) throws {
        let hadAsked = try subscriptions.removeRequest(of: from, in: step)
        let wasSubscriber = try roster.item(for: from, in: step)?.isSubscriber == true
        if hadAsked || wasSubscriber { report(.unsubscribed(from), after: step) }
    }
}
