import Handlers
@testable import IQTracker
import Omemo
import Synchronization
import TestSupport
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// An account without a stream, whose inbound step is fed by hand, with a wall clock that is set by hand.
final class OfflineAccount {
    static let handlers: [any Handler.Type] = [Refreshed.self, Abandoned.self]
    static let notes = Schema(
        module: "notes", migrations: ["CREATE TABLE note(row INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

    let folder: TemporaryFolder
    let store: HandlerStore
    let account: Account
    let clock = Clock()

    final class Clock: Sendable {
        private let value = Atomic<Int64>(1000)
        var now: Int64 {
            get { value.load(ordering: .relaxed) }
            set { value.store(newValue, ordering: .relaxed) }
        }
    }

    init(handlers: [any Handler.Type] = OfflineAccount.handlers) throws {
        folder = try TemporaryFolder()
        let clock = clock
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(handlers),
            schemas: Account.schemas + OmemoService.schemas + [Self.notes],
            time: TimeSource(wallMilliseconds: { clock.now }))
        account = try Account(
            AccountConfiguration(jid: JID("alice@example.test"), password: "none"), store: store)
    }

    func close() async { await account.close() }

    // MARK: What arrives

    /// Takes in one stanza as the loop would.
    func receive(_ xml: String) throws {
        let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
        try store.step { step in
            var inbound = InboundStep(
                account: account, own: try JID("alice@example.test/phone"), session: 1, isManaged: true,
                flushMark: 0, now: 0, management: StreamManagement())
            _ = try inbound.process(.element(element), in: step)
        }
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

    /// A user's devices as stored: number, listed or not, first seen, last seen, removed; nil when nothing is known.
    func devices(of jid: String, _ version: OmemoVersion = .omemo2) throws -> [String]? {
        try store.step { step in
            try account.omemo.deviceLists.devices(of: JID(jid), version, in: step)?.map { known in
                "\(known.device.id) \(known.firstSeen) \(known.lastSeen) \(known.removedAt.map(String.init) ?? "listed")"
            }
        }
    }

    var notes: [String] { get throws { try store.texts("SELECT text FROM note ORDER BY row") } }

    /// Notes what a refresh brought.
    struct Refreshed: Handler {
        static let id = "test.refreshed"
        static let retry = RetryPolicy.never
        var fails = false

        func run(_ call: borrowing Call<OmemoRefresh>) throws {
            let outcome =
                switch call.outcome {
                case .merged(let change): "+\(change.added) ±\(change.returned) -\(change.removed)"
                case .unreadable: "unreadable"
                case .error(let error): "error \(error.stanzaError.condition)"
                case .timedOut: "timed out"
                }
            try call.step.execute("INSERT INTO note(text) VALUES (?)", "\(call.jid) \(outcome)")
            if fails { throw Broken() }
        }
    }

    struct Broken: Error {}

    /// Notes that a refresh can never end.
    struct Abandoned: Handler {
        static let id = "test.abandoned"
        static let retry = RetryPolicy.never

        func run(_ call: borrowing Call<Invalidation>) throws {
            try call.step.execute("INSERT INTO note(text) VALUES (?)", "\(call.handler) \(call.reason)")
        }
    }
}
