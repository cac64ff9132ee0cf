import Handlers
import HandlersTestKit
import TestThreads
import Testing

@testable import XMPPAccount

/// Epochs, without lock file, socket and second process.
@Suite("The epoch of an account", .ownThread) struct OwnershipTableTests {
    static let table = OwnershipTable(account: 1)

    @Test("W4 each takeover raises the epoch, and only the last owner passes the fence") func fence()
        async throws
    {
        try await OutboxTests.withStep { step in
            let first = try Self.table.takeOver(owner: "main", slot: 0, past: nil, in: step)
            try Self.table.check(epoch: first, in: step)
            let second = try Self.table.takeOver(owner: "worker", slot: 0, past: nil, in: step)
            #expect(second == first + 1)
            try Self.table.check(epoch: second, in: step)
            checkStep(Self.isFenced(first, in: step))
        }
    }

    @Test("W4 giving back keeps the epoch: an owner before it stays fenced, the last one may go on")
    func release() async throws {
        try await OutboxTests.withStep { step in
            let first = try Self.table.takeOver(owner: "main", slot: 0, past: nil, in: step)
            let second = try Self.table.takeOver(owner: "worker", slot: 0, past: nil, in: step)
            try Self.table.release(epoch: first, in: step)
            checkStep(try Self.owner(in: step) == "worker")
            try Self.table.release(epoch: second, in: step)
            checkStep(try Self.owner(in: step) == nil)
            checkStep(Self.isFenced(first, in: step))
            checkStep(!Self.isFenced(second, in: step))
        }
    }

    @Test("W4 a takeover ends the open stream of the owner before") func endsStream() async throws {
        try await OutboxTests.withStep { step in
            let sessions = SessionTable(account: 1)
            try sessions.start(SessionTableTests.bound(), in: step)
            _ = try Self.table.takeOver(owner: "worker", slot: 0, past: nil, in: step)
            checkStep(try sessions.openNumber(in: step) == nil)
        }
    }

    @Test("W4 an epoch that a restored database has forgotten is not given out again") func restored()
        async throws
    {
        try await OutboxTests.withStep { step in
            let epoch = try Self.table.takeOver(
                owner: "main", slot: 0, past: SentProgress(epoch: 41), in: step)
            #expect(epoch == 42)
        }
    }

    @Test(
        "X18 an epoch that no program can have counted to is refused as damage", arguments: [Int64(-1), .max])
    func damaged(epoch: Int64) async throws {
        try await OutboxTests.withStep { step in
            _ = try Self.table.takeOver(owner: "main", slot: 0, past: nil, in: step)
            try step.execute("UPDATE ownership SET epoch = ? WHERE account = 1", epoch)
            var error: HandlerError?
            do throws(HandlerError) { _ = try Self.table.epoch(in: step) } catch let found { error = found }
            #expect(error?.code == .databaseCorrupt)
        }
    }

    @Test("W4 the only step for a stream runs nothing once another process has taken over") func ownerStep()
        async throws
    {
        try await withTestStore(registry: HandlerRegistry([]), schemas: Account.coreSchemas) { test in
            let epoch = try test.store.step { step in
                try step.execute("INSERT INTO account(id, jid) VALUES (1, 'a@b')")
                return try Self.table.takeOver(owner: "main", slot: 0, past: nil, in: step)
            }
            let owner = OwnerStep(store: test.store, table: Self.table, epoch: epoch)
            #expect(try owner.run { _ in 7 } == 7)
            _ = try test.store.step { try Self.table.takeOver(owner: "other", slot: 0, past: nil, in: $0) }
            var hasRun = false
            do {
                try owner.run { _ in hasRun = true }
                Issue.record("the step of a stale owner ran")
            } catch let error as AccountError {
                #expect(error.code == .ownershipLost)
            }
            #expect(!hasRun)
        }
    }

    private static func isFenced(_ epoch: Int64, in step: borrowing Step) -> Bool {
        do {
            try table.check(epoch: epoch, in: step)
            return false
        } catch {
            return (error as? AccountError)?.code == .ownershipLost
        }
    }

    private static func owner(in step: borrowing Step) throws -> String? {
        try step.first("SELECT owner FROM ownership WHERE account = 1") { (row) throws(HandlerError) in
            row.optionalText(0)
        } ?? nil
    }
}
