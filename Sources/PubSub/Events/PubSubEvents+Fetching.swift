import Handlers
import XMPPAccount
import XMPPCore

// Events without content: a service may say that an item is there and leave out what it holds (XEP-0060 section 4.3). A handler that takes
// values gets them when they have been fetched.
extension EventArrival {
    /// The maximum number of items that are requested by their ids; of more the newest are.
    private static let limit = 32

    /// Returns a change if a handler can read any of it.
    ///
    /// - Parameter missing: The items that are to be fetched for it are added.
    func readable(
        _ change: PubSubEvent.Change, for handler: HandlerID<PubSubEvent>, _ missing: inout [PubSubItem]?,
        in step: borrowing Step
    ) throws(HandlerError) -> PubSubEvent.Change? {
        guard case .items(let items) = change, items.isEmpty || items.contains(where: { $0.payload == nil }),
            try SeenItemTable(handler: AnyHandlerID(handler)).isTyped(in: step)
        else { return change }
        missing = items.filter { $0.payload == nil }
        return items.allSatisfy { $0.payload == nil } ? nil : change
    }

    /// Requests the items that an event has named, or the newest one if it has named none.
    func fetch(_ items: [PubSubItem], of node: ForeignText, in step: borrowing Step) throws {
        let ids = items.compactMap { $0.id?.token }
        try fetch(ids.count <= Self.limit ? ids : [], of: node, attempt: 1, in: step)
    }

    func fetch(_ ids: [ForeignText], of node: ForeignText, attempt: Int, in step: borrowing Step) throws {
        let fetched = try EventItemsFetched(node: node, ids: ids, attempt: attempt).durable
        let selection: PubSubSelection = ids.isEmpty ? .newest(Self.limit) : .ids(ids)
        do {
            try account.send(.pubsub(.items(of: node, selection), at: service), then: fetched, in: step)
        } catch let error as AccountError where error.code == .outboxFull {
            try EventItemsFetched(node: node, ids: ids, attempt: attempt).retry(
                at: service, account, in: step)
        }
    }
}

/// Calls the handlers that take values with what was fetched.
struct EventItemsFetched: Handler {
    static let id = "pubsub.event-items-fetched"
    var node: ForeignText
    /// The ids that were asked for; none: the newest.
    var ids: [ForeignText]
    var attempt: Int

    /// The maximum number of requests, and the wait before the second one; each is twice as long as the one before.
    private static let attempts = 4
    private static let wait = Duration.seconds(120)

    func run(_ call: borrowing Call<PubSubFetch>) throws {
        let (account, service) = (call.account, call.service)
        switch call.outcome {
        case .success(let items) where !items.isEmpty:
            try EventArrival(at: service, of: account, in: call.step).handle(
                fetched: items, of: node, in: call.step)
        // It is gone again, which another event says.
        case .success, .notFound: return
        case .error, .timedOut: try retry(at: service, account, in: call.step)
        }
    }

    func retry(at service: JID, _ account: Account, in step: borrowing Step) throws {
        guard attempt < Self.attempts else { return }
        let due = EventItemsDue(service: service, node: node, ids: ids, attempt: attempt + 1)
        try step.schedule(due.durable, after: Self.wait * (1 << (attempt - 1)), in: account.scope)
    }
}

/// The time to ask again has come.
struct EventItemsDue: Handler {
    static let id = "pubsub.event-items-due"
    var service: JID
    var node: ForeignText
    var ids: [ForeignText]
    var attempt: Int

    func run(_ call: borrowing Call<TimerFired>) throws {
        let account = try call.context.account
        try EventArrival(at: service, of: account, in: call.step).fetch(
            ids, of: node, attempt: attempt, in: call.step)
    }
}

extension EventArrival {
    /// What was fetched, as if it had come with its event.
    fileprivate init(at service: JID, of account: Account, in step: borrowing Step) throws {
        self.init(
            account: account, service: service, isOwn: service == (try account.ownAddress(in: step)),
            sentAt: nil, subscriptionIDs: [])
    }
}
