import AccountTestSupport
import Dispatch
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// What others, or a program's own handlers, could do to bring an account to a stop.
@Suite(.ownThread, .timeLimit(.minutes(2)))
struct AccountHostileTests {
    /// Invalidates another request from within an invalidation.
    struct Sibling: Handler {
        static let id = "hostile.sibling"
        let other: Int64
        func run(_ call: borrowing Call<Invalidation>) throws {
            try call.step.invalidate(AnyHandlerID(rawValue: other), reason: .cancelled)
        }
    }

    /// Asks again whenever it is told that there will be no answer.
    struct Again: Handler {
        static let id = "hostile.again"
        func run(_ call: borrowing Call<Invalidation>) throws {
            try AccountHostileTests.askAgain(call.context.account, in: call.step)
        }
    }

    static func askAgain(_ account: Account, in step: borrowing Step) throws {
        let payload = Element("question", namespace: TestApp.namespace, attributes: ["want": "silence"])
        let iq = IQ(type: .get, to: AccountRig.peer, id: "again", payload: payload)
        try account.send(
            .iq(iq), then: TestApp.Answered(name: "again").durable, orElse: Again().durable, in: step)
    }

    private func store(_ rig: AccountRig) throws -> HandlerStore {
        let registry = TestApp.registry
        registry.register(Sibling.self)
        registry.register(Again.self)
        return try HandlerStore(
            path: rig.databasePath, registry: registry, schemas: Account.coreSchemas + [TestApp.schema],
            synchronous: .normal)
    }

    @Test("Q3 an invalidation that ends another request of the same lost session does not stop the account")
    func sibling() async throws {
        try await withRig { rig in
            let account = try await rig.connected(store: store(rig))
            try await account.perform { step in
                let question = rig.question("q2", want: "silence")
                let first = try account.send(
                    request: question, then: TestApp.Answered(name: "q2").durable, in: step)
                // They end in the order in which they were bound, and the second one ends the third.
                try account.send(
                    .iq(rig.question("q1", want: "silence")), then: TestApp.Answered(name: "q1").durable,
                    orElse: Sibling(other: first.rawValue + 2).durable, in: step)
                try account.send(
                    .iq(rig.question("q3", want: "silence")), then: TestApp.Answered(name: "q3").durable,
                    in: step)
            }
            try await account.caughtUp()
            rig.server.expireSessions()
            try await eventually { try account.store.waitingHandlers == 0 }
            #expect(try account.store.number("SELECT count(*) FROM ending WHERE outcome = 4") == 3)
        }
    }

    @Test("Q3 logging out ends although an invalidation asks again; what it asks belongs to the next login")
    func askedAgainAtLogout() async throws {
        try await withRig { rig in
            let account = try await rig.connected(store: store(rig))
            try await account.perform { step in try Self.askAgain(account, in: step) }
            try await account.caughtUp()
            try await account.logOut()
            #expect(try account.store.number("SELECT count(*) FROM ending") == 1)
            #expect(try account.store.number("SELECT count(*) FROM request") == 1)
        }
    }

    @Test("H13 a command that leaves a foreign key nowhere fails alone, not what shares its commit")
    func groupPoison() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let handler = try await account.perform { step in
                try account.send(
                    request: rig.question("q1", want: "silence"),
                    then: TestApp.Answered(name: "q1").durable, in: step)
            }
            // Behind the account's back: the request stays and leads to no handler.
            let error = await errorOf {
                try await account.perform { step in
                    _ = try step.invalidate(handler, reason: .cancelled)
                }
            }
            #expect(error is HandlerError, "\(String(describing: error))")
            #expect(await errorOf { try await account.tell("m1") } == nil)
            #expect(rig.server.log.entries.allSatisfy { $0.event != .disconnected })
        }
    }

    @Test("W4 an owner that answers keeps the stream although the file of its lock is gone", .sqliteOnly)
    func freeLock() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            try FileManager.default.removeItem(atPath: rig.databasePath + "-owners")
            let worker = try rig.account { $0.role = .worker }
            let error = await errorOf { try await worker.connect() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            #expect(await errorOf { try await main.tell("m1") } == nil)
        }
    }

    @Test("W4 a main program that is busy for longer than the silence of a frozen one keeps the stream")
    func longStep() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            let worker = try rig.account { $0.role = .worker }
            let (inside, go) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            async let slow: Void = main.perform { _ in
                inside.signal()
                go.wait()
            }
            try await onThread { inside.wait() }
            // Its step cannot end before the worker has been answered.
            let error = await errorOf { try await worker.connect() } as? AccountError
            go.signal()
            try await slow
            #expect(error?.code == .ownershipHeld)
            #expect(await errorOf { try await main.tell("m1") } == nil)
        }
    }

    @Test("H16 an hour of being frozen is no connected time, also when the connection died meanwhile")
    func frozenHour() async throws {
        let offset = Kept<Int64>(0)
        try await withRig { rig in
            let time = TimeSource(monotonic: {
                TimeSource.systemMonotonic() + .milliseconds(offset.withLock { $0 })
            })
            let account = try await rig.connected { $0.time = time }
            try await account.caughtUp()
            rig.server.freezeWrites()
            try await account.ask(rig.question("q1"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            offset.withLock { $0 += 3_600_000 }
            rig.server.dropConnections()
            try await eventually { try account.store.waitingHandlers == 0 }
            #expect(try account.store.notes("ended") == ["q1: result answer from peer@localhost/bot"])
        }
    }

    @Test("Q3 a canceled request that was not yet written is never sent")
    func cancelledUnsent() async throws {
        try await withRig { rig in
            let account = try rig.account()
            try await account.ask(rig.question("q1"))
            try await account.perform { step in _ = try account.cancelRequest(id: "q1", in: step) }
            try await account.connect()
            try await account.caughtUp()
            #expect(!rig.server.log.entries.contains { $0.event == .received && $0.id == "q1" })
        }
    }

    @Test("X16 a configuration in words has no password")
    func password() async throws {
        try await withRig { rig in
            let configuration = rig.configuration()
            var dumped = ""
            dump(configuration, to: &dumped)
            #expect(!"\(configuration) \(String(reflecting: configuration)) \(dumped)".contains("secret"))
        }
    }
}
