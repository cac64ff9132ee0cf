public import Handlers
public import XMPPCore

// Listening with values: the node and how it is set up are the type's.
extension PubSubService {
    // MARK: Listening

    /// Lets a stored handler receive the values that are published on a node; see
    /// `listen`.
    ///
    /// - Parameters:
    ///   - type: The values' type, which names the node.
    ///   - publisher: Whose node; nil for the account itself and its contacts.
    ///   - key: Names this listener among those of the node and the publisher; the same key replaces it.
    ///   - handler: Called with each event.
    ///   - step: The step that it commits with.
    /// - Throws: As `listen`.
    public func listen<Payload: PubSubPayload>(
        to type: Payload.Type, of publisher: JID? = nil, as key: String,
        _ handler: Durable<PubSubEvent.Of<Payload>>, in step: borrowing Step
    ) throws {
        try listen(to: Payload.node, of: publisher, as: key, handler.calledWith(PubSubEvent.self), in: step)
    }
}
