import AccountTestKit
import Handlers
@testable import IQTracker
import Omemo
import Synchronization
import TestSupport
import Testing
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// An account without a stream, whose inbound step is fed by hand, with a wall clock that is set by hand.
final class RefreshAccount {
    static let handlers: [any Handler.Type] = [Refreshed.self, Abandoned.self]
    static let notes = Schema(
        module: "notes", migrations: ["CREATE TABLE note(row INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

    let folder: TemporaryFolder
    let store: HandlerStore
    let offline: OfflineAccount
    let clock = Clock()

    final class Clock: Sendable {
        private let value = Atomic<Int64>(1000)
        var now: Int64 {
            get { value.load(ordering: .relaxed) }
            set { value.store(newValue, ordering: .relaxed) }
        }
    }

    init(
        handlers: [any Handler.Type] = RefreshAccount.handlers, modules: [any AccountModule] = []
    ) throws {
        folder = try TemporaryFolder()
        let clock = clock
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(handlers),
            schemas: Account.schemas + OmemoService.schemas + [Self.notes],
            time: TimeSource(wall: { Timestamp(milliseconds: clock.now) }))
        var configuration = AccountConfiguration(jid: try JID("alice@example.test"), password: "unused")
        configuration.modules = modules
        offline = try OfflineAccount(configuration, store: store)
    }

    var account: Account { offline.account }

    func close() async { await offline.close() }

    // MARK: What arrives

    func receive(_ xml: String) throws { try offline.receive(xml) }

    func expire(_ id: String) throws { try #require(try offline.expire(requestID: id)) }

    /// Loses the session in which the request was sent.
    func lose(_ id: String) throws { try #require(try offline.invalidate(requestID: id)) }

    // MARK: What is there

    /// A user's devices as stored: number, listed or not, first seen, last seen, removed; nil when nothing is known.
    func devices(of jid: String, _ version: OmemoVersion = .omemo2) throws -> [String]? {
        try store.step { step in
            try account.omemo.deviceLists.devices(of: JID(jid), version, in: step)?.map { known in
                "\(known.device.id) \(known.firstSeen.milliseconds) \(known.lastSeen.milliseconds) \(known.removedAt.map { String($0.milliseconds) } ?? "listed")"
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
