// Publishing and fetching values: the node and how it is set up are the type's.
extension PubSubOperation where Context == PubSubPublication {
    /// Publishes a value on its node.
    ///
    /// ```swift
    /// try await account.request(.pubsub(.publish(UserNick("Juliet"))))
    /// ```
    ///
    /// - Parameters:
    ///   - value: The value, under the id ``PubSubPayload/itemID``; one that is there under this id is replaced.
    ///   - configuring: Whether a node of which the type's ``PubSubPayload/options`` do not hold is configured so.
    /// - Returns: The operation, to be sent or awaited.
    /// - Throws: What ``PubSubPayload/element`` throws.
    public static func publish<Payload: PubSubPayload>(
        _ value: Payload, configuring: Bool = false
    ) throws -> PubSubOperation {
        publish(try value.item(), on: Payload.node, requiring: Payload.options, configuring: configuring)
    }
}

extension PubSubOperation {
    /// Returns the operation that fetches the values on a node.
    ///
    /// ```swift
    /// let nick = try await account.request(.pubsub(.values(UserNick.self, .newest(1)), at: juliet)).last?.value
    /// try await account.send(.pubsub(.values(UserNick.self, .newest(1)), at: juliet), then: Profile.nickFetched())
    /// ```
    ///
    /// Items that hold something else are left out if there are values; otherwise awaiting throws ``PubSubPayloadError``
    /// `unreadable`.
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - selection: Which items.
    /// - Returns: The operation, to be sent or awaited; its values come in the order of the answer.
    public static func values<Payload: PubSubPayload>(
        _ type: Payload.Type, _ selection: PubSubSelection = .all
    ) -> PubSubOperation where Context == PubSubFetch.Of<Payload> {
        let items = PubSubOperation<PubSubFetch>.items(of: Payload.node, selection)
        return PubSubOperation(
            .get, items.node, question: { items.question(nil, $0.calledWith(PubSubFetch.self)) },
            read: { PubSubFetch.Of(items.read($0)) }, payload: items.payload)
    }
}
