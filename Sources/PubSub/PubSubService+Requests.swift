public import Handlers
import XMPPAccount
public import XMPPCore

extension PubSubService {
    // MARK: Fetching

    /// Asks for the items of a node.
    ///
    /// ```swift
    /// try await account.pubsub.fetch("urn:xmpp:avatar:metadata", from: juliet, .newest(1), then: Avatar.fetched())
    /// ```
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - service: Whom to ask: a user's bare address for PEP, or a PubSub service; nil for the own account.
    ///   - selection: Which items.
    ///   - then: Called with the outcome: items, not found, an error, or no answer in time.
    ///   - orElse: Called with the reason when the answer can never come, such as after a lost session.
    ///   - timeout: Milliseconds of connected time to wait, 1 or more; nil for the account's setting.
    /// - Returns: The request's id, which ``XMPPAccount/Account/cancelRequest(id:in:)`` takes.
    /// - Throws: ``XMPPAccount/AccountError`` `invalidStanza` for an empty node name or an empty selection, `outboxFull`;
    ///   ``Handlers/HandlerError`` `unknownHandler` when ``handlers`` are not registered, or when the store fails.
    ///
    /// Source: XEP-0060 section 6.5.
    @discardableResult
    public func fetch(
        _ node: String, from service: JID? = nil, _ selection: PubSubSelection = .all,
        then: Durable<PubSubFetch>, orElse: Durable<Invalidation>? = nil, timeout: Int64? = nil
    ) async throws -> String {
        try await account.perform { step in
            try self.fetch(
                node, from: service, selection, then: then, orElse: orElse, timeout: timeout, in: step)
        }
    }

    /// Asks for the items of a node from inside a step, for example from a handler: it commits with the rest of the step.
    @discardableResult
    public func fetch(
        _ node: String, from service: JID? = nil, _ selection: PubSubSelection = .all,
        then: Durable<PubSubFetch>, orElse: Durable<Invalidation>? = nil, timeout: Int64? = nil,
        in step: borrowing Step
    ) throws -> String {
        let payload = try PubSubRequest.items(selection, of: node)
        let answered = try FetchAnswered(node: node, service: service, then: then.orElse(orElse)).durable
        return try send(.get, payload, to: service, answered, timeout, in: step)
    }

    // MARK: Publishing

    /// Publishes an item, or notifies without one.
    ///
    /// - Parameters:
    ///   - item: The item; nil for a node that takes none and only notifies. An item of the same id is replaced; without
    ///     an id the service chooses one.
    ///   - node: The node's name, not empty.
    ///   - service: Where the node is; nil for the own account's PEP.
    ///   - options: What must hold of the node; a node that does not exist yet is created with them (XEP-0060 section
    ///     7.1.5). When they do not hold nothing is published and the outcome is
    ///     ``PubSubPublication/Outcome/preconditionNotMet(_:)``.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come; whether the item was published is then unknown.
    ///   - timeout: Milliseconds of connected time to wait, 1 or more; nil for the account's setting.
    /// - Returns: The request's id, which ``XMPPAccount/Account/cancelRequest(id:in:)`` takes.
    /// - Throws: ``XMPPAccount/AccountError`` `invalidStanza` for an empty node name, `outboxFull`;
    ///   ``Handlers/HandlerError`` `unknownHandler` when ``handlers`` are not registered, or when the store fails.
    ///
    /// Source: XEP-0060 section 7.1, XEP-0163 section 3.
    @discardableResult
    public func publish(
        _ item: PubSubItem?, on node: String, at service: JID? = nil, requiring options: [PubSubOption] = [],
        then: Durable<PubSubPublication>, orElse: Durable<Invalidation>? = nil, timeout: Int64? = nil
    ) async throws -> String {
        try await account.perform { step in
            try self.publish(
                item, on: node, at: service, requiring: options, then: then, orElse: orElse, timeout: timeout,
                in: step)
        }
    }

    /// Publishes an item from inside a step: it commits with the rest of the step.
    @discardableResult
    public func publish(
        _ item: PubSubItem?, on node: String, at service: JID? = nil, requiring options: [PubSubOption] = [],
        then: Durable<PubSubPublication>, orElse: Durable<Invalidation>? = nil, timeout: Int64? = nil,
        in step: borrowing Step
    ) throws -> String {
        let payload = try PubSubRequest.publish(item, on: node, requiring: options)
        let answered = try PublishAnswered(
            node: node, service: service, itemID: item?.id, then: then.orElse(orElse)
        ).durable
        return try send(.set, payload, to: service, answered, timeout, in: step)
    }

    // MARK: Inside

    private func send(
        _ type: IQ.Kind, _ payload: Element, to service: JID?, _ then: Durable<IQReply>, _ timeout: Int64?,
        in step: borrowing Step
    ) throws -> String {
        // Told at once, where the program can be corrected, and not when the answer is parked.
        guard Self.handlers.allSatisfy({ account.store.registry.knows($0.id) }) else {
            throw HandlerError(
                .unknownHandler,
                "the handlers of PubSub are not registered; make the registry with HandlerRegistry.discovered(and: PubSubService.handlers)"
            )
        }
        let iq = IQ(type: type, to: service, id: StanzaID.random(), payload: payload)
        // When the answer can never come, the program's handler inside is invalidated with this module's.
        try account.send(iq, then: then, timeout: timeout, in: step)
        return iq.id
    }
}
