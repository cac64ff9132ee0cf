// PubSub: publish-subscribe (XEP-0060) and personal eventing (XEP-0163) with answers that survive the process.
//
//     PubSubOperation ──PubSubRequest──▶ Account.send ──▶ row "request" ──▶ server
//     (then:, orElse:)                    then: PubSubAnswered(question)     │
//                                                                            ▼ maybe in another process
//     Durable<Context> ◀──Step.run── PubSubQuestion ◀──PubSubReply── IQReply
//
// The handler that the program gives expects items, a form, a list; the answer to a request brings an IQ. So this module
// stores a handler of its own with the program's as an argument, and runs that one in the same step when the answer
// comes. Awaited operations read their answer the same way.

public import Handlers
public import XMPPAccount

/// Publish-subscribe of one account: PEP nodes of users, and nodes of PubSub services.
///
/// A value that refers to its account; make one whenever it is needed, through ``XMPPAccount/Account/pubsub``. It listens to
/// nodes; ``PubSubOperation`` reads and changes them.
///
/// ```swift
/// let registry = HandlerRegistry.discovered(and: PubSubService.handlers)
/// …
/// try await account.send(
///     .pubsub(.publish(PubSubItem(id: "current", payload: element), on: "http://jabber.org/protocol/nick")),
///     then: Profile.saved())
/// try await account.send(
///     .pubsub(.items(of: "http://jabber.org/protocol/nick"), at: juliet), then: Profile.fetched())
/// ```
///
/// Request, stanza and handlers are committed together before a byte is written, and the answer calls the handler in
/// whatever process is there by then.
public struct PubSubService: Sendable {
    /// Account that sends the requests.
    package let account: Account

    init(_ account: Account) { self.account = account }

    /// The handlers that this module stores. Every program that uses it must register them, in every process.
    ///
    /// ```swift
    /// let registry = HandlerRegistry.discovered(and: PubSubService.handlers)
    /// ```
    ///
    /// A process that lacks them parks the answers it receives until one comes that has them.
    public static let handlers: [any Handler.Type] = [
        PubSubAnswered.self, EventItemsFetched.self, EventItemsDue.self,
    ]
}

extension Account {
    /// Publish-subscribe in the name of this account.
    public var pubsub: PubSubService { PubSubService(self) }
}

extension AccountLog.Module {
    static let pubsub = Self("pubsub")
}
