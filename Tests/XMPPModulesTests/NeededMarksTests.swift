import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// Which marks of handled messages the modules need, as the same messages may come once more.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct NeededMarksTests {
    private static let at: Int64 = 1_700_000_000_000

    @Test(
        "X13 an archive in use needs the marks since its last message, all while it is fetched, and none after a refusal"
    )
    func archive() async throws {
        try await withModulesRig { rig in
            let account = try rig.account { $0.modules = [ArchiveModule()] }
            let module = try account.module(ArchiveModule.self)
            func needed() throws -> NeededMarks {
                try account.store.step { step in try module.neededMarks(of: account, in: step) }
            }
            #expect(try needed() == NeededMarks())
            try account.store.step { step in
                try step.execute(
                    """
                    INSERT INTO archive(account, jid, state, last_id, last_at)
                    VALUES (1, 'alice@localhost', 0, 'last', ?)
                    """, Self.at)
            }
            #expect(try needed() == NeededMarks(since: Timestamp(milliseconds: Self.at - 120_000)))
            try account.store.change("UPDATE archive SET failure = 'forbidden'")
            #expect(try needed() == NeededMarks())
            try account.store.change(
                "INSERT INTO archive(account, jid, state) VALUES (1, 'room@localhost', 1)")
            #expect(try needed() == NeededMarks(areAllNeeded: true))
        }
    }

    @Test("X14 a quiet room needs the marks of its last messages, however old they are")
    func room() async throws {
        try await withModulesRig { rig in
            let account = try rig.account { $0.modules = [RoomsModule()] }
            let module = try account.module(RoomsModule.self)
            try account.store.step { step in
                try step.execute(
                    """
                    INSERT INTO room(account, jid, nick, state, history, ticket, last_time)
                    VALUES (1, 'room@localhost', 'romeo', 'left', x'', '', ?)
                    """, Self.at)
            }
            let needed = try account.store.step { step in try module.neededMarks(of: account, in: step) }
            #expect(
                needed
                    == NeededMarks(senders: [
                        try JID("room@localhost"): Timestamp(milliseconds: Self.at - 120_000)
                    ]))
        }
    }
}
