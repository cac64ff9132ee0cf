// Code blocks of the reference pages and of the documentation catalogs that are no part of a program. They are compiled here
// and never run.
import Foundation
import HandlerMacrosSupport
import HandlersTestKit
import Omemo
import PubSub
import Upload
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit
import XMPPTransport

let tables = Schema(module: "pages", migrations: [])
let shop = tables

enum Chat {
    @Handler("pages.heard")
    static func heard(_ call: borrowing Call<OmemoReceived>) {}
    @Handler("pages.answered")
    static func answered(_ call: borrowing Call<IQReply>) {}
    @Handler("pages.abandoned")
    static func abandoned(_ call: borrowing Call<Invalidation>) {}
    @Handler("pages.nick-changed")
    static func nickChanged(_ call: borrowing Call<PubSubEvent.Of<UserNick>>) {}
    @Handler("pages.node-changed")
    static func nodeChanged(_ call: borrowing Call<PubSubEvent>) {}
    @Handler("pages.nicks")
    static func nicks(_ call: borrowing Call<PubSubFetch.Of<UserNick>>) {}
    @Handler("pages.sent")
    static func sent(_ call: borrowing Call<UploadEnded>) {}
    @Handler("pages.published")
    static func published(_ call: borrowing Call<PubSubPublication>) {}
    @Handler("pages.subscribed")
    static func subscribed(_ call: borrowing Call<PubSubAnswer<PubSubSubscription>>) {}
    @Handler("pages.purged")
    static func purged(_ call: borrowing Call<PubSubCompletion>) {}
}

// MARK: Handlers

struct Payment: Sendable { var cents: Int }

struct Thank: Handler {
    static let id = "shop.thank"
    var customer: String
    func run(_ call: borrowing Call<Payment>) throws {}
}

