import Handlers
public import XMPPAccount
public import XMPPCore

extension AccountOperation {
    /// Returns an operation on a node of a PubSub service or of a user.
    ///
    /// ```swift
    /// try await account.send(.pubsub(.subscribe(to: "princely_musings"), at: service), then: Reader.subscribed())
    /// let form = try await account.request(.pubsub(.configuration(of: "princely_musings"), at: service))
    /// ```
    ///
    /// Awaited, a refusal is a ``PubSubError``; its ``PubSubError/isNotFound`` says that the node or the item does not
    /// exist. Sent, it throws ``/Handlers/HandlerError`` `unknownHandler` when ``PubSubService/handlers`` are not registered.
    /// `Account.cancelRequest` takes the id that sending returns; with `configuring` it reaches whichever request is under
    /// way.
    ///
    /// - Parameters:
    ///   - operation: The operation. What cannot be asked, such as an empty node name, is
    ///     ``/XMPPAccount/AccountError`` `invalidStanza` where it is sent.
    ///   - service: A PubSub service, or a user's bare address for PEP; nil for the own account.
    /// - Returns: The operation, to be sent or awaited.
    public static func pubsub(
        _ operation: PubSubOperation<Context>, at service: JID? = nil
    ) -> AccountOperation where Context: PubSubContext, Value == Context.Value {
        AccountOperation { account, then, terms, step in
            try operation.send(account.pubsub, to: service, then, terms, in: step)
        } reply: { account, timeout in
            try await operation.reply(account.pubsub, service, timeout)
        } value: {
            try $0.value
        }
    }
}

extension PubSubOperation {
    /// - Parameter then: The program's handler with its invalidation.
    fileprivate func send(
        _ pubsub: PubSubService, to service: JID?, _ then: Durable<Context>, _ terms: RequestTerms,
        in step: borrowing Step
    ) throws -> String {
        let payload = try payload(pubsub.own)
        let remedy = try remedy(publishing: payload, timeout: terms.timeout)
        pubsub.account.log(
            .verbose, .pubsub,
            "asks \(service?.description ?? "the own account"): \(payload.elements.first?.name ?? payload.name) \(node ?? "")",
            after: step)
        return try pubsub.send(
            type, payload, to: service, node: node, question(remedy, then), terms, in: step)
    }

    fileprivate func reply(
        _ pubsub: PubSubService, _ service: JID?, _ timeout: Duration?
    ) async throws -> Context {
        let payload = try payload(pubsub.own)
        let reply = try await ask(pubsub, payload, service, timeout)
        guard reply.isUnmet, let remedy = try remedy(publishing: payload, timeout: timeout) else {
            return read(reply)
        }
        let configured = try await ask(pubsub, remedy.configuration, service, timeout)
        guard case .result = configured.outcome else { return read(configured) }
        return read(try await ask(pubsub, payload, service, timeout))
    }

    private func ask(
        _ pubsub: PubSubService, _ payload: Element, _ service: JID?, _ timeout: Duration?
    ) async throws -> PubSubReply {
        let iq = IQ(type: type, to: service, id: StanzaID.random(), payload: payload)
        let reply = try await pubsub.account.reply(to: iq, timeout: timeout)
        return PubSubReply(asked: service, node: node, reply: reply)
    }
}

extension PubSubService {
    fileprivate var own: JID { account.address }

    @discardableResult
    func send(
        _ type: IQ.Kind, _ payload: Element, to service: JID?, node: (any TextConvertible)?,
        _ question: PubSubQuestion, _ terms: RequestTerms, id: any TextConvertible = StanzaID.random(),
        in step: borrowing Step
    ) throws -> String {
        // Told at once, where the program can be corrected, and not when the answer is parked.
        guard account.store.registry.knows(Name(PubSubAnswered.id)) else {
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
        try account.send(request: iq, then: answered, terms, in: step)
        return iq.id.string
    }
}
