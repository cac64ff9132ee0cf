import AccountTestKit
import Handlers
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore

/// An account without server whose handlers are those of the PubSub tests, and what its store holds.
final class PubSubAccount {
    static let jid = "alice@example.test"

    let folder: TemporaryFolder
    let store: HandlerStore
    let offline: OfflineAccount

    /// - Parameter handlers: What this program knows; another one on the same folder may know more or less.
    init(
        in folder: TemporaryFolder? = nil,
        handlers: [any DurableHandler.Type] = PubSubService.handlers + Notes.handlers,
        role: AccountRole = .main, log: AccountLog? = nil
    ) throws {
        let folder = try folder ?? TemporaryFolder()
        self.folder = folder
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(handlers),
            schemas: Account.schemas + [Notes.schema], role: role == .main ? .main : .worker)
        var configuration = try AccountConfiguration(jid: JID(Self.jid), password: "none", server: nil)
        configuration.role = role
        configuration.log = log
        offline = try OfflineAccount(configuration, store: store)
    }

    var account: Account { offline.account }
    var pubsub: PubSubService { account.pubsub }

    func close() async { await offline.close() }

    // MARK: What arrives

    @discardableResult
    func receive(_ xml: String) throws -> [AccountEvent] { try offline.receive(xml) }

    /// Loses the session in which the request was sent.
    func lose(_ id: String) throws { try #require(try offline.invalidate(requestID: id)) }

    func expire(_ id: String) throws { try #require(try offline.expire(requestID: id)) }

    // MARK: What is there

    var notes: [String] { get throws { try store.step { step in try Notes.all(in: step) } } }

    /// The stanzas that wait to be sent.
    var outbox: [String] {
        get throws {
            try offline.sent.map { String(decoding: Serializer().bytes($0), as: UTF8.self) }
        }
    }

    /// The id of the newest request that waits to be sent.
    var newestID: String? {
        get throws {
            try outbox.last.flatMap { xml in
                try Element(parsing: xml, defaultNamespace: Namespaces.client)["id"]?.string
            }
        }
    }

    /// The endings so far: handler, outcome and reason.
    var endings: [String] {
        get throws {
            try store.step { step in
                try step.all("SELECT name, outcome, reason FROM ending ORDER BY handler") {
                    (row) throws(HandlerError) in
                    let outcome = Outcome(rawValue: row.integer(1)).map { "\($0)" } ?? "?"
                    return ([row.text(0), outcome] + (row.optionalText(2).map { [$0] } ?? []))
                        .joined(separator: " ")
                }
            }
        }
    }

    /// A handler row: its state, why, and what it was called with.
    struct Row: Equatable {
        var name: String
        /// 0 pending, 1 parked, 2 quarantined.
        var state: Int
        var reason: String?
        var input: String?
    }

    /// The handlers that have not ended.
    var rows: [Row] {
        get throws {
            try store.step { step in
                try step.all("SELECT name, state, reason, input FROM handler ORDER BY id") {
                    (row) throws(HandlerError) in
                    Row(
                        name: row.text(0), state: Int(row.integer(1)), reason: row.optionalText(2),
                        input: row.isNull(3) ? nil : String(decoding: row.blob(3), as: UTF8.self))
                }
            }
        }
    }
}
