package import Handlers
import XMPPCore

/// Standing handlers of an account by what they listen to.
package struct ListenerTable: Sendable {
    let account: Int64

    /// Listeners to every message.
    static let messages = "message"
    /// Listeners to every presence.
    static let presence = "presence"
    /// Those that answer requests, by the payload.
    static let requests = "iq"

    /// The key of a payload.
    static func key(_ name: some TextConvertible, _ namespace: some TextConvertible) -> String {
        "{\(namespace.foreignText)}\(name.foreignText)"
    }

    /// Puts a handler in the place of the one with that key.
    ///
    /// The same handler with the same arguments stays, so that a program may set it at every start.
    ///
    /// - Parameter isOrdered: Whether its calls wait for one another, also for those of before.
    package func set<Context>(
        _ event: String, key: String, to handler: Durable<Context>, ordered isOrdered: Bool = false,
        in step: borrowing Step
    ) throws(HandlerError) {
        guard ForeignBounds.fitKey(event, key) else {
            throw HandlerError(
                .invalidKey,
                "what a handler listens to and the key of the listener have \(ForeignBounds.key) bytes together at most"
            )
        }
        if isOrdered, let same = try find(event, key: key, handler, in: step) {
            return try step.setOrdered(true, of: same)
        }
        if !isOrdered, try isSet(event, key: key, to: handler, in: step) { return }
        try remove(event, key: key, in: step)
        let id = try step.bindStanding(handler)
        if isOrdered { try step.setOrdered(true, of: AnyHandlerID(id)) }
        try step.write(
            "INSERT INTO listener(account, event, key, handler) VALUES (?, ?, ?, ?)", account, event, key, id)
    }

    /// Whether a handler is set already, unordered, and as if it had been set now.
    func isSet<Context>(
        _ event: String, key: String, to handler: Durable<Context>, in source: borrowing some Readable
    ) throws(HandlerError) -> Bool {
        let isFresh =
            "relations = 0 AND attempts = 0 AND deaths = 0 AND \(Transaction.State.pending.condition)"
        return try source.first(
            "\(Self.select) AND \(isFresh)", account, event, key, handler.name, handler.version,
            handler.arguments
        ) { _ in true } ?? false
    }

    /// The row of a listener that is this handler with these arguments.
    private func find<Context>(
        _ event: String, key: String, _ handler: Durable<Context>, in step: borrowing Step
    ) throws(HandlerError) -> AnyHandlerID? {
        try step.first(
            Self.select, account, event, key, handler.name, handler.version, handler.arguments
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
    }

    private static let select = """
        SELECT handler.id FROM listener JOIN handler ON handler.id = listener.handler
        WHERE listener.account = ? AND listener.event = ? AND listener.key = ? AND handler.name = ?
            AND handler.version = ? AND handler.arguments = ?
        """

    /// - Returns: False if there was no listener under that key.
    @discardableResult
    package func remove(_ event: String, key: String, in step: borrowing Step) throws(HandlerError) -> Bool {
        let old = try step.first(
            "DELETE FROM listener WHERE account = ? AND event = ? AND key = ? RETURNING handler", account,
            event, key
        ) { $0.integer(0) }
        guard let old else { return false }
        try step.write("DELETE FROM handler WHERE id = ? AND kind = \(Transaction.Kind.standing.sql)", old)
        return true
    }

    /// The handler that answers a request.
    func handler(for iq: IQ, in step: borrowing Step) throws(HandlerError) -> HandlerID<IQRequest>? {
        guard let payload = iq.payload else { return nil }
        return try step.first(
            "SELECT handler FROM listener WHERE account = ? AND event = ? AND key = ?", account,
            Self.requests, Self.key(payload.name, payload.namespace)
        ) { HandlerID(rawValue: $0.integer(0)) }
    }

    /// A standing handler and its place.
    package struct Listener: Hashable, Sendable {
        package let event: String
        package let key: String
        package let handler: AnyHandlerID
    }

    /// Returns the listeners of an event, in the order of their keys.
    package func listeners(of event: String, in step: borrowing Step) throws(HandlerError) -> [Listener] {
        try step.all(
            "SELECT event, key, handler FROM listener WHERE account = ? AND event = ? ORDER BY key", account,
            event, read: Self.read)
    }

    /// Returns the listeners of events whose names have a prefix, in the order of the names.
    package func listeners(
        ofEventsFrom prefix: String, in step: borrowing Step
    ) throws(HandlerError) -> [Listener] {
        try step.all(
            """
            SELECT event, key, handler FROM listener
            WHERE account = ?1 AND event >= ?2 AND substr(event, 1, length(?2)) = ?2 ORDER BY event, key
            """, account, prefix, read: Self.read)
    }

    private static func read(_ row: borrowing Row) throws(HandlerError) -> Listener {
        Listener(event: row.text(0), key: row.text(1), handler: AnyHandlerID(rawValue: row.integer(2)))
    }

    /// The handlers that listen to an event, in the order of their keys. The event decides their context.
    func handlers<Context>(of event: String, in step: borrowing Step) throws(HandlerError)
        -> [HandlerID<Context>]
    {
        try step.all(
            "SELECT handler FROM listener WHERE account = ? AND event = ? ORDER BY key", account, event
        ) { HandlerID(rawValue: $0.integer(0)) }
    }
}
