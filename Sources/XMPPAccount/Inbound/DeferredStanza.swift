public import Handlers
import Synchronization

/// A stanza that arrived and counts as handled only when the program says so; see
/// ``MessageReceived/deferHandled(in:)``.
///
/// Store it with the work that is still to be done: any process can end it with ``Account/markHandled(_:)``.
///
/// ```swift
/// let stanza = try call.context.deferHandled(in: call.step)
/// // … later, in any process:
/// try await account.markHandled(stanza)
/// ```
public struct DeferredStanza: Codable, Hashable, Sendable {
    let session: Int64
    let number: UInt32
}

/// One delivery of a stanza, as long as the handlers run that it is delivered to.
final class Deferral: Sendable {
    let receipt: DeferredStanza
    private let state = Mutex(false)

    init(_ receipt: DeferredStanza) { self.receipt = receipt }

    /// Whether a handler asked for it; what it asked in a savepoint that was undone does not count.
    var mayBeDeferred: Bool { state.withLock { $0 } }

    func noteDeferred() { state.withLock { $0 = true } }
}

extension MessageReceived {
    /// Lets the message count as handled only after ``Account/markHandled(_:in:)``, for a program that stores it
    /// elsewhere.
    ///
    /// Until then the count that the server is told ends before this message, whatever arrives and is handled behind
    /// it;
    /// after a broken connection, or in another process, the message is delivered again, until it is marked. Everything
    /// else is still delivered once.
    ///
    /// - Parameter step: The step of the handler that the message is being delivered to.
    /// - Returns: What marks it, also after a restart.
    /// - Throws: ``AccountError`` `notDeferrable` when the message is not being delivered just now, or the server has
    ///   no stream management; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func deferHandled(in step: borrowing Step) throws -> DeferredStanza {
        guard let delivery else {
            throw AccountError(
                .notDeferrable,
                "the message cannot be deferred any more: only a handler that it is being delivered to can do that, in a session with stream management"
            )
        }
        try account.sessions.defer(delivery.receipt, in: step)
        delivery.noteDeferred()
        return delivery.receipt
    }
}

extension Account {
    /// Counts a deferred stanza as handled, in any order; the count that the server is told covers the stanzas before
    /// the
    /// first one that is still deferred (XEP-0198 section 4).
    ///
    /// - Parameter stanza: What ``MessageReceived/deferHandled(in:)`` gave.
    /// - Returns: False when it was marked before, or its session is lost and the message comes again another way.
    /// - Throws: ``AccountError`` `ownershipLost`, ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func markHandled(_ stanza: DeferredStanza) async throws -> Bool {
        try await perform { step in try self.markHandled(stanza, in: step) }
    }

    /// Counts a deferred stanza as handled together with the rest of a step.
    ///
    /// - Parameters:
    ///   - stanza: What ``MessageReceived/deferHandled(in:)`` gave.
    ///   - step: The step that it commits with.
    /// - Returns: False when it was marked before, or its session is lost and the message comes again another way.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func markHandled(_ stanza: DeferredStanza, in step: borrowing Step) throws -> Bool {
        guard try sessions.settle(stanza, in: step) else { return false }
        try seen.settle(number: stanza.number, in: step)
        if try !sessions.hasDeferred(session: stanza.session, in: step) { try releasePlaces(in: step) }
        wakeAfterCommit(step)
        return true
    }
}
