import Handlers
@testable import IQTracker
import PubSub
import TestSupport
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// An account without a stream, whose inbound step is fed by hand: what a server would send, without a server.
final class OfflineAccount {
    static let jid = "alice@example.test"

    let folder: TemporaryFolder
    let store: HandlerStore
    let account: Account

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
        account = try Account(configuration, store: store)
    }

    var pubsub: PubSubService { account.pubsub }

    func close() async { await account.close() }

    // MARK: What arrives

    /// Takes in one stanza as the loop would.
    @discardableResult
    func receive(_ xml: String) throws -> [AccountEvent] {
        let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
        return try store.step { step in try process(element, in: step) }
    }

    /// Takes in one stanza and dies before that is committed.
    func dieReceiving(_ xml: String) throws {
        let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
        struct Death: Error {}
        do {
            try store.step { step in
                _ = try process(element, in: step)
                throw Death()
            }
        } catch is Death {}
    }

    private func process(_ element: Element, in step: borrowing Step) throws -> [AccountEvent] {
        var inbound = InboundStep(
            account: account, own: try JID(Self.jid + "/phone"), session: 1, isManaged: true,
            flushMark: 0, now: 0, management: StreamManagement())
        _ = try inbound.process(.element(element), in: step)
        return inbound.events
    }

    /// Lets the request time out.
    func expire(_ id: String) throws {
        try settle(id) { request, step in
            let iq = IQ(
                type: .error, from: request.peer, id: request.stanzaID,
                payload: StanzaError(.remoteServerTimeout).element)
            try step.end(
                request.handler, .timeout, with: IQReply(account: account, iq: iq, outcome: .timeout))
        }
    }

    /// Loses the session in which the request was sent.
    func lose(_ id: String) throws {
        try settle(id) { request, step in
            try step.invalidate(request.handler, reason: .sessionLost, environment: account)
        }
    }

    private func settle(
        _ id: String, _ body: (PendingIQTable.Request, borrowing Step) throws -> Void
    ) throws {
        try store.step { step in
            guard let request = try account.requests.take(id: ForeignText(id), in: step) else {
                throw NoSuchRequest()
            }
            try body(request, step)
        }
    }

    struct NoSuchRequest: Error {}

    // MARK: What is there

    var notes: [String] { get throws { try store.step { step in try Notes.all(in: step) } } }

    /// The stanzas that wait to be sent.
    var outbox: [String] {
        get throws {
            try store.step { step in
                try step.all("SELECT xml FROM outbox ORDER BY seq") { (row) throws(HandlerError) in
                    String(decoding: row.blob(0), as: UTF8.self)
                }
            }
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
                    let outcome = Outcome(rawValue: row.integer(1)).map(\.description) ?? "?"
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
