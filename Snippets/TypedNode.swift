// A node of a program's own, without any XML: it publishes what the user reads, and stores what contacts publish.
// SHELF_JID and SHELF_PASSWORD name the account.
import Foundation
import HandlerMacrosSupport
import PubSub
import XMPPAccount
import XMPPCore
import XMPPModules

// snippet.payload
/// The node holds one of these, which is replaced when the user turns a page. Contacts may read it, as nodes of users are.
struct Reading: PubSubPayload, Codable {
    static let node = "urn:example:reading"
    var title: String
    var page: Int
}
// snippet.end

enum Shelf {
    /// Called once for each change, in the process that owns the stream then; an event that arrives again calls nothing.
    @Handler("shelf.changed")
    static func changed(_ call: borrowing Call<PubSubEvent.Of<Reading>>) throws {
        let reader = call.event.service.description
        switch call.change {
        case .items(let items):
            guard let reading = items.last?.value else { return }
            try call.step.execute(
                "INSERT OR REPLACE INTO shelf(reader, title, page) VALUES (?, ?, ?)", reader, reading.title,
                reading.page)
        case .retracted, .purged, .deleted:
            try call.step.execute("DELETE FROM shelf WHERE reader = ?", reader)
        case .configured, .subscription, .associated, .disassociated: break
        }
    }

    @Handler("shelf.published")
    static func published(_ call: borrowing Call<PubSubPublication>) throws {
        guard case .error(let error) = call.outcome else { return }
        try call.step.execute("INSERT INTO complaint(text) VALUES (?)", error.description)
    }
}

do {
    let tables = Schema(
        module: "shelf",
        migrations: [
            "CREATE TABLE shelf(reader TEXT PRIMARY KEY, title TEXT, page INTEGER); CREATE TABLE complaint(text TEXT)"
        ])
    let store = try HandlerStore(
        path: "shelf.db", registry: .discovered(and: PubSubService.handlers),
        schemas: Account.schemas + PubSubEvents.schemas + [tables])
    let environment = ProcessInfo.processInfo.environment
    var configuration = AccountConfiguration(
        jid: try JID(environment["SHELF_JID"] ?? ""), password: environment["SHELF_PASSWORD"] ?? "")
    if let port = environment["SHELF_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    configuration.modules = .standard + [PubSubEvents()]
    let account = try Account(configuration, store: store)
    // From now on the account's presence asks for this node's events; servers of contacts send the last item at once.
    try await account.perform {
        try account.pubsub.listen(to: Reading.self, as: "shelf", Shelf.changed(), in: $0)
    }
    try await account.connect()
    try await account.send(
        .pubsub(.publish(Reading(title: "The Tragedie of Romeo", page: 7))), then: Shelf.published())
} catch {
    print("TypedNode: \(error)")
    exit(1)
}
