import Handlers
import XMPPAccount
import XMPPCore

// The module's own handlers, in the plain form, so that this product needs no macro. Their ids and arguments are
// stored: they change only with an alias or a version.

/// Turns the answer to a fetch into a ``PubSubFetch`` and runs the program's handler with it, in the same step.
struct FetchAnswered: Handler {
    static let id = "pubsub.fetch-answered"

    /// The node that was asked for.
    var node: String
    /// Whom was asked; nil for the own account.
    var service: JID?
    /// The program's handler.
    var then: Durable<PubSubFetch>

    func run(_ call: borrowing Call<IQReply>) throws {
        let fetch = PubSubFetch(
            account: call.account, service: service ?? call.account.configuration.jid, node: node,
            outcome: PubSubAnswer.fetch(call.outcome, in: call.iq, node: node))
        try call.step.run(then, with: fetch)
    }
}

/// Turns the answer to a publication into a ``PubSubPublication`` and runs the program's handler with it.
struct PublishAnswered: Handler {
    static let id = "pubsub.publish-answered"

    /// The node on which was published.
    var node: String
    /// Where the node is; nil for the own account.
    var service: JID?
    /// The id under which was published; nil when the service was to choose.
    var itemID: String?
    /// The program's handler.
    var then: Durable<PubSubPublication>

    func run(_ call: borrowing Call<IQReply>) throws {
        let publication = PubSubPublication(
            account: call.account, service: service ?? call.account.configuration.jid, node: node,
            outcome: PubSubAnswer.publish(call.outcome, in: call.iq, itemID: itemID))
        try call.step.run(then, with: publication)
    }
}
