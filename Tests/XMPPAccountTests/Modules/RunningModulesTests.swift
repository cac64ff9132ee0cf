import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Modules that come and go while the account runs.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RunningModulesTests {
    /// Notes its life.
    private struct Guest: AccountModule {
        static let name = "guest"
        func register(in hooks: inout ModuleHooks) {
            hooks.features = ["urn:guest"]
            hooks.reset = reset
            hooks.start = start
            hooks.end = end
            hooks.receiveMessage = receive(_:in:)
            hooks.stop = stop
        }
        var fails = false
        let stopped = Kept(0)

        private func note(_ what: String, in step: borrowing Step) throws {
            try TestApp.note("module", "guest", what, in: step)
        }
        func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            try note("reset \(scope)", in: step)
        }
        func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            try note("begin \(scope)", in: step)
        }
        func end(of account: Account, in step: borrowing Step) throws {
            try note("end", in: step)
            if fails { throw TestApp.Refusal() }
        }
        func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
            try note("message \(message.message.id ?? "-")", in: step)
            return true
        }
        func stop(_ account: Account) { stopped.withLock { $0 += 1 } }
    }

    /// Needs the guest.
    private struct Friend: AccountModule {
        static let name = "friend"
        func register(in hooks: inout ModuleHooks) {
            hooks.dependencies = [Guest.self]
        }

    }

    /// Has tables that the store does not have.
    private struct Tabled: AccountModule {
        static let name = "tabled"
        func register(in hooks: inout ModuleHooks) {
            hooks.schema = Self.schema
        }
        static let schema = Schema(module: "tabled", migrations: ["CREATE TABLE tabled(x TEXT)"])
    }

    /// Says in presence what all modules understand.
    private struct Announcing: AccountModule {
        static let name = "announcing"
        func register(in hooks: inout ModuleHooks) {
            hooks.extendPresence = extend
        }
        func extend(_ presence: inout Element, of account: Account, in step: borrowing Step) throws {
            let features = try account.features(in: step).sorted().joined(separator: " ")
            presence.append(
                Element("c", namespace: Namespaces.caps, attributes: ["ver": ForeignText(features)]))
        }
    }

    private func notes(_ account: Account) throws -> [String] {
        try account.store.notes("module").map { String($0.dropFirst("guest: ".count)) }
    }

    /// The presence that the server got, in order: whether each says that a guest is there.
    private func capabilities(_ rig: AccountRig) -> [String] {
        rig.server.log.entries.filter { $0.event == .received && $0.name == "presence" }.compactMap(\.xml)
            .compactMap { try? Element(parsing: $0, defaultNamespace: Namespaces.client) }
            .compactMap { $0.elements.first { $0.name == "c" }?["ver"]?.string }
    }

    @Test("X24 a module that is added starts at once in the session that is there, and takes what comes")
    func added() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Announcing()] }
            let events = EventReader(account)
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "one"))
            try await account.caughtUp()
            try await account.add(Guest())
            rig.bot.send(rig.messageToAlice("m2", "two"))
            try await account.caughtUp()
            #expect(try notes(account) == ["begin session", "message m2"])
            #expect(try account.store.notes("message") == ["m1: one"])
            #expect(Set(capabilities(rig)).count == 2, "others learn what the account understands now")
            rig.server.dropConnections()
            await events.until("resumed")
            try await account.caughtUp()
            #expect(try notes(account).suffix(2) == ["reset stream", "begin stream"])
            #expect(throws: Never.self) { try account.module(Guest.self) }
        }
    }

    @Test("X24 a module that is added without a stream starts when the session is resumed")
    func addedOffline() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected { $0.modules = [Announcing()] }
            let events = EventReader(account)
            try await account.caughtUp()
            try await account.suspend()
            try await account.add(Guest())
            #expect(try notes(account).isEmpty)
            try await account.connect()
            await events.until("resumed")
            try await account.caughtUp()
            #expect(try notes(account) == ["reset stream", "begin session"])
            try await account.suspend()
            try await account.connect()
            try await account.caughtUp()
            #expect(try notes(account).suffix(2) == ["reset stream", "begin stream"])
            #expect(Set(capabilities(rig)).count == 2)
        }
    }

    @Test("X24 a module that a new version of the program has starts in the session that it resumes")
    func newVersion() async throws {
        try await withRig(reconnects: false) { rig in
            let first = try await rig.connected { $0.modules = [Announcing()] }
            try await first.caughtUp()
            await first.close()
            let second = try rig.account { $0.modules = [Announcing(), Guest()] }
            let events = EventReader(second)
            try await second.connect()
            await events.until("resumed")
            try await second.caughtUp()
            #expect(try notes(second) == ["reset stream", "begin session"])
            await second.close()
            let third = try await rig.connected { $0.modules = [Announcing(), Guest()] }
            try await third.caughtUp()
            #expect(try notes(third).suffix(2) == ["reset stream", "begin stream"])
        }
    }

    @Test("X24 a module that is removed ends what it started, sees nothing any more, and is not missed later")
    func removed() async throws {
        try await withRig { rig in
            let guest = Guest()
            let store = try rig.store()
            let account = try await rig.connected(store: store) { $0.modules = [Announcing(), guest] }
            try await account.listen()
            try await account.caughtUp()
            try await account.remove(Guest.self)
            #expect(guest.stopped.withLock { $0 } == 1)
            rig.bot.send(rig.messageToAlice("m1", "one"))
            try await account.caughtUp()
            #expect(try notes(account).suffix(2) == ["end", "reset session"])
            #expect(try account.store.notes("message") == ["m1: one"])
            #expect(Set(capabilities(rig)).count == 2)
            let missing = await errorOf { try await account.remove(Guest.self) } as? AccountError
            #expect(missing?.code == .missingModule)
            await account.close()
            #expect(guest.stopped.withLock { $0 } == 1)
            _ = try rig.account(store: store) { $0.modules = [Announcing()] }
        }
    }

    @Test(
        "X24 what a module does in vain when it is removed is undone and reported, and it goes all the same")
    func failingEnd() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Guest(fails: true)] }
            let events = EventReader(account)
            try await account.caughtUp()
            try await account.remove(Guest.self)
            await events.until("moduleFailed guest")
            #expect(try notes(account).last == "reset session")
            #expect(try !notes(account).contains("end"))
        }
    }

    @Test("X24 what cannot be added or removed is refused with what to do, and changes nothing")
    func refused() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Guest(), Friend()] }
            let twice = await errorOf { try await account.add(Guest()) } as? AccountError
            #expect(twice?.message.contains("'guest' is configured twice") == true)
            let needed = await errorOf { try await account.remove(Guest.self) } as? AccountError
            #expect(needed?.message.contains("'friend' needs the module 'guest'; remove that one") == true)
            let tabled = await errorOf { try await account.add(Tabled()) } as? AccountError
            #expect(tabled?.code == .invalidConfiguration)
            #expect(tabled?.message.contains("'tabled'") == true)
            try await account.remove(Friend.self)
            try await account.remove(Guest.self)
            let without = await errorOf { try await account.add(Friend()) } as? AccountError
            #expect(without?.message.contains("needs the module 'guest'; add that too") == true)
            await account.close()
            let configured =
                await errorOf { _ = try rig.account { $0.modules = [Tabled()] } } as? AccountError
            #expect(configured?.message.contains("without the tables of the module 'tabled'") == true)
        }
    }
}
