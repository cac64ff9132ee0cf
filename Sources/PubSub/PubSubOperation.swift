import Handlers
public import XMPPAccount
public import XMPPCore

/// Something to ask of a PubSub service or of a user's own nodes (PEP).
///
/// ``XMPPAccount/AccountOperation/pubsub(_:at:)`` makes it an operation of the account, to be sent with stored handlers or
/// awaited:
///
/// ```swift
/// try await account.send(.pubsub(.purge("princely_musings"), at: service), then: Diary.purged())
/// try await account.request(.pubsub(.purge("princely_musings"), at: service))
/// ```
///
/// Its type says what the handler is called with, ``PubSubFetch``, ``PubSubPublication`` or ``PubSubAnswer``, and that
/// one's `Value` what awaiting returns. What an operation cannot be asked with, such as an empty node name, is reported
/// when it is sent.
public struct PubSubOperation<Context: PubSubContext>: Sendable {
    let type: IQ.Kind
    /// The node; nil for the service as a whole.
    let node: ForeignText?
    /// Makes what is sent; it needs to know the own address.
    let payload: @Sendable (_ own: JID) throws -> Element
    /// The request that is stored until the answer arrives.
    let question: @Sendable (PubSubRemedy?, Durable<Context>) -> PubSubQuestion
    /// The function that reads the answer.
    let read: @Sendable (PubSubReply) -> Context
    /// The configuration to set if a publication's preconditions are not met; nil to let it fail.
    var configuration: [PubSubOption]?
}

extension PubSubOperation {
    init(
        _ type: IQ.Kind, _ node: ForeignText?,
        question: @escaping @Sendable (Durable<Context>) -> PubSubQuestion,
        read: @escaping @Sendable (PubSubReply) -> Context,
        payload: @escaping @Sendable (_ own: JID) throws -> Element
    ) {
        self.init(
            type: type, node: node, payload: payload, question: { _, then in question(then) }, read: read)
    }

    /// Returns the remedy for a publication whose preconditions are not met; nil for none.
    func remedy(publishing payload: Element, timeout: Duration?) throws(AccountError) -> PubSubRemedy? {
        guard let configuration, let node else { return nil }
        let configure = try PubSubRequest.configure(node, with: configuration)
        return PubSubRemedy(
            configure: configure.serialized(), publish: payload.serialized(), timeout: timeout?.milliseconds)
    }
}

extension PubSubOperation where Context == PubSubCompletion {
    /// Operations without a result.
    static func change(
        _ node: ForeignText, payload: @escaping @Sendable (_ own: JID) throws -> Element
    ) -> PubSubOperation {
        PubSubOperation(
            .set, node, question: { .change(then: $0) }, read: { $0.completion }, payload: payload)
    }
}

/// The context of a handler of a PubSub operation: ``PubSubFetch``, ``PubSubPublication``, ``PubSubAnswer``.
///
/// ```swift
/// let items = try call.context.value  // or throw what went wrong
/// ```
public protocol PubSubContext: Sendable {
    /// The type of the value of a successful operation.
    associatedtype Value: Sendable

    /// The account that asked.
    var account: Account { get }
    /// The address of the node. The account's bare address for its own nodes.
    var service: JID { get }

    /// The value of a successful operation; otherwise throws.
    ///
    /// - Throws: ``PubSubError`` when the service refused; its ``PubSubError/isNotFound`` says that the node
    ///   or item does not exist. ``/XMPPAccount/AccountError`` `timedOut` when no answer came in time.
    var value: Value { get throws }
}
