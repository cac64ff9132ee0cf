public import Handlers
import IQTracker
public import XMPPCore

/// The context of a standing handler that answers requests of others. See ``Account/answer(_:in:with:in:)``.
///
/// ```swift
/// @Handler("version.asked")
/// static func asked(_ call: borrowing Call<IQRequest>) throws {
///     let name = Element("name", namespace: Namespaces.version, text: "Balcony")
///     try call.context.reply(Element("query", namespace: Namespaces.version, children: [name]), in: call.step)
/// }
/// ```
public struct IQRequest: Sendable {
    /// The account that was asked.
    public let account: Account
    /// The request, of type `get` or `set`.
    public let iq: IQ
    /// While it is being delivered.
    var delivery: Deferral?

    /// Answers with a result, once (RFC 6120 section 8.2.3).
    ///
    /// - Parameters:
    ///   - payload: What the result carries; nil for nothing.
    ///   - step: The step that it commits with.
    /// - Throws: ``AccountError`` `alreadyAnswered`; ``/Handlers/HandlerError`` when the store fails.
    public func reply(_ payload: Element? = nil, in step: borrowing Step) throws {
        try close(with: IQ(type: .result, to: iq.from, id: iq.id, payload: payload), in: step)
    }

    /// Answers with an error, once.
    ///
    /// - Parameters:
    ///   - error: What the answer says.
    ///   - step: The step that it commits with.
    /// - Throws: ``AccountError`` `alreadyAnswered`; ``/Handlers/HandlerError`` when the store fails.
    public func refuse(_ error: StanzaError, in step: borrowing Step) throws {
        try close(with: InboundRequestTable.refusal(to: iq.from, id: iq.id, error), in: step)
    }

    private func close(with answer: IQ, in step: borrowing Step) throws {
        guard try account.closeRequest(iq, in: step) else { throw alreadyAnswered }
        try account.reply(answer.element, in: step)
        account.wakeAfterCommit(step)
    }

    /// Throws `alreadyAnswered` unless the request still needs an answer.
    func checkOpen(in step: borrowing Step) throws {
        guard try account.inboundRequests.isOpen(iq, in: step) else { throw alreadyAnswered }
    }

    private var alreadyAnswered: AccountError {
        AccountError(
            .alreadyAnswered,
            "the request '\(iq.id)' was answered before, its time is over or its session is lost; answer each request once"
        )
    }
}

extension Account {
    /// Ends a request of another entity; the caller answers it in the same step.
    ///
    /// - Returns: False when it was answered before.
    func closeRequest(_ iq: IQ, in step: borrowing Step) throws -> Bool {
        guard let closed = try inboundRequests.close(iq, in: step) else { return false }
        try acknowledge(closed, in: step)
        return true
    }

    /// Counts the request as handled, if that was left for later.
    func acknowledge(_ request: InboundRequestTable.Closed, in step: borrowing Step) throws {
        guard let number = request.number else { return }
        let session = try sessionNumber(in: step)
        try acknowledge(DeferredStanza(session: session, number: number), in: step)
    }
}

extension IQRequest: StoredContext, AccountContext {
    package func stored() throws -> [UInt8] { Serializer().bytes(iq.element) }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let element = try Element(
            parsing: String(decoding: bytes, as: UTF8.self), defaultNamespace: Namespaces.client)
        self.init(account: try Account.serving(environment), iq: try IQ(element: element))
    }
}

extension Account {
    /// Lets a stored handler answer requests with this payload, in whatever process receives them.
    ///
    /// The handler calls ``IQRequest/reply(_:in:)`` or ``IQRequest/refuse(_:in:)``, now or later, also as an
    /// `AsyncHandler`: each request is answered once. When it fails for good, or has not answered within
    /// ``AccountConfiguration/connectedRequestTimeout``, the answer is `internal-server-error`. Who asks for anything else gets
    /// `service-unavailable`.
    ///
    /// ```swift
    /// try await account.perform { try account.answer("query", in: "jabber:iq:version", with: Version.Asked().durable, in: $0) }
    /// ```
    ///
    /// - Parameters:
    ///   - name: The payload's name.
    ///   - namespace: The payload's namespace.
    ///   - handler: Takes the place of the one that answered such requests before.
    ///   - step: The step that it commits with.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func answer(
        _ name: String, in namespace: String, with handler: Durable<IQRequest>, in step: borrowing Step
    ) throws {
        try listeners.set(
            ListenerTable.requests, key: ListenerTable.key(name, namespace), to: handler, in: step)
    }

    package func answer(_ name: String, in namespace: String, with handler: Durable<IQRequest>) async throws {
        try await perform { step in try self.answer(name, in: namespace, with: handler, in: step) }
    }
}