struct Remind: Handler {
    static let id = "shop.remind-in-pages"
    var customer: String
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

func handlers() throws {
    // snippet.handlers
    let store = try HandlerStore(path: "shop.db", registry: HandlerRegistry([Thank.self]), schemas: [shop])
    let id = try store.step { step in try step.bind(Thank(customer: "Ada").durable) }
    try store.step { step in try step.end(id, .result, with: Payment(cents: 1999)) }
    // snippet.timer
    try store.step { step in try step.schedule(Remind(customer: "Ada").durable, after: .seconds(3600)) }
    let runner = try HandlerRunner(store)
    try runner.start()
    // snippet.end
}

// snippet.lock
func checkStoredHandlers() throws {
    let registry = HandlerRegistry.discovered(and: PubSubService.handlers)
    if ProcessInfo.processInfo.environment["HANDLERS_LOCK"] == "write" {
        try registry.writeSignatures(to: "handlers.lock", of: { $0.hasPrefix("shop.") })
    }
    try registry.checkSignatures(
        against: "handlers.lock", of: { $0.hasPrefix("shop.") },
        updating: "run 'HANDLERS_LOCK=write swift test' and commit handlers.lock")
}
// snippet.end

// MARK: XMPPCore

func core(_ bytes: [UInt8], _ message: Message, _ name: String, _ id: String, _ peer: JID) throws {
    // snippet.parser
    let parser = try StreamParser()
    for event in try parser.parse(bytes) {
        guard case .element(let element) = event, let stanza = try Stanza(element) else { continue }
        if case .message(let message) = stanza { print(message.from as Any, message.body ?? "") }
    }
    // snippet.end
    var element = message.element
    // snippet.text
    if message.body == "help" { print("?") }  // a literal, a String or a ForeignText: all by bytes
    switch element.name {
    case "message": print("a message")
    default: break
    }
    let echo = Message(to: peer, body: message.body)  // a parameter takes both types
    let shown = message.body?.string ?? ""  // a String, to show it or to search in it
    let key: ForeignText = "urn:example:\(name)"  // a key of a dictionary or a member of a set
    element["id"] = ForeignText(id)  // a String as the value of an attribute
    // snippet.end
    _ = (echo, shown, key)
}

func values(_ status: Element, _ delay: Element, _ id: Element, _ fin: Element, _ message: Message) throws {
    // snippet.values
    let code = try status.value(of: "code", as: UInt16.self)
    let stamp = try delay.value(of: "stamp", as: Timestamp.self)
    let by: JID? = try id.optionalValue(of: "by")
    let count = try fin.optionalValue(at: "{\(Namespaces.rsm)}set/count", as: Int.self)
    let ids = message.element.texts(at: "{\(Namespaces.pubsubEvent)}event/items/item/@id")
    // snippet.end
    _ = (code, stamp, by as Any, count as Any, ids)
}

// MARK: XMPPAccount and XMPPTransport

func account(_ configuration: AccountConfiguration, _ request: IQ) async throws {
    // snippet.account
    let store = try HandlerStore(path: "app.db", registry: .discovered(), schemas: Account.schemas)
    let account = try Account(configuration, store: store)
    try await account.connect()
    try await account.send(.iq(request), then: Chat.answered(), orElse: Chat.abandoned())
    // snippet.end
}

func transport(_ account: Account) async throws {
    // snippet.transport
    do {
        try await account.connect()
    } catch let error as TransportError where error.code == .certificateExpired {
        print(error)
    } catch let error as SASLError where error.code == .notAuthorized {
        print("wrong password")
    }
    // snippet.end
}

func modules(_ configuration: inout AccountConfiguration) async throws {
    // snippet.modules
    configuration.modules = .standard
    let store = try HandlerStore(path: "app.db", registry: .discovered(), schemas: Account.schemas)
    let account = try Account(configuration, store: store)
    let contacts = try store.read { try account.roster.items(in: $0) }
    // snippet.end
    _ = contacts
}

func server(_ configuration: inout AccountConfiguration) {
    // snippet.server
    configuration.server = .init(host: "127.0.0.1", port: 5222, security: .startTLS)
    configuration.trust = .file(path: "server/localhost.crt")
    // snippet.end
}

func operations(_ account: Account, _ juliet: JID) async throws {
    // snippet.awaited
    let item = RosterItem(juliet, name: "Juliet")
    try await account.request(.roster.set(item))
    // snippet.stored
    try await account.send(.roster.set(item), then: Chat.answered())
    // snippet.end
    _ = try await account.perform { step in
        // snippet.in-step
        try account.send(.roster.set(item), then: Chat.answered(), in: step)
        // snippet.end
    }
}

// MARK: XMPPTestKit

func scripted(_ folder: String) throws {
    // snippet.scripted
    let certificates = try TestCertificates(in: folder)
    let certificate = try certificates.makeServerCertificate(for: ["localhost"])
    let server = try ScriptedServer(.init(accounts: ["alice": "secret"], certificate: certificate))
    try server.start()
    defer { server.stop() }
    // … the program under test connects to server.directTLSPort …
    server.dropConnections(afterSending: 100)
    let isResumed = server.log.wait(for: .seconds(10)) { $0.event == .resumed } != nil
    // snippet.end
    _ = isResumed
}

// MARK: PubSub

func pubsub(_ configuration: inout AccountConfiguration, _ juliet: JID, _ service: JID) async throws {
    // snippet.events
    configuration.modules = .standard + [PubSubEvents()]
    let store = try HandlerStore(
        path: "app.db", registry: .discovered(and: PubSubService.handlers),
        schemas: Account.schemas + PubSubEvents.schemas + [tables])
    let account = try Account(configuration, store: store)
    try await account.perform {
        try account.pubsub.listen(to: "urn:example:reading", as: "shelf", Chat.nodeChanged(), in: $0)
    }
    // snippet.typed
    try await account.send(.pubsub(.publish(UserNick("Juliet"))), then: Chat.published())
    try await account.send(.pubsub(.values(UserNick.self, .newest(1)), at: juliet), then: Chat.nicks())
    try await account.perform {
        try account.pubsub.listen(to: UserNick.self, as: "profile", Chat.nickChanged(), in: $0)
    }
    // snippet.operations
    try await account.send(
        .pubsub(.subscribe(to: "news"), at: service), then: Chat.subscribed(), orElse: Chat.abandoned())
    _ = try await account.perform { step in  // commits with the step
        try account.send(.pubsub(.purge("drafts")), then: Chat.purged(), in: step)
    }
    let form = try await account.request(.pubsub(.configuration(of: "news"), at: service))
    // snippet.end
    _ = form
    // snippet.deciding
    try await account.perform {
        try account.pubsub.decideSubscriptions(at: service, as: "club", Club.asked(), in: $0)
    }
    // snippet.end
}

enum Club {
    // snippet.asked
    @Handler("club.asked")
    static func asked(_ call: borrowing Call<PubSubSubscriptionRequested>) throws {
        try call.account.pubsub.answer(call.request, allowing: true, in: call.step)
    }
    // snippet.end
}

// MARK: Upload

func upload(_ configuration: inout AccountConfiguration, _ romeo: JID, _ photo: UploadFile) async throws {
    // snippet.upload
    configuration.modules = .standard + [UploadModule()]
    let store = try HandlerStore(
        path: "app.db", registry: .discovered(), schemas: Account.schemas + UploadModule.schemas)
    let account = try Account(configuration, store: store)
    try await account.connect()
    let balcony = UploadFile("/home/juliet/balcony.jpg", type: "image/jpeg")
    _ = try await account.perform {
        try account.uploads.send(balcony, to: romeo, then: Chat.sent(), in: $0)
    }
    // snippet.privateHosts
    configuration.modules = .standard + [UploadModule(privateHosts: ["chat.lan"])]
    // snippet.encrypting
    _ = try await account.perform { step in
        try account.uploads.upload(photo, encrypting: true, then: Album.encrypted(reader: romeo), in: step)
    }
    // snippet.end
}

enum Album {
    // snippet.encrypted
    @Handler("album.encrypted")
    static func encrypted(_ call: borrowing Call<UploadEnded>, reader: JID) throws {
        guard case .uploaded(let file) = call.outcome else { return }
        try call.account.omemo.send(OmemoContent(body: file.link), to: reader, in: call.step)
    }
    // snippet.end
}

// MARK: Omemo

func omemo(_ configuration: inout AccountConfiguration, _ juliet: JID) async throws {
    // snippet.omemo
    configuration.modules = .standard + [OmemoModule()]  // of a bot: .bot + [OmemoModule()]
    let store = try HandlerStore(
        path: "app.db", registry: .discovered(), schemas: Account.schemas + OmemoService.schemas)
    let account = try Account(configuration, store: store)
    try await account.omemo.listen(as: "chat", Chat.heard())
    try await account.connect()
    try await account.omemo.start()
    _ = try await account.perform {
        try account.omemo.send(OmemoContent(body: "Good night"), to: juliet, in: $0)
    }
    // snippet.end
}
