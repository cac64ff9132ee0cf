public import Handlers
public import XMPPCore

// Publishing, fetching and listening with values: the node and how it is set up are the type's.
extension PubSubService {
    // MARK: Publishing

    /// Publishes a value on its node.
    ///
    /// ```swift
    /// try await account.pubsub.publish(UserNick("Juliet"), then: Profile.saved())
    /// ```
    ///
    /// - Parameters:
    ///   - value: The value, under the id ``PubSubPayload/itemID``; one that is there under this id is replaced.
    ///   - service: Where the node is; nil for the own account's PEP.
    ///   - configuring: Whether a node of which the type's ``PubSubPayload/options`` do not hold is configured so.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come; whether it was published is then unknown.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: The request's id.
    /// - Throws: What ``PubSubPayload/element`` throws; else as publishing an item does.
    @discardableResult
    public func publish<Payload: PubSubPayload>(
        _ value: Payload, at service: JID? = nil, configuring: Bool = false,
        then: Durable<PubSubPublication>, orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil
    ) async throws -> String {
        try await account.perform { step in
            try self.publish(
                value, at: service, configuring: configuring, then: then, orElse: orElse, timeout: timeout,
                in: step)
        }
    }

    /// Publishes a value from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - value: The value, under the id ``PubSubPayload/itemID``.
    ///   - service: Where the node is; nil for the own account's PEP.
    ///   - configuring: Whether a node of which the type's options do not hold is configured so.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for the account's setting.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id.
    /// - Throws: What ``PubSubPayload/element`` throws; else as publishing an item does.
    @discardableResult
    public func publish<Payload: PubSubPayload>(
        _ value: Payload, at service: JID? = nil, configuring: Bool = false,
        then: Durable<PubSubPublication>, orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil,
        in step: borrowing Step
    ) throws -> String {
        try publish(
            value.item(), on: Payload.node, at: service, requiring: Payload.options,
            configuring: configuring, then: then, orElse: orElse, timeout: timeout, in: step)
    }

    /// Publishes a value on its node and waits for the answer here.
    ///
    /// ```swift
    /// try await account.pubsub.publish(UserNick("Juliet"))
    /// ```
    ///
    /// - Parameters:
    ///   - value: The value, under the id ``PubSubPayload/itemID``; one that is there under this id is replaced.
    ///   - service: Where the node is; nil for the own account's PEP.
    ///   - configuring: Whether a node of which the type's ``PubSubPayload/options`` do not hold is configured so.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for the account's setting.
    /// - Returns: The item's id; nil when the service chose one and did not tell.
    /// - Throws: What ``PubSubPayload/element`` throws; else as ``request(_:to:timeout:)``.
    @discardableResult
    public func publish<Payload: PubSubPayload>(
        _ value: Payload, at service: JID? = nil, configuring: Bool = false, timeout: Duration? = nil
    ) async throws -> ForeignText? {
        try await request(
            .publish(
                value.item(), on: Payload.node, requiring: Payload.options, configuring: configuring),
            to: service, timeout: timeout)
    }

    // MARK: Fetching

    /// Asks for the values on a node.
    ///
    /// ```swift
    /// try await account.pubsub.fetch(UserNick.self, from: juliet, .newest(1), then: Profile.nickFetched())
    /// ```
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - service: Whom to ask: a user's bare address for PEP, or a PubSub service; nil for the own account.
    ///   - selection: Which items.
    ///   - then: Called with the outcome: values, not found, an error, or no answer in time.
    ///   - orElse: Called with the reason when the answer can never come, such as after a lost session.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: The request's id.
    /// - Throws: As fetching items does.
    @discardableResult
    public func fetch<Payload: PubSubPayload>(
        _ type: Payload.Type, from service: JID? = nil, _ selection: PubSubSelection = .all,
        then: Durable<PubSubFetch.Of<Payload>>, orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil
    ) async throws -> String {
        try await account.perform { step in
            try self.fetch(
                type, from: service, selection, then: then, orElse: orElse, timeout: timeout, in: step)
        }
    }

    /// Asks for the values on a node from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - service: Whom to ask; nil for the own account.
    ///   - selection: Which items.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id.
    /// - Throws: As fetching items does.
    @discardableResult
    public func fetch<Payload: PubSubPayload>(
        _ type: Payload.Type, from service: JID? = nil, _ selection: PubSubSelection = .all,
        then: Durable<PubSubFetch.Of<Payload>>, orElse: Durable<Invalidation>? = nil,
        timeout: Duration? = nil, in step: borrowing Step
    ) throws -> String {
        try fetch(
            Payload.node, from: service, selection, then: then.calledWith(PubSubFetch.self), orElse: orElse,
            timeout: timeout, in: step)
    }

    /// Asks for the values on a node and waits for the answer here.
    ///
    /// ```swift
    /// let nick = try await account.pubsub.fetch(UserNick.self, from: juliet, .newest(1)).last?.value
    /// ```
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - service: Whom to ask: a user's bare address for PEP, or a PubSub service; nil for the own account.
    ///   - selection: Which items.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: The values, in the order of the answer. Items that hold something else are left out if there are values.
    /// - Throws: ``PubSubPayloadError`` `unreadable` when there are items and none of them holds such a value; else as
    ///   ``request(_:to:timeout:)``.
    public func fetch<Payload: PubSubPayload>(
        _ type: Payload.Type, from service: JID? = nil, _ selection: PubSubSelection = .all,
        timeout: Duration? = nil
    ) async throws -> [PubSubValue<Payload>] {
        let items = try await request(.items(of: Payload.node, selection), to: service, timeout: timeout)
        let values = items.compactMap { PubSubValue<Payload>(id: $0.id, payload: $0.payload) }
        guard values.isEmpty, let item = items.first else { return values }
        // An empty list would be taken for an empty node.
        guard let payload = item.payload else {
            throw PubSubPayloadError(
                .unreadable, "the items of the node '\(Payload.node)' hold no \(Payload.self); leave them out"
            )
        }
        _ = try Payload(payload, itemID: item.id)
        return values
    }

    // MARK: Listening

    /// Lets a stored handler receive the values that are published on a node; see
    /// `listen`.
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - publisher: Whose node; nil for the account itself and its contacts.
    ///   - key: Names this listener among those of the node and the publisher; the same key replaces it.
    ///   - handler: Called with each event.
    /// - Throws: As `listen`.
    public func listen<Payload: PubSubPayload>(
        to type: Payload.Type, of publisher: JID? = nil, as key: String,
        _ handler: Durable<PubSubEvent.Of<Payload>>
    ) async throws {
        try await account.perform { step in
            try self.listen(to: type, of: publisher, as: key, handler, in: step)
        }
    }

    /// Lets a stored handler receive the values that are published on a node, from inside a step.
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - publisher: Whose node; nil for the account itself and its contacts.
    ///   - key: Names this listener among those of the node and the publisher.
    ///   - handler: Called with each event.
    ///   - step: The step that it commits with.
    /// - Throws: As `listen`.
    public func listen<Payload: PubSubPayload>(
        to type: Payload.Type, of publisher: JID? = nil, as key: String,
        _ handler: Durable<PubSubEvent.Of<Payload>>, in step: borrowing Step
    ) throws {
        try listen(
            to: Payload.node, of: publisher, as: key, handler.calledWith(PubSubEvent.self), in: step)
    }
}
