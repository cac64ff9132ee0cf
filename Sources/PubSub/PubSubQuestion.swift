import Handlers
import IQTracker
import XMPPAccount
import XMPPCore

// The module's own handler, in the plain form, so that this product needs no macro. Its id and arguments are stored:
// they change only with an alias or a version, and so do those of the types below, which the lock file does not show.

/// Turns the answer to an operation into what the program's handler expects and runs that one, in the same step.
struct PubSubAnswered: Handler {
    static let id = "pubsub.answered"

    /// The address of the node; nil for the own account.
    var service: JID?
    /// The node; nil for the service as a whole.
    var node: String?
    /// The request, with the program's handler.
    var question: PubSubQuestion

    func run(_ call: borrowing Call<IQReply>) throws {
        let reply = PubSubReply(asked: service, node: node.map { ForeignText($0) }, reply: call.context)
        try question.answer(reply, in: call.step)
    }
}

/// The request and the program's handler: all that reading the answer needs.
enum PubSubQuestion: Codable, Sendable {
    case items(then: Durable<PubSubFetch>)
    case page(request: PubSubPage.Request, then: Durable<PubSubAnswer<PubSubPage>>)
    case publish(itemID: ForeignText?, remedy: PubSubRemedy?, then: Durable<PubSubPublication>)
    /// The node is being configured so that publishing can be tried again.
    case remedy(itemID: ForeignText?, remedy: PubSubRemedy, then: Durable<PubSubPublication>)
    case create(then: Durable<PubSubAnswer<ForeignText>>)
    case form(form: PubSubForm, then: Durable<PubSubAnswer<DataForm>>)
    case subscribe(jid: JID?, then: Durable<PubSubAnswer<PubSubSubscription>>)
    case subscriptions(list: PubSubList, then: Durable<PubSubAnswer<[PubSubSubscription]>>)
    case affiliations(list: PubSubList, then: Durable<PubSubAnswer<[PubSubAffiliation]>>)
    case change(then: Durable<PubSubCompletion>)

    func answer(_ reply: PubSubReply, in step: borrowing Step) throws {
        switch self {
        case .items(let then): try step.run(then, with: reply.fetch)
        case .page(let page, let then): try step.run(then, with: reply.page(page))
        case .publish(let id, let remedy, let then):
            try reply.publish(itemID: id, remedy: remedy, then: then, in: step)
        case .remedy(let id, let remedy, let then):
            try reply.publishAgain(itemID: id, remedy, then: then, in: step)
        case .create(let then): try step.run(then, with: reply.creation)
        case .form(let form, let then): try step.run(then, with: reply.form(form))
        case .subscribe(let jid, let then): try step.run(then, with: reply.subscription(jid))
        case .subscriptions(let list, let then): try step.run(then, with: reply.subscriptions(list))
        case .affiliations(let list, let then): try step.run(then, with: reply.affiliations(list))
        case .change(let then): try step.run(then, with: reply.completion)
        }
    }
}

/// The remedy for a publication whose preconditions are not met (XEP-0060 section 7.1.5).
struct PubSubRemedy: Codable, Sendable {
    /// The payload that configures the node.
    var configure: String
    /// The payload that publishes the item.
    var publish: String
    /// The timeout of each answer, in milliseconds; nil for the account's setting.
    var timeout: Int64?
    var terms: RequestTerms { RequestTerms(timeout.map { .milliseconds($0) }) }

    var configuration: Element { get throws { try Element(stored: configure) } }
    var publication: Element { get throws { try Element(stored: publish) } }
}

// Each answer sends what comes next in its own step, so a process that dies in between loses nothing and repeats nothing.
extension PubSubReply {
    fileprivate func publish(
        itemID: ForeignText?, remedy: PubSubRemedy?, then: Durable<PubSubPublication>, in step: borrowing Step
    ) throws {
        guard let remedy, isUnmet else { return try step.run(then, with: publication(itemID: itemID)) }
        account.log(
            .info, .pubsub,
            "the node \(node ?? "") does not meet the preconditions; configures it and publishes again",
            after: step)
        let question = PubSubQuestion.remedy(itemID: itemID, remedy: remedy, then: then)
        try account.pubsub.send(
            .set, remedy.configuration, to: asked, node: node, question, remedy.terms, id: nextID,
            in: step)
    }

    fileprivate func publishAgain(
        itemID: ForeignText?, _ remedy: PubSubRemedy, then: Durable<PubSubPublication>,
        in step: borrowing Step
    ) throws {
        guard case .result = outcome else { return try step.run(then, with: publication(itemID: itemID)) }
        // Without a remedy: should the preconditions still not hold, nothing would come of doing it all once more.
        let question = PubSubQuestion.publish(itemID: itemID, remedy: nil, then: then)
        try account.pubsub.send(
            .set, remedy.publication, to: asked, node: node, question, remedy.terms, id: nextID, in: step)
    }

    /// The id of the step that follows this answer, so that canceling the first step reaches it.
    private var nextID: ForeignText { PendingIQTable.nextID(after: reply.iq.id) }
}
