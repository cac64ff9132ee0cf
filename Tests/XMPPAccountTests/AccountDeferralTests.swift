import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Handlers that leave what they are called with to be handled later.
enum DeferralApp {
    static let handlers: [any DurableHandler.Type] = [Answered.self, Asked.self, Seen.self]

    /// Notes an answer and defers it, unless its request's id says "now"; "throw" defers it and throws, and "undone" asks for
    /// it in a part that is undone.
    struct Answered: Handler {
        static let id = "deferral.answered"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<IQReply>) throws {
            let id = call.iq.id.string
            try TestApp.note("answer", id, call.iq.type.rawValue, in: call.step)
            guard id != "now" else { return }
            let stanza = try call.context.deferAcknowledgement(in: call.step)
            try keep(stanza, id, in: call.step)
            if id == "throw" { throw TestApp.Refusal() }
        }
    }

    /// Notes a request and leaves it to be handled and answered later; "reply" answers it first.
    struct Asked: Handler {
        static let id = "deferral.asked"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<IQRequest>) throws {
            let id = call.iq.id.string
            try TestApp.note("request", id, "asked", in: call.step)
            if id == "reply" { try call.context.reply(in: call.step) }
            try keep(try call.context.deferAcknowledgement(in: call.step), id, in: call.step)
        }
    }

    /// Notes presence, and leaves what has the status "later" to be handled later.
    struct Seen: Handler {
        static let id = "deferral.seen"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<PresenceReceived>) throws {
            let status = call.presence.element.child("status", Namespaces.client)?.text ?? "-"
            guard status != "-" else { return }
            try TestApp.note("presence", status, call.presence.type?.rawValue ?? "available", in: call.step)
            guard status == "later" else { return }
            try keep(try call.context.deferAcknowledgement(in: call.step), "later", in: call.step)
        }
    }

    private static func keep(_ stanza: DeferredStanza, _ name: String, in step: borrowing Step) throws {
        let text = String(decoding: try JSONEncoder().encode(stanza), as: UTF8.self)
        try TestApp.note("receipt", name, text, in: step)
    }
}

