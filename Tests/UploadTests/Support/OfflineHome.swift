import AccountTestKit
import Handlers
import TestSupport
import Testing
import XMPPCore

@testable import IQTracker
@testable import Upload
@testable import XMPPAccount
@testable import XMPPModules

/// Notes how uploads ended, and fails as often as it is told first.
struct Noted: Handler {
    static let id = "test.noted"
    static let retry = RetryPolicy(attempts: 5, firstDelay: .zero)
    var failures = 0

    struct Failed: Error {}

    func run(_ call: borrowing Call<UploadEnded>) throws {
        if call.attempt <= failures { throw Failed() }
        let outcome =
            switch call.outcome {
            case .uploaded(let file): "uploaded \(file.address)"
            case .failed(let error): "failed \(error.code)"
            }
        try call.step.execute("INSERT INTO noted(text) VALUES (?)", "\(call.file.name) \(outcome)")
    }
}

/// An account without a stream, whose inbound step is fed by hand, and a runner that is run by hand.
final class OfflineHome: Sendable, TestResource {
    static let jid = "alice@example.test"
    static let tables = Schema(
        module: "noted", migrations: ["CREATE TABLE noted(row INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

    let folder: TemporaryFolder
    let store: HandlerStore
    let offline: OfflineAccount

    init(_ module: UploadModule = UploadModule(), others: [any AccountModule] = [], maximumOutbox: Int = 1000)
        throws
    {
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry([Noted.self]),
            schemas: Account.schemas + UploadModule.schemas + [Self.tables])
        var configuration = try AccountConfiguration(jid: JID(Self.jid), password: "none", server: nil)
        configuration.modules = others + [module]
        configuration.maximumOutbox = maximumOutbox
        offline = try OfflineAccount(configuration, store: store)
    }

    var account: Account { offline.account }

    func close() async { await offline.close() }

    func start(
        _ path: String, to recipient: String? = nil, encrypting: Bool = false, failures: Int = 0
    ) throws -> UploadID {
        let then = try Noted(failures: failures).durable
        return try store.step { step in
            if let recipient {
                return try account.uploads.send(
                    UploadFile(path), to: try JID(recipient), then: then, in: step)
            }
            return try account.uploads.upload(UploadFile(path), encrypting: encrypting, then: then, in: step)
        }
    }

    /// Calls what is due.
    func drain() async throws { _ = try await account.runner.drain(for: .milliseconds(300)) }

    // MARK: What arrives

    func receive(_ xml: String) throws { try offline.receive(xml) }

    /// Answers the oldest request of that name that waits.
    func answer(_ name: String, to jid: String, _ payload: String, type: String = "result") throws {
        let id = try #require(try waiting(name, to: jid).first)
        try store.change("DELETE FROM outbox WHERE stanza_id = '\(id)'")
        try receive("<iq type='\(type)' id='\(id)' from='\(jid)' to='\(Self.jid)/phone'>\(payload)</iq>")
    }

    /// The ids of requests to somebody that wait to be sent.
    func waiting(_ name: String, to jid: String) throws -> [String] {
        try outbox.filter { $0["to"] == jid && $0.firstElement?.name == ForeignText(name) && $0.name == "iq" }
            .compactMap { $0["id"]?.string }
    }

    func invalidate(_ id: String, _ reason: InvalidationReason) throws {
        try #require(try offline.invalidate(requestID: id, reason: reason))
    }

    /// The service answers the search.
    func answerSearch(maximum: Int? = nil) throws {
        try answer(
            "query", to: "example.test",
            "<query xmlns='http://jabber.org/protocol/disco#items'><item jid='up.example.test'/><item jid='chat.example.test'/></query>"
        )
        // One that takes no files answers first.
        try answer(
            "query", to: "chat.example.test",
            "<query xmlns='http://jabber.org/protocol/disco#info'><feature var='http://jabber.org/protocol/muc'/></query>"
        )
        let form = maximum.map {
            "<x type='result' xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'><value>urn:xmpp:http:upload:0</value></field><field var='max-file-size'><value>\($0)</value></field></x>"
        }
        try answer(
            "query", to: "up.example.test",
            "<query xmlns='http://jabber.org/protocol/disco#info'><feature var='urn:xmpp:http:upload:0'/>\(form ?? "")</query>"
        )
    }

    func answerSlot(put: String, get: String? = nil) throws {
        try answer(
            "request", to: "up.example.test",
            "<slot xmlns='urn:xmpp:http:upload:0'><put url='\(put)'/><get url='\(get ?? put)'/></slot>")
    }

    // MARK: What is there

    /// The stanzas that wait to be sent.
    var outbox: [Element] {
        get throws {
            try store.texts("SELECT CAST(xml AS TEXT) FROM outbox ORDER BY seq").map {
                try Element(parsing: $0, defaultNamespace: Namespaces.client)
            }
        }
    }

    var noted: [String] { get throws { try store.texts("SELECT text FROM noted ORDER BY row") } }
    var states: [String] { get throws { try store.texts("SELECT state FROM upload ORDER BY id") } }
}
