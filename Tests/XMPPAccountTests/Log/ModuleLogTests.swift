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
    private func lines(_ kept: KeptLog, _ module: AccountLog.Module) -> [String] {
        kept.entries.filter { $0.module == module }.map { "\($0.level.name) \($0.message)" }
    }

    @Test("X26 the roster, copies and the archive tell what they decide, once it is committed")
    func modules() async throws {
        let kept = KeptLog(level: .verbose, showsXML: false)
        try await withRig { rig in
            let account = try await rig.connected(
                [RosterModule(), CarbonsModule(), ArchiveModule(), ChatModule()]
            ) { $0.log = kept.log }
            rig.show(.subscribe, from: "juliet@capulet.example")
            try await account.perform { step in
                _ = try account.chat.send(Message(to: AccountRig.peer, id: "d1", body: "x"), in: step)
            }
            try await account.caughtUp()
            try await eventually {
                lines(kept, .archive).contains {
                    $0.hasPrefix("warning the catch-up with the archive of alice@localhost failed")
                }
            }
            let roster = lines(kept, .roster)
            #expect(roster.first?.hasPrefix("info asks for the roster") == true)
            #expect(roster.contains("info juliet@capulet.example asks to see the presence"))
            #expect(!lines(kept, .messages).isEmpty)
            let before = kept.entries.count
            await #expect(throws: TestApp.Refusal.self) {
                try await account.perform { step in
                    account.note(.error, .roster, "undone", after: step)
                    throw TestApp.Refusal()
                }
            }
            #expect(!kept.entries.dropFirst(before).contains { $0.message == "undone" })
        }
    }

    @Test("X26 a room tells that it is asked, joined and left")
    func rooms() async throws {
        let kept = KeptLog(level: .info, showsXML: false)
        try await withRig { rig in
            _ = ScriptedRoom(rig)
            let account = try await rig.withRooms { $0.log = kept.log }
            try await account.wantRoom()
            try await eventually { try account.room?.state == .joined }
            try await account.rooms.leaveAll()
            try await account.caughtUp()
            let room = ScriptedRoom.jid
            #expect(
                lines(kept, .rooms) == [
                    "info \(room): asks to be let in as Alice", "info \(room): joined as Alice",
                    "info \(room): not in the room any more: left",
                ])
        }
    }

    @Test("X26 trace is a flag of each module beside the level, and changes while the account runs")
    func trace() async throws {
        let kept = KeptLog(level: .error, showsXML: false)
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected { $0.log = kept.log }
            #expect(kept.entries.isEmpty)
            kept.log.setTrace(true, for: .session)
            try await account.suspend()
            try await account.connect()
            try await eventually { !kept.entries.isEmpty }
            #expect(kept.entries.allSatisfy { $0.isTrace && $0.module == .session })
            #expect(kept.lines.contains("trace session alice@localhost: the server answered <resumed/>"))
            kept.log.setTrace(false, for: .session)
            let mark = kept.entries.count
            try await account.suspend()
            try await account.connect()
            try await account.caughtUp()
            #expect(kept.entries.count == mark)
        }
    }

    @Test("X26 a module of the program's own has a name, a level and a trace of its own")
    func ownModule() async throws {
        let kept = KeptLog(level: .warning, showsXML: false)
        let weather = AccountLog.Module(description: "weather")
        try await withRig { rig in
            let account = try await rig.connected { $0.log = kept.log }
            kept.log.setLevel(.verbose, for: weather)
            kept.log.setTrace(true, for: weather)
            try await account.perform { step in
                account.note(.verbose, weather, "it rains", after: step)
                account.trace(weather, "4 mm\u{1B}[2J", after: step)
            }
            try await eventually { kept.entries.count == 2 }
            #expect(kept.lines.first == "verbose weather alice@localhost: it rains")
            #expect(kept.lines.last?.hasPrefix("trace weather alice@localhost: 4 mm") == true)
            #expect(kept.lines.last?.contains("\u{1B}") == false)
        }
    }

    @Test("X26 the store and its handlers tell the account's log, by its levels, and of no account")
    func store() async throws {
        let kept = KeptLog(level: .info, showsXML: false)
        try await withRig { rig in
            kept.log.setLevel(.warning, for: .store)
            func open() throws -> HandlerStore {
                try HandlerStore(
                    path: rig.databasePath, registry: TestApp.registry,
                    schemas: Account.schemas + [TestApp.schema], synchronous: .normal, log: kept.log.handlers)
            }
            let store = try open()
            #expect(kept.entries.isEmpty)
            let account = try await rig.connected(store: store) { $0.log = kept.log }
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "throw"))
            try await eventually { lines(kept, .handlers).contains { $0.contains("'test.received'") } }
            let entry = try #require(kept.entries.first { $0.message.contains("in quarantine") })
            #expect(entry.account == nil && entry.level == .error && entry.module == .handlers)
            kept.log.setLevel(nil, for: .store)
            _ = try open()
            #expect(kept.lines.last == "info store: opened \(rig.databasePath) as main")
        }
    }
}
