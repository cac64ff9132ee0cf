/// Event that a step stores for the running program.
///
/// An event is posted inside a step and so commits with the change that it reports. It is delivered after the commit, to
/// whichever process listens, and is gone only when it was consumed: a kill between the commit and the delivery loses
/// nothing.
///
/// ```swift
/// struct MessageStored: DurableEvent {
///     static let id = "demo.message-stored"
///     var row: Int64
/// }
/// try store.step { try $0.post(MessageStored(row: 1)) }
/// for try await delivery in store.events(MessageStored.self) { show(delivery.event.row) }
/// ```
public protocol DurableEvent: Codable, Sendable {
    /// The name that is stored; unique among events, and never changed.
    static var id: String { get }
}

extension Step {
    /// Posts an event, which the program receives after this step has committed.
    ///
    /// At most 100 000 events of a kind and scope wait, each of 64 KiB at most as JSON. A
    /// handler that cannot post is quarantined with what it was called with.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - scope: In whose service it happened; nil for the program as a whole.
    /// - Throws: ``HandlerError`` `argumentNotEncodable` when it cannot be stored or is too large, `tooManyEvents` when too
    ///   many wait, `invalidKey` when a name has more than 512 bytes, or the codes of the store.
    public func post<Event: DurableEvent>(_ event: Event, in scope: HandlerScope? = nil) throws(HandlerError)
    {
        let payload = try ArgumentCoding.encode(event, named: "the event '\(Event.id)'")
        guard payload.count <= Events.maximumEventBytes else {
            throw HandlerError(
                .argumentNotEncodable,
                "the event '\(Event.id)' has \(payload.count) bytes, more than \(Events.maximumEventBytes); store the content in a table and post its row"
            )
        }
        try NameBounds.check(Event.id, of: "an event")
        try NameBounds.check(scope?.rawValue, of: "a scope")
        guard try transaction.events.mayPost(Event.id, in: scope) else {
            throw HandlerError(
                .tooManyEvents,
                "\(Events.maximumEvents) events '\(Event.id)' wait; consume them with store.events, or post none"
            )
        }
        try transaction.connection.execute(
            "INSERT INTO event(name, scope, payload, posted_at) VALUES (?, ?, ?, ?)",
            [Event.id, scope?.rawValue, payload, now])
        transaction.hasNewEvents = true
    }
}

/// Stored event as a consumer receives it.
///
/// ```swift
/// for try await delivery in store.events(MessageStored.self) {
///     try store.step { step in
///         guard try delivery.consume(in: step) else { return }
///         try step.execute("UPDATE counter SET messages = messages + 1")
///     }
/// }
/// ```
public struct EventDelivery<Event: DurableEvent>: Sendable {
    /// The event.
    public let event: Event
    /// When it was posted, by the wall clock.
    package let postedAt: Timestamp
    let row: Int64

    /// Marks it as consumed, together with what else the step writes.
    ///
    /// - Parameter step: The step in which the event's effects are written.
    /// - Returns: False when it was consumed before, by another listener or another process: then the step should
    ///   write nothing for it.
    /// - Throws: ``HandlerError`` with the codes of the store.
    @discardableResult
    public func consume(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.transaction.connection.execute("DELETE FROM event WHERE id = ?", [row]) == 1
    }
}

/// The events of one kind, in the order in which they were posted; it never ends by itself.
///
/// An event counts as consumed when the next one is asked for, so a loop that was killed in its body sees that event
/// again. Where its effects are in the database, call ``EventDelivery/consume(in:)`` in the same step: then they
/// happen exactly once.
///
/// ```swift
/// for try await delivery in store.events(MessageStored.self) { show(delivery.event.row) }
/// ```
struct EventSequence<Event: DurableEvent>: AsyncSequence {
    let store: HandlerStore
    let scope: HandlerScope?

    func makeAsyncIterator() -> Iterator { Iterator(store: store, scope: scope) }

    /// Iterator over the events, made by `for try await`.
    struct Iterator: AsyncIteratorProtocol {
        let store: HandlerStore
        let scope: HandlerScope?
        private var last: EventDelivery<Event>?

        init(store: HandlerStore, scope: HandlerScope?) {
            self.store = store
            self.scope = scope
        }

        /// Returns the next event; waits until there is one.
        ///
        /// - Returns: An event, never nil.
        /// - Throws: `CancellationError` when the task was canceled; ``HandlerError`` when the store fails, or
        ///   `wrongArgument` for an event of this name that cannot be read: it stays, and blocks those after
        ///   it.
        mutating func next() async throws -> EventDelivery<Event>? {
            try store.watchChanges()
            while true {
                try Task.checkCancellation()
                let seen = store.listeners.news.count
                if let next = try claim() { return next }
                try await store.listeners.news.wait(beyond: seen)
            }
        }

