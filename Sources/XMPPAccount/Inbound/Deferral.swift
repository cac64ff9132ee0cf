public import Handlers
import Synchronization

/// One delivery of a stanza, as long as the handlers run that it is delivered to.
final class Deferral: Sendable {
    let receipt: DeferredStanza
    private let state = Mutex(false)

    init(_ receipt: DeferredStanza) { self.receipt = receipt }

    /// Whether a handler asked for it to be handled later; what it asked in a savepoint that was undone does not count.
    var mayBeDeferred: Bool { state.withLock { $0 } }

    func recordDeferral() { state.withLock { $0 = true } }
}

/// A context whose stanza a handler may acknowledge later: ``MessageReceived``, ``PresenceReceived``, ``IQRequest``,
/// ``IQReply``.
///
/// ```swift
/// let stanza = try call.context.deferAcknowledgement(in: call.step)
/// ```
public protocol DeferrableContext: AccountContext {
    /// Defers the ack of the stanza until ``Account/acknowledge(_:in:)``, for a program that stores it elsewhere.
    ///
    /// Until then `h` stays below this stanza. After a broken connection, or in another process, the stanza is
    /// delivered again until it is acknowledged. Everything else is delivered once.
    ///
    /// - A message or presence reaches the listeners again; the modules have already processed a presence.
    /// - A request is answered once: an answer also acknowledges it, and its timeout goes on
    ///   (``AccountConfiguration/connectedRequestTimeout``).
    /// - The handler of an answer does not end with this call: its writes commit, and the request does not time out any
    ///   more. It ends when the answer is acknowledged, or with a call that does not defer. If the session is lost before,
    ///   it is invalidated with `sessionLost`.
    ///
    /// - Parameter step: The step of the handler that the stanza is being delivered to.
    /// - Returns: The stanza for ``Account/acknowledge(_:in:)``, also valid after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the stanza is not being delivered just now, is a timeout, or the
    ///   server has no stream management; `alreadyAnswered` when a request was answered in this call;
    ///   ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    func deferAcknowledgement(in step: borrowing Step) throws -> DeferredStanza
}

/// A context that may be in the middle of its delivery.
protocol DeliveredContext: DeferrableContext {
    /// While it is being delivered.
    var delivery: Deferral? { get }
    /// Throws when the stanza needs no ack any more.
    func checkOpen(in step: borrowing Step) throws
}

extension DeliveredContext {
    func checkOpen(in step: borrowing Step) throws {}

    @discardableResult
    public func deferAcknowledgement(in step: borrowing Step) throws -> DeferredStanza {
        try checkOpen(in: step)
        return try account.deferAcknowledgement(delivery, in: step)
    }
}

extension MessageReceived: DeliveredContext {}
extension PresenceReceived: DeliveredContext {}
extension IQRequest: DeliveredContext {}
extension IQReply: DeliveredContext {}

extension Account {
    fileprivate func deferAcknowledgement(_ delivery: Deferral?, in step: borrowing Step) throws
        -> DeferredStanza
    {
        guard let delivery else {
            throw AccountError(
                .notDeferrable,
                "the stanza cannot be deferred any more: only a handler that it is being delivered to can do that, in a session with stream management"
            )
        }
        try sessions.defer(delivery.receipt, in: step)
        delivery.recordDeferral()
        return delivery.receipt
    }

    /// Acknowledges a deferred stanza in a step of its own.
    @discardableResult
    package func acknowledge(_ stanza: DeferredStanza) async throws -> Bool {
        try await perform { step in try self.acknowledge(stanza, in: step) }
    }

    /// Acknowledges a deferred stanza, in any order. `h` covers the stanzas before the first one that is still deferred
    /// (XEP-0198 section 4). The handler of a deferred answer ends with this.
    ///
    /// ```swift
    /// let stanza = try call.context.deferAcknowledgement(in: call.step)
    /// // … later, in any process:
    /// try await account.perform { try account.acknowledge(stanza, in: $0) }
    /// ```
    ///
    /// - Parameters:
    ///   - stanza: A deferred stanza; see ``DeferrableContext/deferAcknowledgement(in:)``.
    ///   - step: The step that it commits with.
    /// - Returns: False if it was acknowledged before, or its session is lost.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func acknowledge(_ stanza: DeferredStanza, in step: borrowing Step) throws -> Bool {
        guard try sessions.settle(stanza, in: step) else { return false }
        try seen.settle(number: stanza.number, in: step)
        if let (handler, outcome) = try requests.claimHeld(number: stanza.number, in: step),
            try step.waits(handler)
        {
            try step.endWithoutCall(handler, outcome)
        }
        if try !sessions.hasDeferred(session: stanza.session, in: step) {
            try endDeferrals(isLost: false, in: step)
        }
        wakeAfterCommit(step)
        return true
    }
}