/// Every kind of stanza can be handled later than the step that takes it in.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountDeferralTests {
    private func withAccount(
        clock: VirtualClock? = nil, modules: [any AccountModule] = [],
        _ body: (AccountRig, Account) async throws -> Void
    ) async throws {
        try await withRig(
            handlers: DeferralApp.handlers, clock: clock, reconnects: false,
            { $0.behavior.requestsAcks = false }
        ) { rig in
            let account = try await rig.connected { $0.modules = modules }
            try await account.listenToPresence(as: "test", DeferralApp.Seen().durable)
            try await account.answer("question", in: TestApp.namespace, with: DeferralApp.Asked().durable)
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
            try await body(rig, account)
        }
    }

    private func receipt(_ id: String, _ store: HandlerStore) throws -> DeferredStanza {
        let note = try #require(try store.notes("receipt").last { $0.hasPrefix(id + ": ") })
        return try JSONDecoder().decode(DeferredStanza.self, from: Data(note.dropFirst(id.count + 2).utf8))
    }

    private func ask(_ id: String, _ rig: AccountRig, _ account: Account, timeout: Duration? = nil)
        async throws
    {
        try await account.send(
            .iq(rig.question(id)), then: DeferralApp.Answered().durable,
            orElse: TestApp.Abandoned(name: id).durable, timeout: timeout)
    }

    /// The count that the server is told now, and how many stanzas have arrived.
    private func counts(_ rig: AccountRig, _ account: Account) async throws -> (told: Int64, arrived: Int64) {
        try await account.sendAcknowledgement()
        try await account.caughtUp()
        let told = rig.server.log.entries.last { $0.event == .received && $0.name == "a" }?.xml
            .flatMap { try? Element(parsing: $0) }?["h"]
        return (
            Int64(told?.string ?? "") ?? -1, try account.store.number("SELECT received FROM session")
        )
    }

    /// The endings of handlers with that name, in order.
    private func endings(_ name: String, _ store: HandlerStore) throws -> [String] {
        let sql =
            "SELECT outcome || ' ' || coalesce(reason, '-') FROM ending WHERE name = '\(name)' ORDER BY handler"
        return try store.texts(sql)
    }

    // MARK: Answers

    @Test(
        "S14 a deferred answer is delivered again until it is marked by any process; its handler ends then, once"
    )
    func answer() async throws {
        try await withAccount { rig, account in
            try await ask("q1", rig, account)
            try await ask("now", rig, account)
            try await eventually { try account.store.notes("answer").count == 2 }
            #expect(try endings("deferral.answered", account.store) == ["1 -"])
            let before = try await counts(rig, account)
            #expect(before.told == before.arrived - 2, "\(before)")
            await account.close()

            let second = try await rig.connected()
            try await second.caughtUp()
            #expect(try second.store.notes("answer") == ["q1: result", "now: result", "q1: result"])
            #expect(try second.store.number("SELECT count(*) FROM request") == 1)
            let other = try rig.account()
            let stanza = try receipt("q1", other.store)
            #expect(try await other.acknowledge(stanza))
            #expect(try await !other.acknowledge(stanza), "it was marked before")
            #expect(try endings("deferral.answered", second.store) == ["1 -", "1 -"])
            #expect(try second.store.number("SELECT count(*) FROM request") == 0)
            let after = try await counts(rig, second)
            #expect(after.told == after.arrived, "\(after)")
            try await second.suspend()
            try await second.connect()
            try await second.caughtUp()
            #expect(try second.store.notes("answer").count == 3)
            #expect(try second.store.waitingHandlers == 0)
            #expect(try second.store.unfinished == 0)
        }
    }

    @Test("S14 a deferred answer stops its request's time, and another answer to it is passed over")
    func answerInTime() async throws {
        let clock = VirtualClock()
        try await withAccount(clock: clock) { rig, account in
            try await ask("q1", rig, account, timeout: .seconds(5))
            try await eventually { try account.store.notes("answer").count == 1 }
            for _ in 0..<20 {
                try await account.caughtUp()
                clock.advance(by: .milliseconds(1000))
            }
            let own = try #require(rig.server.boundAddresses.last)
            rig.bot.send(IQ(type: .error, to: own, id: "q1", payload: StanzaError(.gone).element).element)
            rig.bot.send(rig.messageToAlice("behind", "it"))
            try await account.caughtUp()
            try await rig.expectAllCounted(account)
            #expect(try account.store.notes("answer") == ["q1: result"])
            #expect(try endings("deferral.answered", account.store).isEmpty)
            let stanza = try receipt("q1", account.store)
            #expect(try await account.acknowledge(stanza))
            #expect(try endings("deferral.answered", account.store) == ["1 -"])
        }
    }

    @Test("S14 the handler of a deferred answer whose session is lost is invalidated, once")
    func answerOfLostSession() async throws {
        try await withAccount { rig, account in
            let events = EventReader(account)
            try await ask("q1", rig, account)
            try await eventually { try account.store.notes("answer").count == 1 }
            let stanza = try receipt("q1", account.store)
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("bound")
            try await eventually { try account.store.waitingHandlers == 0 }
            #expect(try account.store.notes("abandoned") == ["q1: session-lost"])
            #expect(try endings("deferral.answered", account.store) == ["4 session-lost"])
            #expect(try await !account.acknowledge(stanza))
        }
    }

    @Test("S14 a handler that defers its answer and throws is quarantined, and the answer counts as handled")
    func answerThatThrows() async throws {
        try await withAccount { rig, account in
            try await ask("throw", rig, account)
            try await eventually { try account.store.unfinished == 1 }
            let after = try await counts(rig, account)
            #expect(after.told == after.arrived, "\(after)")
            #expect(try account.store.number("SELECT count(*) FROM request") == 0)
            #expect(try account.store.number("SELECT count(*) FROM deferred") == 0)
        }
    }

    // MARK: Requests

    @Test("S14 a deferred request is delivered again without a conflict, and its answer marks it")
    func request() async throws {
        let answers = Kept<[String]>([])
        try await withAccount { rig, account in
            let asker = rig.server.addBot(jid: try JID("asker@localhost/bot")) { stanza, _ in
                let error = stanza.child("error", Namespaces.client).flatMap { StanzaError($0) }
                answers.withLock {
                    $0.append("\(stanza["id"] ?? "-") \(error?.condition.rawValue ?? "answered")")
                }
            }
            let own = try #require(rig.server.boundAddresses.last)
            func send(_ id: String) {
                let payload = Element("question", namespace: TestApp.namespace)
                asker.send(IQ(type: .get, to: own, id: id, payload: payload).element)
            }
            send("a1")
            send("reply")
            try await eventually { try account.store.notes("request").count == 1 }
            try await eventually { answers.withLock { $0 } == ["reply internal-server-error"] }
            // Another request under the same id is none that comes again.
            send("a1")
            try await eventually { answers.withLock { $0 }.count == 2 }
            #expect(answers.withLock { $0 }.last == "a1 conflict")
            await account.close()

            let second = try await rig.connected()
            try await second.caughtUp()
            #expect(try second.store.notes("request") == ["a1: asked", "a1: asked"])
            #expect(answers.withLock { $0 }.count == 2)
            let held = try await counts(rig, second)
            #expect(held.told < held.arrived, "\(held)")
            let payload = Element("question", namespace: TestApp.namespace)
            let iq = IQ(type: .get, to: own, from: asker.jid, id: "a1", payload: payload)
            let asked = try IQRequest(restoring: Serializer().bytes(iq.element), in: second)
            try await second.perform { step in try asked.reply(in: step) }
            try await eventually { answers.withLock { $0 }.last == "a1 answered" }
            let after = try await counts(rig, second)
            #expect(after.told == after.arrived, "\(after)")
            let stanza = try receipt("a1", second.store)
            #expect(try await !second.acknowledge(stanza), "its answer has marked it")
        }
    }

    @Test("S14 a deferred request that nobody answers in time is answered with an error, and handled")
    func requestInTime() async throws {
        let clock = VirtualClock()
        let answers = Kept<[String]>([])
        try await withAccount(clock: clock) { rig, account in
            let asker = rig.server.addBot(jid: try JID("asker@localhost/bot")) { stanza, _ in
                answers.withLock { $0.append("\(stanza["id"] ?? "-") \(stanza["type"] ?? "-")") }
            }
            let own = try #require(rig.server.boundAddresses.last)
            let payload = Element("question", namespace: TestApp.namespace)
            asker.send(IQ(type: .get, to: own, id: "a1", payload: payload).element)
            try await eventually { try account.store.notes("request").count == 1 }
            while answers.withLock({ $0 }).isEmpty {
                try await account.caughtUp()
                clock.advance(by: .milliseconds(1000))
            }
            #expect(answers.withLock { $0 } == ["a1 error"])
            let after = try await counts(rig, account)
            #expect(after.told == after.arrived, "\(after)")
        }
    }

    // MARK: Presence

    /// Notes the presence of the account's desk.
    private struct Watching: AccountModule {
        static let name = "watching"
        func register(in hooks: inout ModuleHooks) {
            hooks.receivePresence = receive(_:for:in:)
        }
        func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {
            guard presence.from?.resource == "desk" else { return }
            try TestApp.note("watched", "desk", presence.type?.rawValue ?? "available", in: step)
        }
    }

    @Test(
        "S14 X24 presence has standing handlers; what one deferred comes again to them, and not to modules"
    )
    func presence() async throws {
        let modules: [any AccountModule] = [Watching()]
        try await withAccount(modules: modules) { rig, account in
            func show(_ status: String, _ type: Presence.Kind? = nil) {
                let child = Element("status", namespace: Namespaces.client, text: ForeignText(status))
                var presence = Presence(type: type).element
                presence.children.append(.element(child))
                presence["from"] = "alice@localhost/desk"
                presence["to"] = "alice@localhost"
                rig.server.send(presence, to: .everyone)
            }
            show("later")
            show("gone", .unavailable)
            try await eventually { try account.store.notes("presence").count == 2 }
            let held = try await counts(rig, account)
            #expect(held.told == held.arrived - 2, "\(held)")
            await account.close()

            let second = try await rig.connected { $0.modules = modules }
            try await second.caughtUp()
            #expect(
                try second.store.notes("presence") == [
                    "later: available", "gone: unavailable", "later: available",
                ])
            #expect(try second.store.notes("watched") == ["desk: available", "desk: unavailable"])
            let stanza = try receipt("later", second.store)
            #expect(try await second.acknowledge(stanza))
            let after = try await counts(rig, second)
            #expect(after.told == after.arrived, "\(after)")
            #expect(try await second.perform { try second.stopListeningToPresence(as: "test", in: $0) })
            show("unheard")
            try await second.caughtUp()
            #expect(try second.store.notes("presence").count == 3)
        }
    }
}
