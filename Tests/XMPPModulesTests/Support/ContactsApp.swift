import AccountTestSupport
import Handlers
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// The application of the tests of roster, blocking, push and vCards: its handlers note what they are called with.
enum ContactsApp {
    static let handlers: [any DurableHandler.Type] = [Decided.self, CardNoted.self, PushNoted.self]

    struct CardNoted: Handler {
        static let id = "test.card-noted"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<VCardFetch>) throws {
            let outcome =
                switch call.outcome {
                case .card(let card): "card \(card.name ?? "-")"
                case .none: "none"
                case .error(let error): "error \(error.condition)"
                case .timedOut: "timed out"
                }
            try TestApp.note("card", "\(call.context.jid)", outcome, in: call.step)
        }
    }

    struct PushNoted: Handler {
        static let id = "test.push-noted"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<PushAnswer>) throws {
            try TestApp.note("push", name, "\(call.outcome)", in: call.step)
        }
    }

    struct Decided: Handler {
        static let id = "test.decided"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<SubscriptionDecision>) throws {
            let outcome =
                switch call.outcome {
                case .approved: "approved"
                case .denied: "denied"
                case .failed(let error): "failed \(error.condition)"
                }
            try TestApp.note("decided", name, "\(outcome) by \(call.context.jid)", in: call.step)
        }
    }
}

extension AccountRig {
    /// An account with modules, connected and caught up.
    func connected(
        _ modules: [any AccountModule], store: HandlerStore? = nil,
        _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) async throws -> Account {
        let account = try await connected(store: store) {
            $0.modules = modules
            change(&$0)
        }
        try await account.caughtUp()
        return account
    }

    /// Lets the server answer requests with this payload; those that it gives no answer to are treated as usual.
    func serve(_ answer: @escaping @Sendable (IQ) -> Result<Element?, StanzaError>?) {
        server.setScript { element, _ in
            guard let iq = try? IQ(element: element), iq.type.isRequest,
                iq.to == nil || iq.to?.bare == Self.alice
            else { return .pass }
            switch answer(iq) {
            case nil: return .pass
            case .success(let payload): return .answer([iq.result(payload: payload)].compactMap(\.?.element))
            case .failure(let error): return .answer([iq.errorReply(error)].compactMap(\.?.element))
            }
        }
    }

    /// Puts a request on the account's connection, as its server would.
    func push(_ id: String, _ payload: Element, from sender: String? = nil) {
        var iq = IQ(type: .set, id: id, payload: payload).element
        iq["from"] = sender.map { ForeignText($0) }
        server.send(iq, to: .jid(Self.alice))
    }

    /// Puts presence on the account's connection.
    func show(_ type: Presence.Kind? = nil, from sender: String, _ children: [Element] = []) {
        var presence = Presence(type: type, children: children).element
        presence["from"] = ForeignText(sender)
        server.send(presence, to: .jid(Self.alice))
    }

    /// The requests with that payload that clients sent, as XML, in order.
    func requests(_ name: String, _ namespace: String, from index: Int = 0) throws -> [IQ] {
        try server.log.entries(from: index).filter { $0.event == .received && $0.name == "iq" }
            .compactMap(\.xml).map {
                try IQ(element: Element(parsing: $0, defaultNamespace: Namespaces.client))
            }
            .filter { $0.payload?.has(name: name, namespace: namespace) == true && $0.type.isRequest }
    }

    /// Loses the session with the connection: the server refuses to resume it.
    func loseSession(_ account: Account) async throws {
        let events = EventReader(account)
        server.refuseNextResumption()
        server.dropConnections()
        await events.until("bound")
        try await account.caughtUp()
    }

    /// Breaks the connection; the session is resumed.
    func resume(_ account: Account) async throws {
        let events = EventReader(account)
        server.dropConnections()
        await events.until("resumed")
        try await account.caughtUp()
    }

    /// The senders from whom a push must not be taken: only the own server sends without one or with the bare address.
    static let strangers = ["peer@localhost/bot", "peer@localhost", "localhost", "alice@localhost/other"]
}

/// What a module tells, one after the other.
final class ModuleReader<Event: ModuleEvent> {
    private var iterator: AsyncStream<Event>.Iterator

    init(_ account: Account, _ type: Event.Type = Event.self) {
        iterator = account.events(of: type).makeAsyncIterator()
    }

    func next() async -> Event? { await iterator.next() }
}
