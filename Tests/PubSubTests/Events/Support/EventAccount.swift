import AccountTestKit
import Handlers
import PubSub
import TestSupport
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// An account without a stream that takes events, fed by hand.
final class EventAccount {
    static let jid = "romeo@montague.example"
    static let node = "http://jabber.org/protocol/nick"

    let folder: TemporaryFolder
    let store: HandlerStore
    let offline: OfflineAccount

    /// - Parameters:
    ///   - folder: That of another one: the next process of the same account.
    ///   - handlers: What this program knows.
    init(
        in folder: TemporaryFolder? = nil, modules: [any AccountModule] = [DiscoModule(), PubSubEvents()],
        schemas: [Schema] = PubSubEvents.schemas,
        handlers: [any DurableHandler.Type] = PubSubService.handlers + EventApp.handlers
    ) throws {
        let folder = try folder ?? TemporaryFolder()
        self.folder = folder
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(handlers),
            schemas: Account.schemas + schemas + [EventApp.schema])
        var configuration = AccountConfiguration(jid: try JID(Self.jid), password: "none")
        configuration.modules = modules
        offline = try OfflineAccount(configuration, store: store)
    }

    var account: Account { offline.account }
    var pubsub: PubSubService { account.pubsub }

    func close() async { await offline.close() }

    func step<R>(_ body: (borrowing Step) throws -> R) throws -> R { try store.step(body) }

    func listen(
        to node: String = node, of publisher: String? = nil, as key: String = "test", tag: String = "a"
    ) throws {
        try step { step in
            try pubsub.listen(
                to: node, of: publisher.map { try JID($0) }, as: key, EventApp.Seen(tag: tag).durable,
                in: step)
        }
    }

    // MARK: What arrives

    /// Takes in one stanza as the loop would.
    ///
    /// - Parameter isCommitted: False for a process that is killed before the commit.
    @discardableResult
    func receive(_ stanza: Element, isCommitted: Bool = true) throws -> [AccountEvent] {
        guard isCommitted else {
            try offline.receiveAndDie(String(decoding: Serializer().bytes(stanza), as: UTF8.self))
            return []
        }
        return try offline.receive(stanza)
    }

    /// An event in a message as servers send it.
    static func event(
        _ content: String, from: String? = "juliet@capulet.example", id: String? = nil,
        type: String = "headline", beside: String = ""
    ) throws -> Element {
        let attributes = [("from", from), ("id", id), ("type", type)].compactMap { name, value in
            value.map { " \(name)='\($0)'" }
        }.joined()
        return try Element(
            parsing:
                "<message\(attributes)><event xmlns='http://jabber.org/protocol/pubsub#event'>\(content)</event>\(beside)</message>",
            defaultNamespace: Namespaces.client)
    }

    /// A published nick.
    static func nick(
        _ name: String, id: String? = "current", node: String = node, publisher: String? = nil
    ) -> String {
        let id = id.map { " id='\($0)'" } ?? ""
        let publisher = publisher.map { " publisher='\($0)'" } ?? ""
        return
            "<items node='\(node)'><item\(id)\(publisher)><nick xmlns='\(Namespaces.nick)'>\(name)</nick></item></items>"
    }

    @discardableResult
    func receive(
        event content: String, from: String? = "juliet@capulet.example", id: String? = nil,
        type: String = "headline", beside: String = ""
    ) throws -> [AccountEvent] {
        try receive(Self.event(content, from: from, id: id, type: type, beside: beside))
    }

    // MARK: What is there

    var notes: [String] { get throws { try step { try EventApp.notes(in: $0) } } }

    /// What was noted, which is then forgotten.
    func takeNotes() throws -> [String] {
        try step { step in
            let notes = try EventApp.notes(in: step)
            try step.execute("DELETE FROM event_note")
            return notes
        }
    }

    func number(_ sql: String) throws -> Int64 { try store.number(sql) }

    /// What the account says that it understands, as far as it is about events.
    var wanted: Set<String> {
        get throws {
            try step { step in
                Set(
                    try account.modules.features(of: account, in: step).filter { $0.hasSuffix("+notify") })
            }
        }
    }
}
