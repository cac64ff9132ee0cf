public import Handlers
import XMPPAccount
public import XMPPCore

extension PubSubService {
    // MARK: Any operation

    /// Asks something whose answer calls a stored handler, in whatever process is there by then.
    ///
    /// Request, stanza and handlers are committed together before a byte is written. What is asked while there is no
    /// connection waits for the next one, in order.
    ///
    /// ```swift
    /// try await account.pubsub.send(.subscribe(to: "princely_musings"), to: service, then: Reader.subscribed())
    /// ```
    ///
    /// - Parameters:
    ///   - operation: What is asked.
    ///   - service: Who is asked: a PubSub service, or a user's bare address for PEP; nil for the own account.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come, such as after a lost session. Whether the
    ///     operation was carried out is then unknown.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: The request's id, which `Account.cancelRequest` takes. With `configuring` it
    ///   reaches whichever step is under way.
    /// - Throws: ``/XMPPAccount/AccountError`` `invalidStanza` for what cannot be asked, such as an empty node name,
    ///   `outboxFull`; ``/Handlers/HandlerError`` `unknownHandler` when ``handlers`` are not registered, or when the
    ///   store fails.
    @discardableResult
    public func send<Context>(
        _ operation: PubSubOperation<Context>, to service: JID? = nil, then: Durable<Context>,
        orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil
    ) async throws -> String {
        try await account.perform { step in
            try self.send(operation, to: service, then: then, orElse: orElse, timeout: timeout, in: step)
        }
    }

    /// Asks something from inside a step, for example from a handler: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - operation: What is asked.
    ///   - service: Who is asked; nil for the own account.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id.
    /// - Throws: As ``send(_:to:then:orElse:timeout:)``.
    @discardableResult
    public func send<Context>(
        _ operation: PubSubOperation<Context>, to service: JID? = nil, then: Durable<Context>,
        orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil, in step: borrowing Step
    ) throws -> String {
        let payload = try operation.payload(own)
        let remedy = try operation.remedy(publishing: payload, timeout: timeout)
        let question = operation.question(remedy, try then.orElse(orElse))
        account.note(
            .verbose, .pubsub,
            "asks \(service?.description ?? "the own account"): \(payload.elements.first?.name ?? payload.name) \(operation.node ?? "")",
            after: step)
        return try send(
            operation.type, payload, to: service, node: operation.node, question, timeout, in: step)
    }

