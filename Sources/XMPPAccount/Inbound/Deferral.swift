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
    /// Lets the message count as handled only after ``Account/markHandled(_:in:)``, for a program that stores it
    /// elsewhere.
    ///
    /// Until then the count that the server is told ends before this message, whatever arrives and is handled behind
    /// it; after a broken connection, or in another process, the message is delivered again, until it is marked.
    /// Everything else is still delivered once.
    ///
    /// ```swift
    /// let stanza = try call.context.deferHandled(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the message is being delivered to.
    /// - Returns: What marks it, also after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the message is not being delivered just now, or the server has
    ///   no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferHandled(in step: borrowing Step) throws -> DeferredStanza {
        try account.deferHandled(delivery, in: step)
    }
}

extension PresenceReceived {
    /// Lets the presence count as handled only after ``Account/markHandled(_:in:)``, as
    /// ``MessageReceived/deferHandled(in:)`` does for messages.
    ///
    /// When it comes again the listeners get it again, and the modules do not: they know it, and what came behind it.
    ///
    /// ```swift
    /// let stanza = try call.context.deferHandled(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the presence is being delivered to.
    /// - Returns: What marks it, also after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the presence is not being delivered just now, or the server has
    ///   no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferHandled(in step: borrowing Step) throws -> DeferredStanza {
        try account.deferHandled(delivery, in: step)
    }
}

extension IQRequest {
    /// Lets the request count as handled only after ``Account/markHandled(_:in:)``, or once it is answered.
    ///
    /// After a broken connection, or in another process, the handler gets it again until then. It is still answered
    /// once: whoever answers also marks it, and its time goes on (``AccountConfiguration/requestTimeout``).
    ///
    /// ```swift
    /// let stanza = try call.context.deferHandled(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the request is being delivered to.
    /// - Returns: What marks it, also after a restart.
    /// - Throws: ``AccountError`` `alreadyAnswered` when it was answered in this call, `notDeferrable` when it is not being
    ///   delivered just now, or the server has no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferHandled(in step: borrowing Step) throws -> DeferredStanza {
        try account.inboundRequests.checkOpen(iq, in: step)
        return try account.deferHandled(delivery, in: step)
    }
}

extension IQReply {
    /// Lets the answer count as handled only after ``Account/markHandled(_:in:)``: this call is then not the end of the
    /// handler that waits for it.
    ///
    /// What the handler does in this call commits, its request does not time out any more, and after a broken connection,
    /// or in another process, it is called again with the same answer. It ends when the answer is marked, or when a call
    /// does not ask for this; if the session is lost before, it is invalidated with `sessionLost`.
    ///
    /// ```swift
    /// let stanza = try call.context.deferHandled(in: call.step)
    /// ```
    ///
    /// - Parameter step: The step of the handler that the answer is being delivered to.
    /// - Returns: What marks it, also after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the answer is not being delivered just now, is a timeout, or the
    ///   server has no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferHandled(in step: borrowing Step) throws -> DeferredStanza {
        try account.deferHandled(delivery, in: step)
    }
}

extension Account {
    fileprivate func deferHandled(_ delivery: Deferral?, in step: borrowing Step) throws -> DeferredStanza {
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

    /// Counts a deferred stanza as handled, in any order; the count that the server is told covers the stanzas before
    /// the first one that is still deferred (XEP-0198 section 4). The handler of a deferred answer ends with this.
    ///
    /// - Parameter stanza: What ``MessageReceived/deferHandled(in:)`` and its like gave.
    /// - Returns: False when it was marked before, or its session is lost and it comes again another way, or never.
    /// - Throws: ``AccountError`` `ownershipLost`, ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func markHandled(_ stanza: DeferredStanza) async throws -> Bool {
        try await perform { step in try self.markHandled(stanza, in: step) }
    }

    /// Counts a deferred stanza as handled together with the rest of a step.
    ///
    /// - Parameters:
    ///   - stanza: What ``MessageReceived/deferHandled(in:)`` and its like gave.
    ///   - step: The step that it commits with.
    /// - Returns: False when it was marked before, or its session is lost and it comes again another way, or never.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func markHandled(_ stanza: DeferredStanza, in step: borrowing Step) throws -> Bool {
        guard try sessions.settle(stanza, in: step) else { return false }
        try seen.settle(number: stanza.number, in: step)
        if let (handler, outcome) = try requests.takeHeld(number: stanza.number, in: step),
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
