import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// A program that starts before its server, its network or its account can be reached.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountStartTests {
    /// Notes that it was called.
    struct Chime: Handler {
        static let id = "test.start-chime"
        var name: String
        func run(_ call: borrowing Call<TimerFired>) throws {
            try TestApp.note("chime", name, "", in: call.step)
        }
    }

    /// Fails for good; what runs then says in whose service.
    struct Broken: Handler {
        static let id = "test.start-broken"
        static let retry = RetryPolicy(attempts: 1, finally: .orElse)
        func run(_ call: borrowing Call<TimerFired>) throws {
            throw AccountError(.closed, "\(try call.account.configuration.jid) is broken")
        }
    }

    struct Replacement: Handler {
        static let id = "test.start-replacement"
        func run(_ call: borrowing Call<Invalidation>) throws {
            try TestApp.note(
                "chime", try call.account.configuration.jid.description, call.reason.rawValue, in: call.step)
        }
    }

    private func store(_ rig: AccountRig) throws -> HandlerStore {
        try HandlerStore(
            path: rig.databasePath,
            registry: HandlerRegistry([Chime.self, Broken.self, Replacement.self, TestApp.Received.self]),
            schemas: Account.coreSchemas + [TestApp.schema], synchronous: .normal)
    }

    private func schedule(_ name: String, _ account: Account) throws {
        try account.store.step { step in
            _ = try step.schedule(Chime(name: name).durable, after: .zero, in: account.scope)
        }
    }

    @Test("X21 timers run from the start on, connected or not; a program that only looks runs none")
    func start() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try rig.account(store: store(rig))
            try schedule("one", account)
            try await account.perform { _ in }
            #expect(try !account.canResume())
            #expect(try account.store.notes("chime") == [])
            try account.start()
            try await eventually { try account.store.notes("chime") == ["one: "] }
            // A second start changes nothing.
            try account.start()
            try schedule("two", account)
            try await eventually { try account.store.notes("chime") == ["one: ", "two: "] }
            #expect(!rig.server.log.entries.contains { $0.event == .connected })
            await account.close()
            #expect((await errorOf { try account.start() } as? HandlerError)?.code == .runnerClosed)
        }
    }

    @Test(
        "H30 an account logs a final failure, reports it to its runner's configuration, and calls the invalidation handler"
    )
    func finalFailure() async throws {
        try await withRig(reconnects: false) { rig in
            let (lines, errors) = (Kept<[String]>([]), Kept<[String]>([]))
            let account = try rig.account(store: store(rig)) {
                $0.log = AccountLog(level: .error) { entry in lines.withLock { $0.append("\(entry)") } }
                $0.runner = .init(leases: 2) { error in errors.withLock { $0.append("\(error)") } }
            }
            try account.store.step { step in
                _ = try step.schedule(
                    Broken().durable.orElse(Replacement().durable), after: .zero, in: account.scope)
            }
            try account.start()
            try await eventually { try account.store.notes("chime") == ["\(AccountRig.alice): failed"] }
            let line = "the handler 'test.start-broken' (row 1) failed for good after 1 run, 0 deaths: "
            try await eventually { lines.withLock { $0.count } == 1 && errors.withLock { $0.count } == 1 }
            #expect(lines.withLock { $0[0] }.hasPrefix("error handlers \(AccountRig.alice): \(line)"))
            #expect(errors.withLock { $0[0] }.hasPrefix(line))
            #expect(await account.close(finishing: .seconds(5)))
        }
    }

    @Test("X21 a first connection that fails is reported at once, and handlers run all the same")
    func firstFailure() async throws {
        try await withRig(reconnects: false) { rig in
            rig.server.refuseConnections()
            let account = try rig.account(store: store(rig))
            try schedule("one", account)
            #expect(await errorOf { try await account.connect() } != nil)
            try await eventually { try account.store.notes("chime") == ["one: "] }
            rig.server.refuseConnections(false)
            try await account.connect()
        }
    }

    @Test(
        "X21 a start without a server is survived: timers run, each attempt is an event, and one call connects"
    )
    func offline() async throws {
        try await withRig(clock: VirtualClock()) { rig in
            rig.server.refuseConnections()
            let account = try rig.account(store: store(rig))
            let events = EventReader(account)
            let connecting = Task { try await account.connect(retrying: true) }
            for _ in 0..<3 {
                guard case .retrying(let wait, _) = await events.until("retrying") else {
                    Issue.record("the account did not go on trying")
                    return
                }
                #expect(wait >= .milliseconds(125) && wait <= .seconds(1))
                rig.clock?.advance(by: wait)
            }
            try schedule("offline", account)
            try await eventually { try account.store.notes("chime") == ["offline: "] }
            #expect(events.seen.isEmpty)
            rig.server.refuseConnections(false)
            try await rig.turnUntil { rig.server.log.entries.contains { $0.event == .bound } }
            try await connecting.value
            await events.until("bound")
            #expect(events.seen == ["bound"])
            try await account.caughtUp()
        }
    }

    @Test("X21 while another process has the account, one that retries waits for it")
    func held() async throws {
        try await withRig(clock: VirtualClock()) { rig in
            let owner = try await rig.connected()
            let account = try rig.account()
            let events = EventReader(account)
            let connecting = Task { try await account.connect(retrying: true) }
            for _ in 0..<2 {
                guard case .retrying(let wait, let reason) = await events.until("retrying") else {
                    Issue.record("the account did not go on trying")
                    return
                }
                #expect((reason as? AccountError)?.code == .ownershipHeld)
                rig.clock?.advance(by: wait)
            }
            // Who wants to know at once is told at once, and does not end the waiting.
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            try await owner.caughtUp()
            await owner.close()
            try await rig.turnUntil { rig.server.log.entries.contains { $0.event == .resumed } }
            try await connecting.value
            try await account.caughtUp()
        }
    }

    @Test(
        "X21 retrying ends with the reason when the server refuses the password, and when the program ends it"
    )
    func ended() async throws {
        try await withRig(clock: VirtualClock()) { rig in
            let wrong = try rig.account { $0.password = "wrong" }
            let events = EventReader(wrong)
            let error = await errorOf { try await wrong.connect(retrying: true) } as? AccountError
            #expect(error?.code == .notAuthorized)
            await events.until("stopped")
            #expect(events.seen == ["stopped not-authorized"])
            await rig.closeAccounts()

            rig.server.refuseConnections()
            let account = try rig.account()
            let others = EventReader(account)
            let connecting = Task { try await account.connect(retrying: true) }
            await others.until("retrying")
            try await account.suspend()
            #expect((await errorOf { try await connecting.value } as? AccountError)?.code == .closed)
            // What was given back another process can have.
            rig.server.refuseConnections(false)
            _ = try await rig.connected()
        }
    }
}
