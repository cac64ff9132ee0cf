import Handlers
import XMPPAccount
import XMPPCore

/// The standing handlers of nodes: rows of the account's own table of listeners.
///
/// The event is named after the node, the key holds the publisher, or nothing, and the program's own key.
struct PubSubListeners {
    let account: Account

    private static let prefix = "pubsub "

    private static func event(_ node: ForeignText) -> String { "\(prefix)\(node)" }

    private static func key(_ publisher: JID?, _ key: String) -> String {
        (publisher?.description ?? "") + " " + key
    }

    /// The publisher that a key holds; nil for everybody.
    private static func publisher(_ key: String) -> String? {
        let text = key.prefix { $0 != " " }
        return text.isEmpty ? nil : String(text)
    }

    // MARK: Who is called

    /// The standing handlers of a node.
    ///
    /// - Parameter isKnown: Whether handlers of everybody's nodes may be called for this service.
    func handlers(
        of node: ForeignText, at service: JID, isKnown: Bool, in step: borrowing Step
    ) throws(HandlerError) -> [HandlerID<PubSubEvent>] {
        try account.listeners.listeners(of: Self.event(node), in: step).filter { listener in
            Self.publisher(listener.key).map { ForeignText($0) == service.foreignText } ?? isKnown
        }.map { HandlerID(of: $0.handler) }
    }

    /// The nodes whose events servers are to send without a subscription (XEP-0163 section 4.2). A handler of one PubSub
    /// service is none of them: there one subscribes.
    func notifiedNodes(in step: borrowing Step) throws -> Set<String> {
        var nodes: Set<String> = []
        for listener in try account.listeners.listeners(ofEventsFrom: Self.prefix, in: step) {
            let publisher = try Self.publisher(listener.key).map { try JID(received: $0) }
            guard publisher.map({ $0.local != nil }) ?? true else { continue }
            nodes.insert(String(listener.event.dropFirst(Self.prefix.count)))
        }
        return nodes
    }

    // MARK: Changing

    /// Puts a handler in the place of the one with that key. The same one stays, with what it has seen.
    func set<Context>(
        _ node: ForeignText, of publisher: JID?, key: String, to handler: Durable<Context>,
        ordered isOrdered: Bool = false, in step: borrowing Step
    ) throws {
        let (event, key) = (Self.event(node), Self.key(publisher, key))
        let old = try find(event, key, in: step)
        if let old, try isBound(handler, as: old, in: step) {
            return try step.setOrdered(isOrdered, of: old)
        }
        let nodes = try notifiedNodes(in: step)
        if let old { try SeenItemTable(handler: old).remove(in: step) }
        try account.listeners.set(event, key: key, to: handler, ordered: isOrdered, in: step)
        try announce(since: nodes, in: step)
    }

    /// Has what comes without its content fetched for a handler that takes values.
    func setTyped(_ node: ForeignText, of publisher: JID?, key: String, in step: borrowing Step) throws {
        guard let handler = try find(Self.event(node), Self.key(publisher, key), in: step) else { return }
        try SeenItemTable(handler: handler).setTyped(in: step)
    }

    /// - Returns: False when there was none.
    func remove(_ node: ForeignText, of publisher: JID?, key: String, in step: borrowing Step) throws -> Bool
    {
        let (event, key) = (Self.event(node), Self.key(publisher, key))
        guard let old = try find(event, key, in: step) else { return false }
        let nodes = try notifiedNodes(in: step)
        try SeenItemTable(handler: old).remove(in: step)
        try account.listeners.remove(event, key: key, in: step)
        try announce(since: nodes, in: step)
        return true
    }

    private func announce(since nodes: Set<String>, in step: borrowing Step) throws {
        if try notifiedNodes(in: step) != nodes { try account.announceFeatures(in: step) }
    }

    private func find(
        _ event: String, _ key: String, in step: borrowing Step
    ) throws(HandlerError) -> AnyHandlerID? {
        try account.listeners.listeners(of: event, in: step).first { $0.key == key }?.handler
    }

    /// Returns whether a row holds this handler with these arguments.
    private func isBound<Context>(
        _ handler: Durable<Context>, as id: AnyHandlerID, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM handler WHERE id = ? AND name = ? AND version = ? AND arguments = ?", id,
            handler.name, handler.version, handler.arguments)
    }
}