    /// Asks something and waits for the answer here, for code that has nothing to do any more once its process has
    /// ended.
    ///
    /// ```swift
    /// let form = try await account.pubsub.request(.configuration(of: "princely_musings"), to: service)
    /// ```
    ///
    /// Canceling the task cancels the request.
    ///
    /// - Parameters:
    ///   - operation: What is asked.
    ///   - service: Who is asked: a PubSub service, or a user's bare address for PEP; nil for the own account.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for the account's setting.
    /// - Returns: What the operation brings.
    /// - Throws: ``PubSubError`` when the service refuses; its ``PubSubError/isNotFound`` tells that what was asked
    ///   for does not exist. ``/XMPPAccount/AccountError`` `timedOut`, `sessionLost`, `abandoned` when no answer
    ///   came, `closed` when the account was closed meanwhile, `invalidStanza` or `outboxFull` when nothing was sent;
    ///   `CancellationError`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func request<Context>(
        _ operation: PubSubOperation<Context>, to service: JID? = nil, timeout: Duration? = nil
    ) async throws -> Context.Value {
        let payload = try operation.payload(own)
        let reply = try await ask(operation, payload, service, timeout)
        guard reply.isUnmet, let remedy = try operation.remedy(publishing: payload, timeout: timeout) else {
            return try operation.read(reply).value
        }
        let configured = try await ask(operation, remedy.configuration, service, timeout)
        guard case .result = configured.outcome else { return try operation.read(configured).value }
        return try operation.read(try await ask(operation, payload, service, timeout)).value
    }

    // MARK: Items

    /// Asks for the items of a node: ``PubSubOperation/items(of:_:subscription:)``.
    ///
    /// ```swift
    /// try await account.pubsub.fetch("urn:xmpp:avatar:metadata", from: juliet, .newest(1), then: Avatar.fetched())
    /// ```
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - service: Who is asked: a PubSub service, or a user's bare address for PEP; nil for the own account.
    ///   - selection: Which items.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: As ``send(_:to:then:orElse:timeout:)``.
    /// - Throws: As ``send(_:to:then:orElse:timeout:)``.
    @discardableResult
    public func fetch(
        _ node: any TextConvertible, from service: JID? = nil, _ selection: PubSubSelection = .all,
        then: Durable<PubSubFetch>, orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil
    ) async throws -> String {
        try await send(
            .items(of: node, selection), to: service, then: then, orElse: orElse, timeout: timeout)
    }

    /// Asks for the items of a node from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty.
    ///   - service: Who is asked; nil for the own account.
    ///   - selection: Which items.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id.
    /// - Throws: As ``send(_:to:then:orElse:timeout:)``.
    @discardableResult
    public func fetch(
        _ node: any TextConvertible, from service: JID? = nil, _ selection: PubSubSelection = .all,
        then: Durable<PubSubFetch>, orElse: Durable<Invalidation>? = nil, timeout: Duration? = nil,
        in step: borrowing Step
    ) throws -> String {
        try send(
            .items(of: node, selection), to: service, then: then, orElse: orElse, timeout: timeout, in: step)
    }

    /// Publishes an item, or notifies without one: ``PubSubOperation/publish(_:on:requiring:configuring:)``.
    ///
    /// ```swift
    /// try await account.pubsub.publish(
    ///     PubSubItem(id: "current", payload: nick), on: node, requiring: [.accessModel(.open)], configuring: true,
    ///     then: Profile.saved())
    /// ```
    ///
    /// - Parameters:
    ///   - item: The item; nil for a node that takes none and only notifies.
    ///   - node: The node's name, not empty.
    ///   - service: Where the node is: a PubSub service; nil for the own account's PEP.
    ///   - options: What must hold of the node; a node that does not exist yet is created with them.
    ///   - configuring: Whether the node is configured, and the item published again, when they do not hold.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for the account's setting.
    /// - Returns: As ``send(_:to:then:orElse:timeout:)``.
    /// - Throws: As ``send(_:to:then:orElse:timeout:)``.
    @discardableResult
    public func publish(
        _ item: PubSubItem?, on node: any TextConvertible, at service: JID? = nil,
        requiring options: [PubSubOption] = [],
        configuring: Bool = false, then: Durable<PubSubPublication>, orElse: Durable<Invalidation>? = nil,
        timeout: Duration? = nil
    ) async throws -> String {
        try await send(
            .publish(item, on: node, requiring: options, configuring: configuring), to: service, then: then,
            orElse: orElse, timeout: timeout)
    }

    /// Publishes an item from inside a step: it commits with the rest of the step.
    ///
    /// - Parameters:
    ///   - item: The item; nil for a node that takes none and only notifies.
    ///   - node: The node's name, not empty.
    ///   - service: Where the node is; nil for the own account's PEP.
    ///   - options: What must hold of the node.
    ///   - configuring: Whether the node is configured, and the item published again, when they do not hold.
    ///   - then: Called with the outcome.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for the account's setting.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id.
    /// - Throws: As ``send(_:to:then:orElse:timeout:)``.
    @discardableResult
    public func publish(
        _ item: PubSubItem?, on node: any TextConvertible, at service: JID? = nil,
        requiring options: [PubSubOption] = [],
        configuring: Bool = false, then: Durable<PubSubPublication>, orElse: Durable<Invalidation>? = nil,
        timeout: Duration? = nil, in step: borrowing Step
    ) throws -> String {
        try send(
            .publish(item, on: node, requiring: options, configuring: configuring), to: service, then: then,
            orElse: orElse, timeout: timeout, in: step)
    }

    // MARK: Inside

    private var own: JID { account.configuration.jid.bare }

    private func ask<Context>(
        _ operation: PubSubOperation<Context>, _ payload: Element, _ service: JID?, _ timeout: Duration?
    ) async throws -> PubSubReply {
        let iq = IQ(type: operation.type, to: service, id: StanzaID.random(), payload: payload)
        let reply = try await account.reply(to: iq, timeout: timeout)
        return PubSubReply(asked: service, node: operation.node, reply: reply)
    }

    @discardableResult
    func send(
        _ type: IQ.Kind, _ payload: Element, to service: JID?, node: (any TextConvertible)?,
        _ question: PubSubQuestion,
        _ timeout: Duration?, id: any TextConvertible = StanzaID.random(), in step: borrowing Step
    ) throws -> String {
        // Told at once, where the program can be corrected, and not when the answer is parked.
        guard account.store.registry.knows(PubSubAnswered.id) else {
            throw HandlerError(
                .unknownHandler,
                "the handlers of PubSub are not registered; make the registry with HandlerRegistry.discovered(and: PubSubService.handlers)"
            )
        }
        let iq = IQ(type: type, to: service, id: id, payload: payload)
        // When the answer can never come, the program's handler inside is invalidated with this module's.
        let answered = try PubSubAnswered(
            service: service, node: node?.foreignText.string, question: question
        ).durable
        try account.send(iq, then: answered, timeout: timeout, in: step)
        return iq.id.string
    }
}