        private mutating func claim() throws -> EventDelivery<Event>? {
            let consumed = last
            let scope = scope
            // An event that cannot be read does not undo that the one before it was consumed.
            let next = try store.step { step in
                if let consumed { try consumed.consume(in: step) }
                return try step.transaction.events.nextEvent(Event.self, in: scope)
            }
            last = nil
            last = try next?.delivery()
            return last
        }
    }
}

extension HandlerStore {
    /// Returns the events of one kind as any process posts them.
    ///
    /// The events that wait come first.
    ///
    /// One listener for each kind and scope is what this is made for: with two, either may see an event first, and
    /// both may see it.
    ///
    /// - Parameters:
    ///   - kind: The type of the events; inferred where the context says it.
    ///   - scope: In whose service they happened; nil for the program as a whole.
    /// - Returns: The events; each loop over them begins with the oldest one that was not consumed.
    public func events<Event: DurableEvent>(
        _ kind: Event.Type = Event.self, in scope: HandlerScope? = nil
    ) -> some AsyncSequence<EventDelivery<Event>, any Error> & Sendable {
        EventSequence(store: self, scope: scope)
    }
}

extension TransactionTable {
    fileprivate var events: Events { Events(transaction: transaction) }
}

/// The events that wait for a consumer.
struct Events: TransactionTable {
    let transaction: Transaction

    /// The maximum number of waiting events of a kind and scope.
    static let maximumEvents = 100_000
    /// The maximum size of an event in bytes.
    static let maximumEventBytes = 64 << 10

    /// Returns whether one more event may be posted. Events are numbered in order, so the span of those that wait bounds their
    /// count; only a wide span is worth counting.
    fileprivate func mayPost(_ name: String, in scope: HandlerScope?) throws(HandlerError) -> Bool {
        let span = try connection.first(
            scope == nil
                ? """
                SELECT
                    (SELECT id FROM event WHERE name = ?1 AND scope IS NULL ORDER BY name DESC, scope DESC, id DESC LIMIT 1)
                    - (SELECT id FROM event WHERE name = ?1 AND scope IS NULL ORDER BY name, scope, id LIMIT 1)
                """
                : """
                SELECT (SELECT id FROM event WHERE name = ?1 AND scope = ?2 ORDER BY id DESC LIMIT 1)
                    - (SELECT id FROM event WHERE name = ?1 AND scope = ?2 ORDER BY id LIMIT 1)
                """, [name] + scope.values
        ) { $0.integer(0) }
        if span ?? 0 < Self.maximumEvents - 1 { return true }
        let count = try connection.first(
            scope == nil
                ? "SELECT count(*) FROM (SELECT 1 FROM event WHERE name = ? AND scope IS NULL LIMIT ?) AS waiting"
                : "SELECT count(*) FROM (SELECT 1 FROM event WHERE name = ? AND scope = ? LIMIT ?) AS waiting",
            [name] + scope.values + [Self.maximumEvents]
        ) { $0.integer(0) }
        return count ?? 0 < Self.maximumEvents
    }

    fileprivate func nextEvent<Event: DurableEvent>(
        _ kind: Event.Type, in scope: HandlerScope?
    ) throws(HandlerError) -> StoredEvent<Event>? {
        try connection.first(
            scope == nil
                ? """
                SELECT id, payload, posted_at FROM event WHERE name = ? AND scope IS NULL
                ORDER BY name, scope, id LIMIT 1
                """
                : "SELECT id, payload, posted_at FROM event WHERE name = ? AND scope = ? ORDER BY id LIMIT 1",
            [Event.id] + scope.values
        ) { StoredEvent(row: $0.integer(0), payload: $0.blob(1), postedAt: $0.timestamp(2)) }
    }

}

/// An event as it was read, before its type is.
private struct StoredEvent<Event: DurableEvent> {
    let row: Int64
    let payload: [UInt8]
    let postedAt: Timestamp

    func delivery() throws(HandlerError) -> EventDelivery<Event> {
        let event = try HandlerError.explaining(.wrongArgument) {
            try ArgumentCoding.value(Event.self, from: payload)
        } as: {
            "the event \(row) ('\(Event.id)') cannot be read by this program: \($0); delete its row or update the program"
        }
        return EventDelivery(event: event, postedAt: postedAt, row: row)
    }
}
