public import Handlers
import XMPPAccount
public import XMPPCore

extension PubSubService {
    /// Sets the handler that decides who may subscribe to own nodes.
    ///
    /// For nodes with the access model `authorize`.
    ///
    /// ```swift
    /// try await account.perform { try account.pubsub.decideSubscriptions(at: service, as: "club", Club.asked(), in: $0) }
    /// ```
    ///
    /// It is called inside the step that counts the service's message, in whatever process receives it. A service may
    /// ask again until it has an answer. A waiting subscriber is also among ``PubSubOperation/subscriptions(to:)``, as
    /// `pending`, and can be let in with ``PubSubOperation/setSubscriptions(_:to:)``.
    ///
    /// - Parameters:
    ///   - service: The service whose nodes the account owns, or its own bare address. Requests of other services are refused.
    ///   - key: Names this handler among those of the service; the same key replaces it, so a program may call this
    ///     at every start.
    ///   - handler: Called with each request. One that throws is tried again as its `retry` says.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule` without ``PubSubEvents``, `invalidStanza` for a
    ///   service with a resource; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0060 section 8.6.
    public func decideSubscriptions(
        at service: JID, as key: String, _ handler: Durable<PubSubSubscriptionRequested>,
        in step: borrowing Step
    ) throws {
        try requests(at: service).set(key, to: handler, in: step)
    }

    /// Ends what ``decideSubscriptions(at:as:_:in:)`` started.
    ///
    /// - Parameters:
    ///   - service: The service.
    ///   - key: The handler's name.
    ///   - step: The step that it commits with.
    /// - Returns: False if there was no handler under that key.
    /// - Throws: As ``decideSubscriptions(at:as:_:in:)``.
    @discardableResult
    public func stopDecidingSubscriptions(
        at service: JID, as key: String, in step: borrowing Step
    ) throws -> Bool {
        try requests(at: service).remove(key, in: step)
    }

    /// Approves or denies a subscription request.
    ///
    /// The answer is a message: it waits for a connection, and is sent again after a lost session. The subscriber,
    /// not the owner, learns the result; to be sure, request ``PubSubOperation/subscriptions(to:)``.
    ///
    /// - Parameters:
    ///   - request: What the service asked.
    ///   - isAllowed: Whether events may go to the subscriber.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func answer(
        _ request: PubSubSubscriptionRequest, allowing isAllowed: Bool, in step: borrowing Step
    ) throws {
        try account.send(request.answer(allowing: isAllowed), in: step)
    }

    private func requests(at service: JID) throws -> SubscriptionRequestArrival {
        _ = try account.module(PubSubEvents.self)
        try PubSubRequest.check(service: service)
        return SubscriptionRequestArrival(account: account, service: service)
    }
}
