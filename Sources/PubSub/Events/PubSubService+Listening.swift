public import Handlers
import XMPPAccount
public import XMPPCore

extension PubSubService {
    /// Lets a stored handler receive the events of a node, in whatever process receives them.
    ///
    /// ```swift
    /// try await account.perform { step in
    ///     try account.pubsub.listen(to: "http://jabber.org/protocol/nick", as: "profile", Profile.nickChanged(), in: step)
    /// }
    /// ```
    ///
    /// It is called inside the step that counts the event, once. For nodes of users (PEP) nothing else is needed: the
    /// account's presence says that it wants them (XEP-0163 section 4.2), and servers send the last item of each
    /// contact's node and of the own one when a session starts. The node of a PubSub service must be subscribed to.
    ///
    /// - Parameters:
    ///   - node: The node's name, not empty. With the publisher and the key it has some 2500 bytes of UTF-8 at most.
    ///   - publisher: Whose node: a user's bare address or a PubSub service. Nil for the account itself and its
    ///     contacts, or everybody when the account has no `RosterModule`.
    ///   - key: Names this listener among those of the node and the publisher; the same key replaces it, so a program
    ///     may call this at every start. The same handler with the same arguments stays what it is; another one is
    ///     called with what is shown again.
    ///   - handler: Called with each event. One that throws is tried again as its `retry` says.
    ///   - isOrdered: Whether an event waits while an earlier one is tried again, is parked or waits for a runner. False by default: a later
    ///     one is not held up by it. Another handler under this key, another version or other arguments do not wait
    ///     for calls of the handler before.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule` without ``PubSubEvents``, `invalidStanza` for an empty
    ///   node or a publisher with a resource, `outboxFull`; ``/Handlers/HandlerError`` `invalidKey` for too long names, or when the
    ///   store fails.
    public func listen(
        to node: any TextConvertible, of publisher: JID? = nil, as key: String,
        _ handler: Durable<PubSubEvent>, ordered isOrdered: Bool = false, in step: borrowing Step
    ) throws {
        try listeners(of: node, publisher, in: step).set(
            node.foreignText, of: publisher, key: key, to: handler, ordered: isOrdered, in: step)
    }

    /// Removes a listener. Its quarantined and parked calls stay.
    ///
    /// - Parameters:
    ///   - node: The node's name.
    ///   - publisher: The publisher that was named; nil for none.
    ///   - key: The listener's name.
    ///   - step: The step that it commits with.
    /// - Returns: False if there was no such listener.
    /// - Throws: As `listen`.
    @discardableResult
    public func stopListening(
        to node: any TextConvertible, of publisher: JID? = nil, as key: String, in step: borrowing Step
    ) throws -> Bool {
        try listeners(of: node, publisher, in: step).remove(
            node.foreignText, of: publisher, key: key, in: step)
    }

    /// Throws for arguments that cannot work, where the program can be corrected.
    func listeners(
        of node: any TextConvertible, _ publisher: JID?, in step: borrowing Step
    ) throws -> PubSubListeners {
        _ = try account.module(PubSubEvents.self)
        try PubSubRequest.check(node: node)
        if let publisher { try PubSubRequest.check(service: publisher) }
        return PubSubListeners(account: account)
    }
}
