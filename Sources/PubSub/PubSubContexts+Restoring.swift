public import Handlers
public import XMPPAccount
import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

// A handler that waits (AsyncHandler), or must not run in this process, is called later, with what arrived read again.

/// The part of a request that reading the answer needs.
enum PubSubSubject: Codable, Hashable, Sendable {
    case items
    case page(request: PubSubPage.Request)
    case publish(itemID: ForeignText?)
    case create
    case form(form: PubSubForm)
    case subscribe(jid: JID?)
    case subscriptions(list: PubSubList)
    case affiliations(list: PubSubList)
    case change
}

extension PubSubReply {
    private struct Stored: Codable {
        var service: JID?
        var node: ForeignText?
        var subject: PubSubSubject
        var reply: String
    }

    fileprivate func stored(_ subject: PubSubSubject) throws -> [UInt8] {
        let reply = String(decoding: try reply.stored(), as: UTF8.self)
        return try [UInt8](
            JSONEncoder().encode(Stored(service: asked, node: node, subject: subject, reply: reply)))
    }

    fileprivate static func context<Context: PubSubContext>(
        restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?
    ) throws -> Context {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        let reply = try IQReply(restoring: [UInt8](stored.reply.utf8), in: environment)
        let context = PubSubReply(asked: stored.service, node: stored.node, reply: reply).read(stored.subject)
        guard let context = context as? Context else {
            throw HandlerError(
                .wrongContext,
                "a handler of \(Context.self) was called with \(type(of: context)); its stored call is not its own"
            )
        }
        return context
    }

    private func read(_ subject: PubSubSubject) -> any PubSubContext {
        switch subject {
        case .items: fetch
        case .page(let request): page(request)
        case .publish(let itemID): publication(itemID: itemID)
        case .create: creation
        case .form(let form): self.form(form)
        case .subscribe(let jid): subscription(jid)
        case .subscriptions(let list): subscriptions(list)
        case .affiliations(let list): affiliations(list)
        case .change: completion
        }
    }
}

extension PubSubAnswer: StoredContext, AccountContext {
    package func stored() throws -> [UInt8] { try reply.stored(subject) }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        self = try PubSubReply.context(restoring: bytes, in: environment)
    }
}
