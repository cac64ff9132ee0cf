import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Marks of handled messages go when no copy can come any more, and not before.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ForgettingTests {
    private static let day: Int64 = 86_400_000

    @Test("S9 marks of old messages go; young ones, and those of messages that are not handled yet, stay")
    func age() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            try store.mark("old", age: 31)
            try store.mark("young", age: 29)
            let account = try await rig.connected(store: store)
            try await account.caughtUp()
            try await store.untilForgotten()
            #expect(try store.marks() == ["young"])
            try store.mark("postponed", age: 31, number: 4)
            try store.mark("settled", age: 31)
            try store.forget(account)
            #expect(try store.marks() == ["postponed", "young"])
        }
    }

    @Test("S9 a copy that comes after the old marks have gone is recognized by a mark that stayed")
    func copyAfterwards() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            try store.mark("old", age: 31)
            let account = try await rig.connected(store: store)
            try await account.listen()
            func message() -> Element {
                var element = rig.messageToAlice(nil, "hello")
                element.append(
                    Element(
                        "stanza-id", namespace: Namespaces.sid,
                        attributes: ["by": "alice@localhost", "id": "s1"]))
                return element
            }
            rig.server.send(message(), to: .everyone)
            try await account.caughtUp()
            try await store.untilForgotten()
            rig.server.send(message(), to: .everyone)
            try await account.caughtUp()
            #expect(try store.marks() == ["stanza-id s1"])
            #expect(try store.notes("message") == ["-: hello"])
        }
    }

    @Test(
        "S9 marks of more than one step go, those of an older store too, and it is noted when they are gone")
    func many() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            try store.mark("young", age: 1)
            try store.step { step in
                try step.execute(
                    """
                    WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 4321)
                    INSERT INTO seen SELECT 1, 'peer' || (n % 7) || '@localhost', 'm' || n, n, n, NULL FROM n
                    """)
            }
            let account = try await rig.connected(store: store)
            try await account.caughtUp()
            try await store.untilForgotten()
            #expect(try store.marks() == ["young"])
        }
    }

    @Test(
        "S9 what was forgotten less than a day ago is not looked through again, and a clock set back does not delay it"
    )
    func daily() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            let seen = SeenTable(account: 1) { _ in NeededMarks() }
            try store.setForgottenDaysAgo(0.5)
            let rest = try store.step { step in try seen.timeUntilForgetting(in: step).milliseconds }
            #expect((Self.day / 2 - 60_000...Self.day / 2).contains(rest))
            try store.setForgottenDaysAgo(1.01)
            #expect(try store.step { step in try seen.timeUntilForgetting(in: step) } <= .zero)
            try store.setForgottenDaysAgo(-500)
            #expect(
                try store.step { step in try seen.timeUntilForgetting(in: step) } == .milliseconds(Self.day))
        }
    }

    // MARK: What modules need

    /// Needs marks as a test says; it is given the time.
    private struct Needing: AccountModule {
        static let name = "needing"
        func register(in hooks: inout ModuleHooks) {
            hooks.neededMarks = neededMarks
        }
        let needed: @Sendable (Timestamp) throws -> NeededMarks

        func neededMarks(of account: Account, in step: borrowing Step) throws -> NeededMarks {
            try needed(step.now)
        }
    }

    @Test("S9 a worker forgets nothing, nor does a main program while a module needs every mark")
    func notNow() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            try store.mark("old", age: 31)
            let worker = try await rig.connected(store: store) { $0.role = .worker }
            try await worker.caughtUp()
            #expect(try await worker.drain(for: .seconds(5)))
            await worker.close()
            #expect(try store.marks() == ["old"])
            let asked = Kept(0)
            let module = Needing { _ in
                asked.withLock { $0 += 1 }
                return NeededMarks(areAllNeeded: true)
            }
            let main = try await rig.connected(store: store) { $0.modules = [module] }
            try await main.caughtUp()
            try await eventually { asked.withLock { $0 } > 0 }
            for _ in 0..<3 { try await main.perform { _ in } }
            #expect(try store.marks() == ["old"])
            #expect(try !store.hasForgotten())
        }
    }

    @Test("S9 the marks of a sender that a module needs stay, however old they are")
    func neededSender() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            let room = "room@localhost"
            try store.mark("before", age: 100, peer: room + "/juliet")
            try store.mark("last", age: 60, peer: room + "/juliet")
            try store.mark("stanza-id last", age: 60, peer: room)
            try store.mark("elsewhere", age: 60, peer: "other@localhost/juliet")
            let module = Needing { now in
                NeededMarks(senders: [try JID(room): now - .milliseconds(61 * Self.day)])
            }
            let account = try await rig.connected(store: store) { $0.modules = [module] }
            try await account.caughtUp()
            try await store.untilForgotten()
            #expect(try store.marks() == ["last", "stanza-id last"])
        }
    }

    @Test("S9 the marks of every sender stay since a time that a module needs, and all when a module fails")
    func neededTime() async throws {
        try await withRig { rig in
            let store = try await rig.storeOfAlice()
            let fails = Kept(true)
            let module = Needing { now in
                if fails.withLock({ $0 }) { throw TestApp.Refusal() }
                return NeededMarks(since: now - .milliseconds(61 * Self.day))
            }
            let account = try rig.account(store: store) { $0.modules = [module] }
            try store.mark("before", age: 100)
            try store.mark("last", age: 60)
            #expect(try store.step { step in try account.neededMarks(in: step) }.areAllNeeded)
            fails.withLock { $0 = false }
            try store.forget(account)
            #expect(try store.marks() == ["last"])
        }
    }
}

