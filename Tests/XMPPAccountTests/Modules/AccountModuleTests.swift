import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// What modules are shown, when, and in which order.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountModuleTests {
    /// Notes everything that happens to it.
    private struct Base: AccountModule {
        static let name = "base"
        func register(in hooks: inout ModuleHooks) {
            hooks.startsBeforePresence = true
            hooks.reset = reset
            hooks.start = start
            hooks.extendPresence = extend
        }
        func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            try TestApp.note("module", "base", "reset \(scope)", in: step)
        }
        func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            try TestApp.note("module", "base", "begin \(scope)", in: step)
        }
        func extend(_ presence: inout Element, of account: Account, in step: borrowing Step) throws {
            presence.append(Element("mark", namespace: TestApp.namespace))
        }
    }

    private struct Upper: AccountModule {
        static let name = "upper"
        func register(in hooks: inout ModuleHooks) {
            hooks.dependencies = [Base.self]
            hooks.reset = reset
            hooks.start = start
            hooks.unwrap = unwrap
            hooks.receiveMessage = receive(_:in:)
            hooks.receivePresence = receive(_:for:in:)
            hooks.answer = answer
            hooks.stop = stop
        }
        let stopped = Kept(false)
        func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            try TestApp.note("module", "upper", "reset \(scope)", in: step)
        }
        func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            try TestApp.note("module", "upper", "begin \(scope)", in: step)
        }
        func unwrap(
            _ message: Message, for account: Account, in step: borrowing Step
        ) throws -> UnwrappedMessage {
            guard let inner = message.element.child("message", Namespaces.client) else { return .untouched }
            guard message.from?.bare == account.configuration.jid else {
                return .refused("a stranger's wrapper")
            }
            return .message(try Message(element: inner), .carbonReceived)
        }
        func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
            try TestApp.note("module", "upper", "message \(message.message.body ?? "-")", in: step)
            if message.message.body == "fail" { throw TestApp.Refusal() }
            return message.message.body == "mine"
        }
        func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {
            try TestApp.note("presence", "upper", presence.type?.rawValue ?? "available", in: step)
        }
        func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer? {
            switch request.payload?["want"] {
            case "module": return .result(Element("from-module", namespace: TestApp.namespace))
            case "refusal": return .error(StanzaError(.forbidden))
            case "failure": throw TestApp.Refusal()
            default: return nil
            }
        }
        func stop(_ account: Account) { stopped.withLock { $0 = true } }
    }

    private func notes(_ account: Account, _ what: String = "module") throws -> [String] {
        try account.store.notes(what)
    }

    @Test(
        "X9 modules start in order of dependency, around the presence, and are reset by scope in the other order"
    )
    func lives() async throws {
        try await withRig { rig in
            let upper = Upper()
            let account = try await rig.connected { $0.modules = [upper, Base()] }
            let events = EventReader(account)
            try await account.caughtUp()
            #expect(
                try notes(account) == [
                    "upper: reset session", "base: reset session", "base: begin session",
                    "upper: begin session",
                ])
            let presence = rig.server.log.entries.first { $0.event == .received && $0.name == "presence" }
            #expect(presence?.xml?.contains("<mark") == true)
            rig.server.dropConnections()
            await events.until("resumed")
            #expect(
                try notes(account).suffix(4) == [
                    "upper: reset stream", "base: reset stream", "base: begin stream", "upper: begin stream",
                ])
            #expect(!upper.stopped.withLock { $0 })
            await account.close()
            #expect(upper.stopped.withLock { $0 })
        }
    }

    @Test(
        "X9 a message is unwrapped, shown to modules and then to listeners; one that a module takes is its own"
    )
    func messages() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Upper(), Base()] }
            let events = EventReader(account)
            try await account.listen()
            let inner = Message(to: AccountRig.alice, from: AccountRig.peer, id: "i1", body: "inner").element
            // Only the account itself may wrap; the scripted peer is a stranger.
            rig.bot.send(Message(to: AccountRig.alice, id: "w1", children: [inner]).element)
            rig.bot.send(rig.messageToAlice("m1", "mine"))
            rig.bot.send(rig.messageToAlice("m2", "fail"))
            rig.bot.send(rig.messageToAlice("m3", "hello"))
            try await account.caughtUp()
            #expect(try notes(account, "message") == ["m2: fail", "m3: hello"])
            #expect(
                try notes(account).suffix(2) == ["upper: message mine", "upper: message hello"],
                "what the failing module wrote is undone")
            // In either order: they may have come in different steps.
            await events.until("moduleFailed upper")
            if !events.seen.contains("ignored") { await events.until("ignored") }
        }
    }

    @Test("X9 a module answers requests once; one that fails answers with an error")
    func requests() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Upper(), Base()] }
            try await account.caughtUp()
            let own = try #require(rig.server.log.entries.first { $0.event == .bound }?.jid)
            for want in ["module", "refusal", "failure", "else"] {
                let question = rig.question(want, want: want, to: own)
                rig.bot.send(question.element)
            }
            let expected = [
                "module": "from-module", "refusal": "forbidden", "failure": "internal-server-error",
                "else": "service-unavailable",
            ]
            for (id, content) in expected {
                try await rig.saw { $0.event == .received && $0.id == id }
                #expect(rig.xml(ofID: id).count == 1)
                #expect(rig.xml(ofID: id).first?.contains(content) == true, "\(id)")
            }
        }
    }

    @Test("X9 a process without a module that the account was used with is refused, until that is retired")
    func missingModule() async throws {
        try await withRig { rig in
            let store = try rig.store()
            let first = try rig.account(store: store) { $0.modules = [Base()] }
            await first.close()
            let error = await errorOf { _ = try rig.account(store: store) } as? AccountError
            #expect(error?.code == .missingModule)
            #expect(error?.message.contains("'base'") == true)
            _ = try rig.account(store: store) { $0.retiredModules = ["base"] }
            _ = try rig.account(store: store)
        }
    }

    @Test("X9 a module that lacks another, is there twice, or depends on itself is refused with its name")
    func badLists() async throws {
        try await withRig { rig in
            let lacking = await errorOf { _ = try rig.account { $0.modules = [Upper()] } } as? AccountError
            #expect(lacking?.message.contains("'upper' needs the module 'base'") == true)
            let twice =
                await errorOf { _ = try rig.account { $0.modules = [Base(), Base()] } } as? AccountError
            #expect(twice?.message.contains("'base' is configured twice") == true)
            let circle =
                await errorOf { _ = try rig.account { $0.modules = [Hen(), Egg()] } } as? AccountError
            #expect(circle?.message.contains("in a circle") == true)
            let account = try rig.account()
            let missing = await errorOf { _ = try account.module(Base.self) } as? AccountError
            #expect(missing?.code == .missingModule)
        }
    }

    /// Asks something when a session starts.
    private struct Asking: AccountModule {
        static let name = "asking"
        func register(in hooks: inout ModuleHooks) {
            hooks.start = start
        }
        func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
            for number in 0..<2 {
                let question = Element("question", namespace: TestApp.namespace)
                try account.send(
                    .iq(IQ(type: .get, to: AccountRig.peer, id: "begin-\(number)", payload: question)),
                    then: TestApp.Answered(name: "begin-\(number)").durable, in: step)
            }
        }
    }

    @Test("X9 a full outbox keeps the program from sending and not the modules from starting a session")
    func fullOutbox() async throws {
        try await withRig { rig in
            let account = try rig.account {
                $0.modules = [Asking()]
                $0.maximumOutbox = 3
            }
            let events = EventReader(account)
            for number in 0..<3 { try await account.tell("m\(number)") }
            let error = await errorOf { try await account.tell("m3") } as? AccountError
            #expect(error?.code == .outboxFull)
            try await account.connect()
            await events.until("bound")
            try await account.caughtUp()
            try await account.caughtUp()
            #expect(rig.sent().contains("iq begin-0") && rig.sent().contains("iq begin-1"))
            #expect(!events.seen.contains { $0.hasPrefix("moduleFailed") })
        }
    }

    private struct Hen: AccountModule {
        static let name = "hen"
        func register(in hooks: inout ModuleHooks) {
            hooks.dependencies = [Egg.self]
        }

    }

    private struct Egg: AccountModule {
        static let name = "egg"
        func register(in hooks: inout ModuleHooks) {
            hooks.dependencies = [Hen.self]
        }

    }
}
