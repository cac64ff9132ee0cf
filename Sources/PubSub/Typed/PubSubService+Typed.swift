public import Handlers
public import XMPPCore

// Listening with values: the node and how it is set up are the type's.
extension PubSubService {
    // MARK: Listening

    /// Lets a stored handler receive the values that are published on a node; see `listen`.
    ///
    /// Values that a service announces without their content (XEP-0060 section 4.3) are fetched first.
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - publisher: Whose node; nil for the account itself and its contacts.
    ///   - key: Names this listener among those of the node and the publisher; the same key replaces it.
    ///   - handler: Called with each event.
    ///   - isOrdered: Whether an event waits while an earlier one is tried again, is parked or waits for a runner.
    ///   - step: The step that it commits with.
    /// - Throws: As `listen`.
    public func listen<Payload: PubSubPayload>(
        to type: Payload.Type, of publisher: JID? = nil, as key: String,
        _ handler: Durable<PubSubEvent.Of<Payload>>, ordered isOrdered: Bool = false,
        in step: borrowing Step
    ) throws {
        try listen(
            to: Payload.node, of: publisher, as: key, handler.calledWith(PubSubEvent.self),
            ordered: isOrdered, in: step)
        try PubSubListeners(account: account).setTyped(
            ForeignText(Payload.node), of: publisher, key: key, in: step)
    }
}
