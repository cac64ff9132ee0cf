import CSQLite
@testable import Handlers
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// An account without a stream, on a store at a path, that takes in what a test gives it.
struct BoundedAccount {
    static let own = try! JID("alice@localhost/phone")  // A constant that is an address.
    static let maximumOutbox = 1000

    let store: HandlerStore
    let account: Account
    var id: Int64 { account.id }

    init(_ path: String, _ modules: [any AccountModule]) throws {
        store = try HandlerStore(
            path: path, registry: HandlerRegistry([Silent.self]), schemas: Account.schemas,
            synchronous: .normal)
        var configuration = AccountConfiguration(jid: Self.own.bare, password: "none")
        configuration.modules = modules
        configuration.maximumOutbox = Self.maximumOutbox
        account = try Account(configuration, store: store)
    }

    /// Takes a request and never answers.
    struct Silent: Handler {
        static let id = "test.silent"
        func run(_ call: borrowing Call<IQRequest>) throws {}
    }

    func step<R>(_ body: (borrowing Step) throws -> R) throws -> R { try store.step(body) }

    func number(_ sql: String) throws -> Int {
        try step { step in try step.first(sql) { (row) throws(HandlerError) in Int(row.integer(0)) } ?? 0 }
    }

    /// The id of the newest request that a handler waits for.
    func pendingRequest(of handler: String) throws -> String {
        try step { step in
            try step.first(
                """
                SELECT stanza_id FROM request JOIN handler ON handler.id = request.handler WHERE name = ?
                ORDER BY handler.id DESC LIMIT 1
                """, handler
            ) { (row) throws(HandlerError) in row.text(0) } ?? ""
        }
    }

    /// Empties the outbox, as the server does.
    func takeOutbox() throws { _ = try step { try $0.execute("DELETE FROM outbox") } }

    // MARK: What arrives

    /// Takes stanzas in, as the loop would, 50 or 256 KiB in a step, and reports events after it.
    func receive(_ stanzas: some Sequence<String>) throws {
        var iterator = stanzas.makeIterator()
        var isOver = false
        while !isOver {
            let reported = try step { step in
                var inbound = inbound
                var bytes = 0
                for _ in 0..<50 where bytes < 256 << 10 {
                    guard let xml = iterator.next() else {
                        isOver = true
                        break
                    }
                    bytes += xml.utf8.count
                    let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
                    _ = try inbound.process(.element(element), in: step)
                }
                return inbound.events
            }
            for event in reported { account.hub.send(event) }
        }
    }

    private var inbound: InboundStep {
        account.inboundStep(
            own: Self.own, session: 1, flushMark: 0, now: .zero, management: StreamManagement())
    }

    /// Takes messages in as far as they are looked at to recognize copies.
    ///
    /// - Returns: How many were new.
    @discardableResult
    func see(_ messages: some Sequence<(String, String)>) throws -> Int {
        var count = 0
        try step { step in
            for (from, id) in messages {
                let received = InboundMessage(
                    message: try Message(
                        element: Element(
                            "message", namespace: Namespaces.client,
                            attributes: ["from": from, "id": id])))
                if try account.seen.isNew(received, own: Self.own, in: step) { count += 1 }
            }
        }
        return count
    }

    // MARK: What it costs

    /// How many pages of the database were looked at since it was opened: what grows with the rows that are read.
    var pagesRead: Int {
        get throws {
            try store.betweenSteps { connection in
                [SQLITE_DBSTATUS_CACHE_HIT, SQLITE_DBSTATUS_CACHE_MISS].reduce(0) { sum, kind in
                    var (now, peak): (Int32, Int32) = (0, 0)
                    sqlite3_db_status(connection.database, kind, &now, &peak, 0)
                    return sum + Int(now)
                }
            }
        }
    }

    /// What the next process reads: it opens the store, starts its modules and takes one message in.
    static func pagesOfWake(_ path: String, _ modules: [any AccountModule]) throws -> Int {
        let woken = try BoundedAccount(path, modules)
        try woken.step { try woken.account.startModules(.stream, in: $0) }
        try woken.receive(["<message from='juliet@capulet.lit/balcony' id='wake'><body>hi</body></message>"])
        return try woken.pagesRead
    }
}
