import AccountTestSupport
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Giving the stream up in the middle of much work.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountLeavingTests {
    /// Takes longer than a step may, until it is told to be quick.
    struct Slow: Handler {
        static let id = "test.slow"
        static let isQuick = Kept(false)
        func run(_ call: borrowing Call<MessageReceived>) throws {
            if !Self.isQuick.withLock({ $0 }) { usleep(250_000) }
            try call.step.execute("INSERT INTO slow(stanza_id) VALUES (?)", call.message.id ?? "")
        }
    }

    private static let schema = Schema(
        module: "slow", migrations: ["CREATE TABLE slow(row INTEGER PRIMARY KEY, stanza_id TEXT NOT NULL)"],
        handlers: [Slow.self])

    private func stored(_ store: HandlerStore) throws -> [String] {
        try store.texts("SELECT stanza_id FROM slow ORDER BY row")
    }

    @Test(
        "W3 an account that is closed starts nothing more of what it has read, and the next one gets the rest, each once"
    )
    func closing() async throws {
        try await withRig { rig in
            func makeAccount() async throws -> Account {
                let store = try HandlerStore(
                    path: rig.databasePath, registry: TestApp.registry,
                    schemas: Account.coreSchemas + [TestApp.schema, Self.schema], synchronous: .normal)
                let account = try rig.account(store: store)
                try await account.listen(as: "slow", Slow().durable)
                return account
            }
            let first = try await makeAccount()
            try await first.connect()
            try await first.suspend()
            let ids = (1...120).map { "m\($0)" }
            for id in ids { rig.bot.send(rig.messageToAlice(id, "waits")) }
            try await first.connect()
            try await eventually { try !stored(first.store).isEmpty }
            // All of them came in one piece: without being asked it would go on to the last, for half a minute.
            await first.close()
            let before = try stored(first.store)
            #expect(before.count < ids.count / 2, "it did all the same work before it let go")
            Slow.isQuick.withLock { $0 = true }
            let second = try await makeAccount()
            try await second.connect()
            try await second.caughtUp()
            #expect(try stored(second.store) == ids)
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
        }
    }

    /// Waits in the handler of the message "m1"; once its step is committed, another process locks the store.
    struct LockedAfter: Handler {
        static let id = "test.locked-after"
        static let (isRunning, mayCommit, isLocked, mayUnlock) =
            (DispatchGate(), DispatchGate(), DispatchGate(), DispatchGate())
        func run(_ call: borrowing Call<MessageReceived>) throws {
            try call.step.execute("INSERT INTO slow(stanza_id) VALUES (?)", call.message.id ?? "")
            guard call.message.id == "m1" else { return }
            Self.isRunning.open()
            Self.mayCommit.wait()
            // Longer than a step may take: the rest of what was read waits for the next one.
            usleep(50_000)
            call.step.afterCommit { Self.isLocked.wait() }
        }
    }

    @Test(
        "S5 a stream that stopped reading for a log-out is ended when the log-out fails, and the next one gets the rest"
    )
    func failedLogOut() async throws {
        try await withRig { rig in
            let schema = Schema(
                module: "slow", migrations: Self.schema.migrations, handlers: [LockedAfter.self])
            func store() throws -> HandlerStore {
                try HandlerStore(
                    path: rig.databasePath, registry: TestApp.registry,
                    schemas: Account.coreSchemas + [TestApp.schema, schema], synchronous: .normal,
                    busyTimeout: .milliseconds(30))
            }
            // Without a keep-alive nothing else ends the stream.
            let account = try rig.account(store: store()) { $0.keepAlive = nil }
            let other = try store()
            try await account.listen(as: "slow", LockedAfter().durable)
            try await account.connect()
            try await account.suspend()
            for id in ["m1", "m2"] { rig.bot.send(rig.messageToAlice(id, "waits")) }
            let events = EventReader(account)
            try await account.connect()
            try await onThread { LockedAfter.isRunning.wait() }
            async let refused = errorOf { try await account.logOut() } as? HandlerError
            try await eventually { account.mailbox.isLeaving }
            async let writer: Void = onThread {
                LockedAfter.mayCommit.open()
                while true {
                    do {
                        return try other.step { _ in
                            LockedAfter.isLocked.open()
                            LockedAfter.mayUnlock.wait()
                        }
                    } catch let error as HandlerError where error.code == .databaseLocked {}
                }
            }
            #expect(await refused?.code == .databaseLocked)
            await events.until("suspended")
            LockedAfter.mayUnlock.open()
            try await writer
            await events.until("resumed")
            try await account.caughtUp()
            #expect(try stored(account.store) == ["m1", "m2"])
        }
    }
}
