// A node of a program's own, without any XML: it tells the user's contacts what the user reads, and keeps what they read.
import Glibc
import HandlerMacrosSupport
import PubSub
import XMPPAccount
import XMPPCore
import XMPPModules

/// The node holds one of these, which is replaced when the user turns a page. Contacts may read it, as nodes of users are.
struct Reading: PubSubPayload, Codable {
    static let node = "urn:example:reading"
    var title: String
    var page: Int
}

enum Shelf {
    /// Called once for each change, in whatever process has the stream then; what is shown again changes nothing.
    @Handler("shelf.changed")
    static func changed(_ call: borrowing Call<PubSubEvent.Of<Reading>>) throws {
        let reader = call.service.description
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
    var configuration = AccountConfiguration(jid: try JID("romeo@montague.example"), password: "secret")
    configuration.modules = .standard + [PubSubEvents()]
    let account = try Account(configuration, store: store)
    // From now on the account's presence says that it wants this node's events; contacts' servers send the last
    // ones at once.
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