extension AccountRig {
    /// A store that knows the account, which has looked through no marks yet.
    fileprivate func storeOfAlice() async throws -> HandlerStore {
        let store = try store()
        let account = try account(store: store)
        await account.close()
        return store
    }
}

extension HandlerStore {
    fileprivate func mark(
        _ id: String, age days: Int64, peer: String = "peer@localhost/bot", number: Int64? = nil
    ) throws {
        try step { step in
            let seen = SeenTable(account: 1) { _ in NeededMarks() }
            var sender = try seen.senders.sender(JID(peer).bare, in: step)
            let at = step.now - .seconds(days * 86_400)
            try step.execute(
                "INSERT INTO seen_mark(sender, at, mark, account, number) VALUES (?, ?, ?, 1, ?)", sender.id,
                at,
                SeenTable.Mark.bytes(peer: peer, id: ForeignText(id), digest: 0), number)
            sender.recorded(at: at)
            try seen.senders.store(sender, limit: .max, in: step)
        }
    }

    /// The ids of the marks that are kept: of those that these tests make, for a mark tells nothing but that it is there.
    fileprivate func marks() throws -> [String] {
        let peers = ["peer@localhost/bot", "alice@localhost", "room@localhost", "room@localhost/juliet"]
        let ids = [
            "before", "elsewhere", "last", "old", "postponed", "settled", "stanza-id last", "stanza-id s1",
            "young",
        ]
        var names: [[UInt8]: String] = [:]
        for peer in peers {
            for id in ids { names[SeenTable.Mark.bytes(peer: peer, id: ForeignText(id), digest: 0)] = id }
        }
        let marks = try step { step in
            try step.all("SELECT mark FROM seen_mark") { (row) throws(HandlerError) in row.blob(0) }
        }
        let counted = try step { step in
            try step.first("SELECT coalesce(sum(marks), 0) FROM seen_sender") { (row) throws(HandlerError) in
                row.integer(0)
            }
        }
        #expect(counted == Int64(marks.count))
        return marks.map { names[$0] ?? "?" }.sorted()
    }

    fileprivate func forget(_ account: Account) throws {
        try step { step in
            var walk = SeenTable.Walk(
                age: .seconds(30 * 86_400), needed: try account.neededMarks(in: step), now: step.now)
            while try account.seen.forget(&walk, in: step) {}
        }
    }

    fileprivate func setForgottenDaysAgo(_ days: Double) throws {
        try step { step in
            try step.execute("UPDATE account SET forgot_at = ?", step.now - .seconds(days * 86_400))
        }
    }

    fileprivate func hasForgotten() throws -> Bool {
        try step { step in
            try step.first("SELECT forgot_at FROM account") { (row) throws(HandlerError) in row.integer(0) }
        } != 0
    }

    fileprivate func untilForgotten() async throws { try await eventually { try hasForgotten() } }
}
