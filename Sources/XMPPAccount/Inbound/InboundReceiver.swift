import Handlers
import XMPPCore

/// The modules and handlers to which an ``InboundStep`` gives what arrives.
///
/// ``Account`` passes itself to them. A test records what they are given.
protocol InboundReceiver: Sendable {
    // MARK: Modules

    /// - Returns: The stanza as the filters leave it, or why one stops it.
    func filtered(incoming stanza: Stanza, in step: borrowing Step) throws -> Result<Stanza, StoppedStanza>
    func unwrapped(_ message: Message, in step: borrowing Step) throws -> UnwrappedMessage
    /// - Returns: Whether no listener gets the message.
    func receive(_ message: InboundMessage, in step: borrowing Step) throws -> Bool
    func recordDeferred(_ message: InboundMessage, in step: borrowing Step) throws
    func receive(_ presence: Presence, in step: borrowing Step) throws
    func receiveUnreadable(_ root: Element, in step: borrowing Step) throws
    /// - Returns: The answer of the module whose request it is.
    func answer(_ request: IQ, in step: borrowing Step) throws -> ModuleAnswer?
    /// - Returns: Whether this account wrote a message of a room; nil when no module knows the room.
    func isOwn(_ message: Message, originID: ForeignText?, in step: borrowing Step) throws -> Bool?
    func neededMarks(in step: borrowing Step) throws(HandlerError) -> NeededMarks

    // MARK: Handlers

    /// Calls a standing handler.
    func call<Context: Sendable>(
        _ handler: HandlerID<Context>, in step: borrowing Step, with context: (Account) -> Context
    ) throws -> Disposition
    /// Calls a handler and ends it, unless it waits on.
    func end<Context: Sendable>(
        _ handler: HandlerID<Context>, _ outcome: Outcome, in step: borrowing Step,
        with context: (Account) -> Context, staysIf: () throws -> Bool
    ) throws -> Disposition

    // MARK: Requests of others

    /// 5. Append an answer to the outbox.
    func reply(_ answer: Element, in step: borrowing Step) throws
    /// - Returns: False when the request was answered before.
    func closeRequest(_ request: IQ, in step: borrowing Step) throws -> Bool
}
