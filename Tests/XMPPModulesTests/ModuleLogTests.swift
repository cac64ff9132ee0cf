import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// What modules tell the log, and how it is chosen.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ModuleLogTests {
    private func lines(_ kept: KeptLog, _ module: String) -> [String] {
        kept.entries.filter { $0.module == module }.map { "\($0.level) \($0.message)" }
    }

    @Test("X26 the roster, copies and the archive tell what they decide, once it is committed")
    func modules() async throws {
        let kept = KeptLog(level: .verbose, showsXML: false)
        try await withModulesRig { rig in
            let account = try await rig.connected(
                [RosterModule(), CarbonsModule(), ArchiveModule(), ChatModule()]
            ) { $0.log = kept.log }
            rig.show(.subscribe, from: "juliet@capulet.example")
            try await account.perform { step in
                _ = try account.chat.send(Message(to: AccountRig.peer, id: "d1", body: "x"), in: step)
            }
            try await account.caughtUp()
            try await eventually {
                lines(kept, "archive").contains {
                    $0.hasPrefix("warning the catch-up with the archive of alice@localhost failed")
                }
            }
            let roster = lines(kept, "roster")
            #expect(roster.first?.hasPrefix("info asks for the roster") == true)
            #expect(roster.contains("info juliet@capulet.example asks to see the presence"))
            #expect(!lines(kept, "messages").isEmpty)
            let before = kept.entries.count
            await #expect(throws: TestApp.Refusal.self) {
                try await account.perform { step in
                    account.log(.error, .roster, "undone", after: step)
                    throw TestApp.Refusal()
                }
            }
            #expect(!kept.entries.dropFirst(before).contains { $0.message == "undone" })
        }
    }

    @Test("X26 a room tells that it is asked, joined and left")
    func rooms() async throws {
        let kept = KeptLog(level: .info, showsXML: false)
        try await withModulesRig { rig in
            _ = ScriptedRoom(rig)
            let account = try await rig.withRooms { $0.log = kept.log }
            try await account.wantRoom()
            try await eventually { try account.room?.state == .joined }
            try await account.perform { try account.rooms.leaveAll(in: $0) }
            try await account.caughtUp()
            let room = ScriptedRoom.jid
            #expect(
                lines(kept, "rooms") == [
                    "info \(room): asks to be let in as Alice", "info \(room): joined as Alice",
                    "info \(room): not in the room any more: left",
                ])
        }
    }
}
