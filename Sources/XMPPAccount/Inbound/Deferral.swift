public import Handlers
import Synchronization

/// One delivery of a stanza, as long as the handlers run that it is delivered to.
final class Deferral: Sendable {
    let receipt: DeferredStanza
    private let state = Mutex(false)

    init(_ receipt: DeferredStanza) { self.receipt = receipt }

    /// Whether a handler asked for it to be handled later; what it asked in a savepoint that was undone does not count.
    var mayBeDeferred: Bool { state.withLock { $0 } }

    func noteDeferred() { state.withLock { $0 = true } }
}

extension MessageReceived {
    /// Defers the ack of the message until ``Account/acknowledge(_:in:)``, for a program that stores it elsewhere.
    ///
    /// Until then `h` stays below this message. After a broken connection, or in another process, the message is
    /// delivered again until it is acknowledged. Everything else is delivered once.
    ///
    /// ```swift
    /// let stanza = try call.context.deferAcknowledgement(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the message is being delivered to.
    /// - Returns: The stanza for ``Account/acknowledge(_:in:)``, also valid after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the message is not being delivered just now, or the server has
    ///   no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferAcknowledgement(in step: borrowing Step) throws -> DeferredStanza {
        try account.deferAcknowledgement(delivery, in: step)
    }
}

extension PresenceReceived {
    /// Defers the ack of the presence until ``Account/acknowledge(_:in:)``, as ``MessageReceived/deferAcknowledgement(in:)``
    /// does for messages.
    ///
    /// A repeated presence reaches the listeners again, but not the modules: they have already processed it.
    ///
    /// ```swift
    /// let stanza = try call.context.deferAcknowledgement(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the presence is being delivered to.
    /// - Returns: The stanza for ``Account/acknowledge(_:in:)``, also valid after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the presence is not being delivered just now, or the server has
    ///   no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferAcknowledgement(in step: borrowing Step) throws -> DeferredStanza {
        try account.deferAcknowledgement(delivery, in: step)
    }
}

extension IQRequest {
    /// Defers the ack of the request until ``Account/acknowledge(_:in:)``, or until it is answered.
    ///
    /// After a broken connection, or in another process, the handler is called again until then. The request is
    /// answered once: an answer also acknowledges it, and its timeout goes on
    /// (``AccountConfiguration/requestTimeout``).
    ///
    /// ```swift
    /// let stanza = try call.context.deferAcknowledgement(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the request is being delivered to.
    /// - Returns: The stanza for ``Account/acknowledge(_:in:)``, also valid after a restart.
    /// - Throws: ``AccountError`` `alreadyAnswered` when it was answered in this call, `notDeferrable` when it is not being
    ///   delivered just now, or the server has no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferAcknowledgement(in step: borrowing Step) throws -> DeferredStanza {
        try checkOpen(in: step)
        return try account.deferAcknowledgement(delivery, in: step)
    }
}

extension IQReply {
    /// Defers the ack of the answer until ``Account/acknowledge(_:in:)``. The handler does not end with this call.
    ///
    /// The writes of this call commit, and the request does not time out any more. After a broken connection, or in
    /// another process, the handler is called again with the same answer. It ends when the answer is acknowledged, or
    /// with a call that does not defer. If the session is lost before, it is invalidated with `sessionLost`.
    ///
    /// ```swift
    /// let stanza = try call.context.deferAcknowledgement(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the answer is being delivered to.
    /// - Returns: The stanza for ``Account/acknowledge(_:in:)``, also valid after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the answer is not being delivered just now, is a timeout, or the
    ///   server has no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferAcknowledgement(in step: borrowing Step) throws -> DeferredStanza {
        try account.deferAcknowledgement(delivery, in: step)
    }
}

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
        delivery.noteDeferred()
        return delivery.receipt
    }

    /// Acknowledges a deferred stanza, in any order. `h` covers the stanzas before the first one that is still deferred
    /// (XEP-0198 section 4). The handler of a deferred answer ends with this.
    ///
    /// - Parameter stanza: A deferred stanza; see ``MessageReceived/deferAcknowledgement(in:)``.
    /// - Returns: False if it was acknowledged before, or its session is lost.
    /// - Throws: ``AccountError`` `ownershipLost`, ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func acknowledge(_ stanza: DeferredStanza) async throws -> Bool {
        try await perform { step in try self.acknowledge(stanza, in: step) }
    }

    /// Acknowledges a deferred stanza, inside a step.
    ///
    /// - Parameters:
    ///   - stanza: A deferred stanza; see ``MessageReceived/deferAcknowledgement(in:)``.
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
