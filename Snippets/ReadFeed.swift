// Reads every item of a node into a table, page by page; a killed process is continued by the next one.
// FEED_JID and FEED_PASSWORD name the account, FEED_SERVICE and FEED_NODE the node.
import Foundation
import HandlerMacrosSupport
import PubSub
import XMPPAccount
import XMPPCore
import XMPPModules

enum Feed {
    /// Called with each page. Its rows and the request for the next page commit together, so a process that is killed
    /// in between neither loses a page nor reads one twice.
    @Handler("feed.page-read")
    static func pageRead(_ call: borrowing Call<PubSubAnswer<PubSubPage>>) throws {
        switch call.outcome {
        case .success(let page):
            for item in page.items {
                try call.step.execute(
                    "INSERT OR REPLACE INTO entry VALUES (?, ?)", item.id, item.payload?.description)
            }
            guard let next = page.next else { return }
            try call.account.send(.pubsub(next, at: call.service), then: pageRead(), in: call.step)
        case .notFound: print("the node is gone, or the item at which the page began")
        case .error(let error): print(error)
        case .timedOut: print("no answer came in time")
        }
    }
}

do {
    let environment = ProcessInfo.processInfo.environment
    guard let jid = environment["FEED_JID"] else { throw AccountError(.invalidConfiguration, "set FEED_JID") }
    let tables = Schema(module: "feed", migrations: ["CREATE TABLE entry(id TEXT PRIMARY KEY, xml TEXT)"])
    let store = try HandlerStore(
        path: "feed.db", registry: .discovered(and: PubSubService.handlers),
        schemas: Account.schemas + [tables])
    var configuration = AccountConfiguration(jid: try JID(jid), password: environment["FEED_PASSWORD"] ?? "")
    if let port = environment["FEED_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    let account = try Account(configuration, store: store)
    try await account.connect()
    try await account.send(
        .pubsub(
            .page(of: environment["FEED_NODE"] ?? "", limit: 50), at: JID(environment["FEED_SERVICE"] ?? "")),
        then: Feed.pageRead())
    while try store.read({ try $0.first("SELECT 1 FROM handler") { _ in true } }) != nil {
        try await Task.sleep(for: .milliseconds(100))
    }
    await account.close()
} catch {
    print("ReadFeed: \(error)")
    exit(1)
}
