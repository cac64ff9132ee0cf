import AccountTestSupport
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

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
        "W3 an account that is closed begins nothing more of what it has read, and the next one gets the rest, each once"
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
}
