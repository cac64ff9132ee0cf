public import XMPPAccount
public import XMPPCore

/// The context of a handler that waits for the answer to an operation.
///
/// ```swift
/// func run(_ call: borrowing Call<PubSubAnswer<[PubSubAffiliation]>>) throws {
///     switch call.outcome {
///     case .success(let affiliations): …
///     case .notFound: …           // the node does not exist
///     case .error(let error): …   // the service refused; nothing is known about the node
///     case .timedOut: …           // nothing is known
///     }
/// }
/// ```
///
/// ``PubSubFetch``, ``PubSubPublication`` and ``PubSubCompletion`` are names of it for three kinds of values.
///
/// A lost session is no outcome: the handler's invalidation is then called instead, and whether the operation was
/// carried out is unknown.
public struct PubSubAnswer<Value: Sendable>: PubSubContext {
    /// The outcome of an operation. The four cases mean different things, so a handler must name them all.
    public enum Outcome: Sendable {
        /// It was carried out and brought this.
        case success(Value)
        /// The service says that the node, or the item, does not exist.
        case notFound
        /// The service refused, or its answer makes no sense.
        case error(PubSubError)
        /// No answer came in time; whether it was carried out is unknown.
        case timedOut
    }

    /// The account that asked.
    public var account: Account { reply.account }
    /// The address of the node. The account's bare address for its own nodes.
    public var service: JID { reply.service }
    /// The node's name. Nil when the service as a whole was asked, or was to choose a name.
    public var node: ForeignText? { reply.node }
    let reply: PubSubReply
    let subject: PubSubSubject
    /// The outcome.
    public let outcome: Outcome

    public var value: Value {
        get throws {
            switch outcome {
            case .success(let value): return value
            case .notFound: throw PubSubError.notFound
            case .error(let error): throw error
            case .timedOut: throw AccountError.timedOut(service)
            }
        }
    }
}

extension PubSubAnswer.Outcome: Equatable where Value: Equatable {}
extension PubSubAnswer.Outcome: Hashable where Value: Hashable {}

/// The context of a handler that waits for the items of a node.
///
/// ```swift
/// @Handler("profile.nick-fetched")
/// static func nickFetched(_ call: borrowing Call<PubSubFetch>) throws {
///     guard case .success(let items) = call.outcome else { return }
///     …    // in the order of the answer; none if the node is empty
/// }
/// ```
public typealias PubSubFetch = PubSubAnswer<[PubSubItem]>

/// The context of a handler that waits for an item to be published.
///
/// Its value is the item's id; nil if the service chose an id and did not return it. A node that is configured otherwise
/// than required gives an error with the condition `precondition-not-met`, and nothing was published: configure the node and
/// publish again (XEP-0060 section 7.1.5), which `configuring: true` does by itself, once.
///
/// ```swift
/// @Handler("profile.saved")
/// static func saved(_ call: borrowing Call<PubSubPublication>) throws {
///     guard case .success(let id) = call.outcome else { return }
///     try call.step.execute("UPDATE profile SET item = ?", id)
/// }
/// ```
public typealias PubSubPublication = PubSubAnswer<ForeignText?>

/// The context of a handler that waits for an operation which brings nothing but success.
public typealias PubSubCompletion = PubSubAnswer<Void>

extension AccountError {
    static func timedOut(_ service: JID) -> AccountError {
        AccountError(.timedOut, "\(service) has not answered in time; try again later")
    }
}
