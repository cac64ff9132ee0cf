// Events of nodes: what services and servers send by themselves, to standing handlers that are stored.
//
//     <message><event/></message> ──▶ whose node? ──▶ PubSubEvent.Change.read ──▶ seen before?
//                                      (sender)         items, retracted, purged …     │ pubsub_seen_item
//                                                                                      ▼
//     the same step as h:                           Step.call ◀── standing handlers of the node, of the publisher
//
// While a standing handler is there for a node of users, the account's presence asks for it (node+notify).

public import Handlers
public import XMPPAccount
import XMPPCore
import XMPPModules

/// Takes the events of nodes and calls the standing handlers that `PubSubService.listen` has stored.
///
/// ```swift
/// configuration.modules = .standard + [PubSubEvents()]
/// let store = try HandlerStore(
///     path: "app.db", registry: .discovered(and: PubSubService.handlers), schemas: Account.schemas + PubSubEvents.schemas)
/// ```
///
/// An event counts as one of the address that it came from, whatever it says of itself. A handler that names no
/// publisher is called for the account itself and, when the account has a roster, for contacts alone; without
/// `RosterModule` for everybody. An event with a handler is no message to listeners; one without is left to them.
///
/// Source: XEP-0060 sections 7 and 8, XEP-0163 section 4.
public struct PubSubEvents: LibraryModule, AccountModule {
    package static let moduleName = "pubsub-events"

    /// The module's tables; pass them to the store beside `Account.schemas`.
    public static let schemas: [Schema] = [SeenItemTable.schema]

    /// Makes the module, which has no options.
    public init() {}

    package func install(in hooks: inout ModuleHooks) {
        // Entity capabilities announce the wanted nodes (XEP-0163 section 4.2).
        hooks.dependencies = [DiscoModule.self]
        hooks.schema = SeenItemTable.schema
        hooks.currentFeatures = features(of:in:)
        hooks.receiveMessage = receive(_:in:)
    }

    func features(of account: Account, in step: borrowing Step) throws -> Set<String> {
        let nodes = try PubSubListeners(account: account).notifiedNodes(in: step)
        return Set(nodes.map { $0 + EventWire.notify })
    }

    func receive(_ received: MessageReceived, in step: borrowing Step) throws -> Bool {
        let message = received.message
        // What archives and copies hold is the past; it must not be taken for how things are now.
        guard received.source == .direct, message.type != .error, message.type != .groupchat else {
            return false
        }
        let account = received.account
        let own = try account.ownAddress(in: step)
        let service = message.from ?? own
        guard let event = message.element.child("event", Namespaces.pubsubEvent) else {
            return try SubscriptionRequestArrival(account: account, service: service).handle(
                message, in: step)
        }
        guard service.isBare else {
            account.ignore(
                message.element,
                "an event of a node came from \(service), but nodes are at bare addresses", after: step)
            return true
        }
        let arrival = EventArrival(
            account: account, service: service, isOwn: service == own,
            sentAt: Self.sentAt(message, service: service, own: own, now: step.now),
            subscriptionIDs: Self.subscriptionIDs(message))
        let isTaken = try arrival.handle(event, in: step)
        return isTaken && message.body == nil
    }

    /// When a delayed event happened. Anybody may write a delay; that of the service and of the own server counts.
    private static func sentAt(_ message: Message, service: JID, own: JID, now: Timestamp) -> Timestamp? {
        let delay = message.element.children("delay", Namespaces.delay).first { delay in
            guard let text = delay["from"] else { return true }
            guard let witness = try? JID(received: text) else { return false }
            return witness == service || witness == service.domainJID || witness == own
                || witness == own.domainJID
        }
        return delay?["stamp"].flatMap { Timestamp($0) }.map { min($0, now) }
    }

    private static func subscriptionIDs(_ message: Message) -> [ForeignText] {
        let headers = message.element.child("headers", EventWire.headers)
        return headers?.children("header", EventWire.headers).filter {
            $0["name"] == EventWire.subscriptionHeader
        }.map(\.text) ?? []
    }
}

/// A message with events, and its recipients.
struct EventArrival {
    let account: Account
    let service: JID
    let isOwn: Bool
    let sentAt: Timestamp?
    let subscriptionIDs: [ForeignText]

    /// - Returns: Whether there was a standing handler for any of it.
    func handle(_ event: Element, in step: borrowing Step) throws -> Bool {
        let isKnown = try isKnown(in: step)
        var isTaken = false
        for element in event.elements {
            guard let node = element["node"] else { continue }
            let handlers = try PubSubListeners(account: account).handlers(
                of: node, at: service, isKnown: isKnown, in: step)
            guard !handlers.isEmpty else { continue }
            isTaken = true
            for change in PubSubEvent.Change.read(element) {
                var missing: [PubSubItem]?
                for handler in handlers {
                    guard let change = try readable(change, for: handler, &missing, in: step) else {
                        continue
                    }
                    try call(handler, of: node, change, in: step)
                }
                if let missing { try fetch(missing, of: node, in: step) }
            }
        }
        return isTaken
    }

    /// Hands out items that were fetched, to the handlers that take values.
    func handle(fetched items: [PubSubItem], of node: ForeignText, in step: borrowing Step) throws {
        let handlers = try PubSubListeners(account: account).handlers(
            of: node, at: service, isKnown: isKnown(in: step), in: step)
        for handler in handlers where try SeenItemTable(handler: AnyHandlerID(handler)).isTyped(in: step) {
            try call(handler, of: node, .items(items), in: step)
        }
    }

    /// Returns whether handlers for the nodes of all services may be called: only known senders may cause work by events.
    private func isKnown(in step: borrowing Step) throws -> Bool {
        if isOwn { return true }
        guard (try? account.module(RosterModule.self)) != nil else { return true }
        return try account.roster.item(for: service, in: step).map { $0.subscription != .none } ?? false
    }

    func call(
        _ handler: HandlerID<PubSubEvent>, of node: ForeignText, _ change: PubSubEvent.Change,
        in step: borrowing Step
    ) throws {
        guard let news = try news(in: change, for: SeenItemTable(handler: AnyHandlerID(handler)), in: step)
        else { return }
        let event = PubSubEvent(
            account: account, service: service, node: node, change: news, isOwn: isOwn, sentAt: sentAt,
            subscriptionIDs: subscriptionIDs)
        account.log(.verbose, .pubsub, "an event of \(node) at \(service)", after: step)
        account.trace(.pubsub, "\(news)", after: step)
        let disposition = try step.call(handler, with: event)
        try account.report(disposition, handler, "event of \(node) at \(service)", after: step)
    }

    /// Returns the part of a change that a handler has not been called with; nil if there is none.
    private func news(
        in change: PubSubEvent.Change, for seen: SeenItemTable, in step: borrowing Step
    ) throws(HandlerError) -> PubSubEvent.Change? {
        switch change {
        case .items(let items):
            let news = try seen.recordNews(items, at: service, in: step)
            if news.isEmpty && !items.isEmpty { return nil }
            return .items(news)
        case .retracted(let ids): try seen.forget(ids, at: service, in: step)
        case .purged, .deleted: try seen.forgetAll(at: service, in: step)
        case .configured, .subscription, .associated, .disassociated: break
        }
        return change
    }
}
